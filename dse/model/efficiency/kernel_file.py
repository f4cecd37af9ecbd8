"""efficiencies.yaml: fitted kernels as they are stored, each parameter with its unit, interval and kind of source.

Reading the file needs no JAX; `KernelRecord.model` predicts times with it. `dse.calibrate.export` writes the file.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from pydantic import Field, field_validator, model_validator

from dse.base.dtype import BITS_PER_ELEMENT, check_dtype_name, parse_dtype, parse_roles, storage_dtype
from dse.base.errors import did_you_mean
from dse.base.strict_model import StrictModel, field_error
from dse.base.yaml_document import load_document
from dse.model.efficiency import interval
from dse.model.efficiency.attention_file import AttentionRecord
from dse.model.efficiency.discrepancy import Discrepancy
from dse.model.efficiency.discrepancy_file import DiscrepancyRecord
from dse.model.efficiency.estimate import Estimate
from dse.model.efficiency.launches import KernelKey, KernelLaunches, PerLaunch
from dse.model.efficiency.parameters import PARAMETERS, Theta, values_to_theta
from dse.model.efficiency.tiles import TILES, format_tile, parse_tile

if TYPE_CHECKING:
    from dse.model.efficiency.kernel_model import KernelModel

DEVIATION_PER_MEAN_ERROR = 1.253  # standard deviation of a normal variable over its mean absolute value, sqrt(pi / 2)
SHIPPED = Path(__file__).with_name("efficiencies.yaml")


class RatesRecord(StrictModel):
    """The `launches.DeviceRates` that a kernel was fitted with; unknown ones are absent."""

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
        return values_to_theta({name: estimate.value for name, estimate in self.parameters.items()})

    @cached_property
    def theta_deviation(self) -> Theta:
        """Standard deviation of each theta given the measurements, from the 90% intervals of the parameters."""
        low, high = (values_to_theta({name: getattr(e, end) for name, e in self.parameters.items()}) for end in ("low", "high"))
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

    def interval_half_width(self, launches: KernelLaunches, log_deviation: float = 0.0) -> PerLaunch:
        """Half width of the 90% interval of the logarithm of the time of each launch.

        It narrows towards measured launches where their discrepancy is known, and widens outside the measured densities and sizes.
        `log_deviation`: further standard deviation, for a kernel of another device or pattern.
        """
        half_width = DEVIATION_PER_MEAN_ERROR * interval.Z_SCORE * self.error if self.half_width is None else self.half_width
        if self.discrepancy is not None:
            half_width = self.discrepancy.half_width * self.model.relative_deviation(launches)
        distance = interval.log_distance(launches.density, *self.density)
        for size, measured_range in zip((launches.m, launches.k, launches.n), self.sizes, strict=False):
            distance = distance + interval.log_distance(size, *measured_range)
        return np.hypot(interval.widen_half_width(half_width, distance), interval.Z_SCORE * log_deviation)

    def sample_time_factors(self, launches: KernelLaunches, log_deviation: float = 0.0) -> Float[np.ndarray, "sample launch"]:
        """Samples of actual over predicted time; the first is 1."""
        return interval.sample_factors(str(self), self.interval_half_width(launches, log_deviation))

    @cached_property
    def fitted_discrepancy(self) -> Discrepancy | None:
        """What the parameters leave unexplained."""
        return None if self.discrepancy is None else self.discrepancy.discrepancy()

    @cached_property
    def model(self) -> "KernelModel":
        """The model that predicts its times; it imports JAX, which reading a file does not need."""
        from dse.model.efficiency.kernel_model import KernelModel

        return KernelModel(
            self.key, self.theta, tile=parse_tile(self.tile), splits_k=self.splits, min_edge=self.least,
            pads_to_power_of_two=self.power_slots,
            processors=np.nan if self.processors is None else self.processors, staged_bytes=self.staged,
            max_k=self.sizes[1][1] if len(self.sizes) > 1 else np.inf, discrepancy=self.fitted_discrepancy,
        )  # fmt: skip


FittedRecord = KernelRecord | AttentionRecord  # of a product, or of a fused attention


class EfficiencyFile(StrictModel):
    """The content of efficiencies.yaml, as `dse calibrate` writes it."""

    command: str
    version: str
    measurements: dict[str, str] = Field(description="SHA-256 of each file of measurements")
    kernels: tuple[KernelRecord, ...]
    attention: tuple[AttentionRecord, ...] = Field(default=(), description="fused attention kernels")

    @property
    def records(self) -> tuple[FittedRecord, ...]:
        """All fitted kernels."""
        return *self.kernels, *self.attention


def load_efficiency_file(path: Path) -> EfficiencyFile:
    """Read a file of fitted kernels; raises InputError."""
    return load_document(path).validate(EfficiencyFile)
