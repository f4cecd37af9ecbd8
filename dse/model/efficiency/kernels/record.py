"""Fitted kernels as efficiencies.yaml stores them: each parameter with its unit, interval and kind of source.

Reading a record needs no JAX; `KernelRecord.model` predicts times with it. `dse.calibrate.fit.export` writes records.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from pydantic import Field, field_validator, model_validator

from dse.base.dtype import BITS_PER_ELEMENT, check_dtype_name, parse_dtype, parse_roles, storage_dtype
from dse.base.errors import did_you_mean
from dse.base.strict_model import StrictModel, field_error
from dse.model.efficiency import interval
from dse.model.efficiency.kernels.discrepancy import SIZES, Discrepancy
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches, PerLaunch
from dse.model.efficiency.kernels.parameters import PARAMETERS, TILES, format_tile, kernel_theta, parse_tile
from dse.model.efficiency.parameter import Estimate, Theta, round_estimate

if TYPE_CHECKING:
    from dse.model.efficiency.kernels.model import KernelModel

DEVIATION_PER_MEAN_ERROR = 1.253  # standard deviation of a normal variable over its mean absolute value, sqrt(pi / 2)
LEAST_DEVIATION = 1e-6  # of a discrepancy, so that repeated launches do not contradict each other
COLUMNS = (*SIZES, "log(measured / predicted time)")  # of a launch of a discrepancy


class RatesRecord(StrictModel):
    """The `DeviceRates` that a kernel was fitted with; unknown ones are absent."""

    peak: float = Field(gt=0)
    bandwidth: float = Field(gt=0)
    cache: float = Field(ge=0)
    issue: float | None = None
    processors: float | None = None
    launch: float | None = None
    scratchpad: float | None = None
    energy_budget: float | None = None
    max_clock: float = 1.0
    memory: str | None = None


class DiscrepancyRecord(StrictModel):
    """Lengths [doublings] and standard deviations of a Gaussian process, and the launches that determine it."""

    lengths: tuple[float, ...] = Field(
        min_length=4, max_length=4, description="in which the correlation falls to 1/e, for m, k, n and the density [doublings]"
    )
    deviation: float = Field(ge=LEAST_DEVIATION, description="standard deviation of the logarithm of a time far from all launches")
    noise: float = Field(ge=LEAST_DEVIATION, description="of the logarithm of a single measured time")
    own: float = Field(0.0, ge=0, description="of what the device adds, where the launches are those of its library on other devices")
    half_width: float = Field(ge=0, description="of the 90% interval of the logarithm of a time far from all launches")
    launches: str = Field(description="m, k, n, density and log(measured / predicted time) of a launch in each line")

    @model_validator(mode="after")
    def _check_launches(self) -> "DiscrepancyRecord":
        if min(self.lengths) <= 0:
            raise field_error("a length is not positive", "fit the measurements again with 'dse calibrate'")
        for line in self.launches.splitlines():
            if not _is_row(line):
                raise field_error(f"'{line[:60]}' is not a launch", "write five numbers: " + ", ".join(COLUMNS))
        return self

    @classmethod
    def of(cls, discrepancy: Discrepancy, half_width: float) -> "DiscrepancyRecord":
        """The record of a fitted discrepancy."""
        rows = zip(np.exp2(discrepancy.sizes), discrepancy.log_ratios, strict=True)
        lines = [" ".join([*(f"{size:.10g}" for size in sizes), f"{ratio:.4f}"]) for sizes, ratio in rows]
        return cls(
            lengths=tuple(map(round_estimate, discrepancy.lengths)),
            deviation=max(LEAST_DEVIATION, round_estimate(discrepancy.deviation)),
            noise=max(LEAST_DEVIATION, round_estimate(discrepancy.noise)),
            own=round_estimate(discrepancy.own), half_width=half_width,
            launches="\n".join(lines) + "\n",
        )  # fmt: skip

    def discrepancy(self) -> Discrepancy:
        """The discrepancy as predictions use it."""
        rows = np.array(self.launches.split(), float).reshape(-1, len(COLUMNS))
        return Discrepancy(np.log2(rows[:, :-1]), rows[:, -1], np.array(self.lengths), self.deviation, self.noise, self.own)


class KernelRecord(StrictModel):
    """One fitted kernel of efficiencies.yaml: its identity, the form and parameters of its model, and what it was fitted to."""

    device: str
    unit: str
    kernel: str
    release: str = ""
    family: str
    dtype: str = Field(description="in which it computes, then each operand that is stored in another, as in 'int8 outputs=int32'")
    tile: str | None = None
    splits: bool = Field(True, description="whether it may split k, if it has several tiles")
    least: int = Field(1, ge=1, description="shortest edge of its tiles, if it has several")
    processors: float | None = Field(None, gt=0, description="estimated from waves, if no description states them")
    power_slots: bool = Field(False, description="whether it pads N of an N:M pattern to a power of two")
    shapes: int = Field(gt=0)
    launches: int = Field(gt=0)
    error: float = Field(ge=0, description="mean relative error of the parameters in the times that they were fitted to")
    constant: float = Field(gt=0, le=1, description="geometric mean of the measured shares of the speed of light: E of 'r3'")
    sources: tuple[str, ...]
    shared: str | None = Field(None, description="what the rows of a block share: the columns of N:4, or those of vectors")
    heights: tuple[int, ...] = Field((), description="how many rows share it, in the measured patterns")
    density: tuple[float, float] = Field((1.0, 1.0), description="least and greatest measured density")
    staged: tuple[tuple[float, float], ...] = Field((), description="density, and the scratchpad that a tile takes at it [B]")
    rates: RatesRecord
    parameters: dict[str, Estimate]
    half_width: float | None = Field(
        None, ge=0, description="of the 90% interval of the logarithm of a time, from leave-one-shape-out residuals; default: from 'error'"
    )
    discrepancy: DiscrepancyRecord | None = Field(None, description="what the parameters leave unexplained at each measured shape")
    sizes: tuple[tuple[float, float], ...] = Field(default=(), max_length=3, description="least and greatest measured m, k and n")

    @field_validator("dtype")
    @classmethod
    def _check_dtype(cls, text: str) -> str:
        for name in parse_roles(text).values():
            check_dtype_name(name)
        return text

    @model_validator(mode="after")
    def _check_parameters(self) -> "KernelRecord":
        if self.parameters.keys() != {p.name for p in PARAMETERS}:
            fix = "fit the measurements again with 'dse calibrate'; a kernel has " + ", ".join(p.name for p in PARAMETERS)
            raise field_error("not the parameters of a kernel", fix)
        for p in PARAMETERS:
            if not p.low * 0.999 <= (value := self.parameters[p.name].value) <= p.high * 1.001:
                raise field_error(f"{p.name}: {value:g} is out of range", f"write a number from {p.low:g} to {p.high:g}")
        return self

    @model_validator(mode="after")
    def _check_tile(self) -> "KernelRecord":
        if self.tile is not None and parse_tile(self.tile) is None:
            raise field_error(
                f"'{self.tile}' is not a tile of any kernel", did_you_mean(self.tile, list(filter(None, map(format_tile, TILES))))
            )
        return self

    @cached_property
    def theta(self) -> Theta:
        """The parameters in the order of `PARAMETERS`, as fits work on them."""
        return kernel_theta({name: estimate.value for name, estimate in self.parameters.items()})

    @cached_property
    def theta_deviation(self) -> Theta:
        """Standard deviation of each theta given the measurements, from the 90% intervals of the parameters."""
        low, high = (kernel_theta({name: getattr(e, end) for name, e in self.parameters.items()}) for end in ("low", "high"))
        return (high - low) / (2 * interval.Z_SCORE)

    def __str__(self) -> str:
        return str(self.key)

    @cached_property
    def key(self) -> KernelKey:
        """The identity of the kernel."""
        return KernelKey(self.device, self.unit, self.kernel, self.release, self.family, self.dtype)

    @cached_property
    def compute_dtype(self) -> str:
        """The dtype in which it computes."""
        return parse_dtype(self.dtype).compute

    @property
    def value_bits(self) -> int:
        """Width of a value of `compute_dtype` in memory [bit]."""
        return BITS_PER_ELEMENT[storage_dtype(self.compute_dtype)]

    @property
    def has_scales(self) -> bool:
        """Whether an operand is stored with scales of its own."""
        return self.key.has_scales

    @property
    def half_width_or_estimate(self) -> float:
        """Half width of the 90% interval of the logarithm of a time; where the file states none, estimated from the mean error."""
        return DEVIATION_PER_MEAN_ERROR * interval.Z_SCORE * self.error if self.half_width is None else self.half_width

    def interval_half_width(self, launches: KernelLaunches) -> PerLaunch:
        """Half width of the 90% interval of the logarithm of the time of each launch.

        It narrows towards measured launches where their discrepancy is known, and widens outside the measured densities and sizes.
        """
        half_width = self.half_width_or_estimate
        if self.discrepancy is not None:
            half_width = self.discrepancy.half_width * self.model.relative_deviation(launches)
        distance = interval.log_distance(launches.density, *self.density)
        for size, measured_range in zip((launches.m, launches.k, launches.n), self.sizes, strict=False):
            distance = distance + interval.log_distance(size, *measured_range)
        return interval.widen_half_width(half_width, distance)

    def sample_time_factors(self, launches: KernelLaunches) -> Float[np.ndarray, "sample launch"]:
        """Samples of actual over predicted time; the first is 1."""
        return interval.sample_factors(str(self), self.interval_half_width(launches))

    @cached_property
    def fitted_discrepancy(self) -> Discrepancy | None:
        """What the parameters leave unexplained."""
        return None if self.discrepancy is None else self.discrepancy.discrepancy()

    @cached_property
    def model(self) -> "KernelModel":
        """The model that predicts its times; it imports JAX, which reading a file does not need."""
        from dse.model.efficiency.kernels.model import KernelModel

        return KernelModel(
            self.key, self.theta, tile=parse_tile(self.tile), splits_k=self.splits, min_edge=self.least,
            pads_to_power_of_two=self.power_slots,
            processors=np.nan if self.processors is None else self.processors, staged_bytes=self.staged,
            max_k=self.sizes[1][1] if len(self.sizes) > 1 else np.inf, discrepancy=self.fitted_discrepancy,
        )  # fmt: skip


def _is_row(line: str) -> bool:
    try:
        values = [float(text) for text in line.split()]
    except ValueError:
        return False
    return len(values) == len(COLUMNS) and min(values[:-1]) > 0 and bool(np.isfinite(values).all())
