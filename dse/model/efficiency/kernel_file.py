"""efficiencies.yaml: the fitted kernels of one or more devices, each parameter with its unit, its uncertainty and where it is from.

They are read here, without what evaluates them; written.py writes them.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, field_validator, model_validator

from dse.base.dtype import BITS_PER_ELEMENT, check_dtype_name, parse_dtype, parse_roles, storage_dtype
from dse.base.errors import did_you_mean
from dse.base.strict_model import StrictModel, field_error
from dse.base.units import SourceKind
from dse.base.yaml_document import load_document
from dse.model.efficiency import interval, tiles
from dse.model.efficiency.launches import KernelKey, KernelLaunches
from dse.model.efficiency.parameters import PARAMETERS, from_values

if TYPE_CHECKING:
    from dse.model.efficiency.kernel_model import KernelModel

DEVIATION = 1.253  # of a normal distribution over its mean size, sqrt(pi / 2)
SHIPPED = Path(__file__).with_name("efficiencies.yaml")


class Estimate(StrictModel):
    """A number in SI units and the limits of nine tenths: of the bootstrap's samples, or of the prior if it is `assumed`."""

    value: float
    low: float
    high: float
    unit: str
    kind: SourceKind = "measured"


class RatesRecord(StrictModel):
    """The rates of unit and memory, as `launches.Rates`; NaN is left out."""

    peak: float = Field(gt=0)
    bandwidth: float = Field(gt=0)
    cache: float = Field(ge=0)
    issue: float | None = None
    processors: float | None = None
    launch: float | None = None
    scratchpad: float | None = None


class KernelRecord(StrictModel):
    device: str
    unit: str
    kernel: str
    release: str = ""
    family: str
    dtype: str = Field(description="of which it computes, and what is stored otherwise, as in 'int8 outputs=int32'")
    tile: str | None = None
    deeper: tuple[tuple[float, str | None], ...] = Field((), description="from which k on it takes which other tile (null: the fastest)")
    splits: bool = Field(True, description="whether it may cut k, where it has no one tile")
    least: int = Field(1, ge=1, description="shortest edge of the tiles that it chooses from, where it has no one tile")
    processors: float | None = Field(None, gt=0, description="as its waves tell, where no description counts them")
    power_slots: bool = False
    shapes: int = Field(gt=0)
    launches: int = Field(gt=0)
    error: float = Field(ge=0, description="mean error of the times that it was fitted to, each relative to the measured one")
    constant: float = Field(gt=0, le=1, description="share of the speed of light, the geometric mean of what was measured: E of 'r3'")
    sources: tuple[str, ...]
    shared: str | None = Field(None, description="what the rows of a block share: the columns of N:4, or those of vectors")
    heights: tuple[int, ...] = Field((), description="how many rows share it, in the patterns that were measured")
    density: tuple[float, float] = Field((1.0, 1.0), description="least and most that was measured")
    staged: tuple[tuple[float, float], ...] = Field(
        (), description="density, and bytes that a tile takes of a processor's scratchpad at it"
    )
    rates: RatesRecord
    parameters: dict[str, Estimate]
    half_width: float | None = Field(
        None, ge=0, description="of the 90% interval of the logarithm of a time, by leave-one-shape-out residuals; default: by 'error'"
    )
    sizes: tuple[tuple[float, float], ...] = Field(default=(), max_length=3, description="least and most of m, k and n that was measured")
    draws: tuple[tuple[float, ...], ...] = Field(
        default=(), description="parameters of the bootstrap, in files of earlier versions; not used"
    )

    @field_validator("dtype")
    @classmethod
    def _check_dtype(cls, text: str) -> str:
        for name in parse_roles(text).values():
            check_dtype_name(name)
        return text

    @model_validator(mode="after")
    def _check_parameters(self) -> "KernelRecord":
        for row in ({name: found.value for name, found in self.parameters.items()}, *(self._named(draw) for draw in self.draws)):
            if row.keys() != {p.name for p in PARAMETERS}:
                raise field_error("not the parameters of a kernel", "write " + ", ".join(p.name for p in PARAMETERS))
            for p in PARAMETERS:
                if not p.low * 0.999 <= row[p.name] <= p.high * 1.001:
                    raise field_error(f"{p.name}: {row[p.name]:g} is out of range", f"write a number from {p.low:g} to {p.high:g}")
        return self

    @model_validator(mode="after")
    def _check_tiles(self) -> "KernelRecord":
        for text in (self.tile, *(text for _, text in self.deeper)):
            if text is not None and tiles.named(text) is None:
                raise field_error(
                    f"no kernel here has tiles of '{text}'", did_you_mean(text, list(filter(None, map(tiles.text, tiles.TILES))))
                )
        return self

    @staticmethod
    def _named(draw: tuple[float, ...]) -> dict[str, float]:
        return {p.name: value for p, value in zip(PARAMETERS, draw, strict=False)}

    @property
    def bits(self) -> int:
        """Of a value that it computes with."""
        return BITS_PER_ELEMENT[storage_dtype(self.compute)]

    @property
    def compute(self) -> str:
        """The dtype that it computes in."""
        return parse_dtype(self.dtype).compute

    def interval_half_width(self, launches: KernelLaunches, spread: float = 0.0) -> np.ndarray:
        """Half of the 90% interval of the logarithm of the time of launches [launch].

        It is wider outside the densities and sizes that were measured; `spread`: deviation for what the kernel was not measured with.
        """
        own = DEVIATION * interval.DEVIATIONS * self.error if self.half_width is None else self.half_width
        distance = interval.beyond(launches.density, *self.density)
        for value, limits in zip((launches.m, launches.k, launches.n), self.sizes, strict=False):
            distance = distance + interval.beyond(value, *limits)
        return np.hypot(interval.widened(own, distance), interval.DEVIATIONS * spread)

    def sample_time_factors(self, launches: KernelLaunches, spread: float = 0.0) -> np.ndarray:
        """Samples of how many times as long launches take than the parameters say [1 + sample, launch]; 1 comes first."""
        off = interval.scores(str(self))[:, None] / interval.DEVIATIONS * self.interval_half_width(launches, spread)
        return np.exp(np.concatenate([np.zeros((1, off.shape[1])), off]))

    def __str__(self) -> str:
        return str(self.key)

    @property
    def key(self) -> KernelKey:
        return KernelKey(self.device, self.unit, self.kernel, self.release, self.family, self.dtype)

    @cached_property
    def model(self) -> "KernelModel":
        """What tells its times, in JAX, which reading a file is spared."""
        from dse.model.efficiency.kernel_model import KernelModel

        theta = from_values({name: found.value for name, found in self.parameters.items()})
        deeper = tuple((least, tiles.named(text)) for least, text in self.deeper)
        counted = np.nan if self.processors is None else self.processors
        tile, max_k = tiles.named(self.tile), self.sizes[1][1] if len(self.sizes) > 1 else np.inf
        return KernelModel(self.key, theta, tile, self.splits, self.least, self.power_slots, deeper, counted, self.staged, max_k=max_k)


class EfficiencyFile(StrictModel):
    """What `dse calibrate` writes."""

    command: str
    version: str
    measurements: dict[str, str] = Field(description="file: its SHA-256")
    kernels: tuple[KernelRecord, ...]


def load(path: Path) -> EfficiencyFile:
    """Raises InputError."""
    return load_document(path).validate(EfficiencyFile)
