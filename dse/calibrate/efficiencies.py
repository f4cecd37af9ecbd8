"""efficiencies.yaml: the fitted kernels of one or more devices, each parameter with its unit, its uncertainty and where it is from."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Self

import numpy as np
import yaml
from pydantic import Field, model_validator

from dse import dtype as dtype_
from dse.calibrate.fit import Fitted, informed
from dse.calibrate.kernel import TILES, Tile
from dse.calibrate.ladder import constant_efficiency
from dse.calibrate.launches import Kernel, Launches, kernel_of
from dse.calibrate.measurement import MeasuredSet
from dse.calibrate.parameters import PARAMETERS, Parameter, from_values, values
from dse.document import read
from dse.errors import suggestion
from dse.schema import Part, refusal
from dse.units import Kind

HEAD = """# Parameters of measured kernels. Between low and high lie nine tenths of the bootstrap's draws; what the measurements
# say less of than the prior is marked assumed, with the prior's limits. `draws` are those of all parameters together, in their
# order. `rates` are what the description said when they were fitted [FLOP/s, FLOP/s, B/s, B, 1, s, B]; `density` is the range measured.
"""
DEVIATION = 1.253  # of a normal distribution over its mean size, sqrt(pi / 2)
NINE_TENTHS = 1.645  # deviations of a normal distribution to either side
SHIPPED = Path(__file__).parent / "measured" / "efficiencies.yaml"


class Estimate(Part):
    """A number in SI units and the limits of nine tenths: of the bootstrap's draws, or of the prior if it is `assumed`."""

    value: float
    low: float
    high: float
    unit: str
    kind: Kind = "measured"


class Described(Part):
    """The rates of unit and memory, as `launches.Rates`; NaN is left out."""

    peak: float = Field(gt=0)
    bandwidth: float = Field(gt=0)
    cache: float = Field(ge=0)
    issue: float | None = None
    processors: float | None = None
    launch: float | None = None
    scratchpad: float | None = None


class FittedKernel(Part):
    device: str
    unit: str
    kernel: str
    release: str = ""
    family: str
    dtype: str
    tile: str | None = None
    deeper: tuple[tuple[float, str | None], ...] = Field((), description="from which k on it takes which other tile (null: the fastest)")
    power_slots: bool = False
    shapes: int = Field(gt=0)
    launches: int = Field(gt=0)
    error: float = Field(ge=0, description="mean error of the times that it was fitted to, each relative to the measured one")
    constant: float = Field(gt=0, le=1, description="share of the speed of light, the geometric mean of what was measured: E of 'r3'")
    sources: tuple[str, ...]
    density: tuple[float, float] = Field((1.0, 1.0), description="least and most that was measured")
    staged: tuple[tuple[float, float], ...] = Field(
        (), description="density, and bytes that a tile takes of a processor's scratchpad at it"
    )
    rates: Described
    parameters: dict[str, Estimate]
    draws: tuple[tuple[float, ...], ...] = ()

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        for row in ({name: found.value for name, found in self.parameters.items()}, *(self._named(draw) for draw in self.draws)):
            if row.keys() != {p.name for p in PARAMETERS}:
                raise refusal("not the parameters of a kernel", "write " + ", ".join(p.name for p in PARAMETERS))
            for p in PARAMETERS:
                if not p.low * 0.999 <= row[p.name] <= p.high * 1.001:
                    raise refusal(f"{p.name}: {row[p.name]:g} is out of range", f"write a number from {p.low:g} to {p.high:g}")
        return self

    @model_validator(mode="after")
    def _check_tiles(self) -> Self:
        for text in (self.tile, *(text for _, text in self.deeper)):
            if text is not None and _tile(text) is None:
                raise refusal(f"no kernel here has tiles of '{text}'", suggestion(text, [f"{rows}x{columns}" for rows, columns in TILES]))
        return self

    @staticmethod
    def _named(draw: tuple[float, ...]) -> dict[str, float]:
        return {p.name: value for p, value in zip(PARAMETERS, draw, strict=False)}

    @property
    def bits(self) -> int:
        """Of a value."""
        return dtype_.BITS[dtype_.storage(self.dtype)]

    def misfit(self, draws: int, spread: float = 0.0) -> np.ndarray:
        """How many times as long launches take than the parameters say: 1 by the fit itself, then in each draw by what the fit is off,
        and by a `spread` of the logarithm for where it was not measured."""
        off = np.random.default_rng([*str(self).encode()]).standard_normal(draws)
        return np.concatenate([[1.0], np.exp(np.hypot(DEVIATION * self.error, spread) * off)])

    def __str__(self) -> str:
        return str(self.fitted.kernel)

    @cached_property
    def fitted(self) -> Fitted:
        key = Kernel(self.device, self.unit, self.kernel, self.release, self.family, self.dtype)
        theta = from_values({name: found.value for name, found in self.parameters.items()})
        draws = tuple(from_values(self._named(draw)) for draw in self.draws)
        deeper = tuple((least, _tile(text)) for least, text in self.deeper)
        return Fitted(key, theta, _tile(self.tile), self.power_slots, deeper, self.staged, draws=draws)


class Efficiencies(Part):
    """What `dse calibrate` writes."""

    command: str
    version: str
    measurements: dict[str, str] = Field(description="file: its SHA-256")
    kernels: tuple[FittedKernel, ...]


def load(path: Path) -> Efficiencies:
    """Raises BadInput."""
    return read(path).validate(Efficiencies)


def describe(fitted: Fitted, launches: Launches, measured: MeasuredSet) -> FittedKernel:
    """What is written of one kernel."""
    key, known = fitted.kernel, informed(fitted, launches)
    draws = np.array([list(values(theta).values()) for theta in (fitted.theta, *fitted.draws)])
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    parameters = {
        p.name: Estimate(value=_digits(draws[0, n]), low=_digits(low[n]), high=_digits(high[n]), unit=p.unit)
        if known[n]
        else _assumed(p, draws[0, n])
        for n, p in enumerate(PARAMETERS)
    }
    error = float(np.mean(np.abs(fitted.seconds(launches) / launches.time - 1)))
    sources = sorted({one.source for one in measured.runs if kernel_of(one, measured) == key})
    return FittedKernel(
        device=key.device, unit=key.unit, kernel=key.kernel, release=key.release, family=key.family, dtype=key.dtype,
        tile=_text(fitted.tile), deeper=tuple((_digits(k), _text(tile)) for k, tile in fitted.deeper),
        power_slots=fitted.power_slots, shapes=len(set(launches.shapes)),
        launches=len(launches), error=_digits(error), constant=_digits(constant_efficiency(launches)),
        sources=tuple(sources), parameters=parameters,
        density=(_digits(launches.density.min()), _digits(launches.density.max())), staged=fitted.staged,
        rates=Described(**{name: value for name, value in vars(launches.rates).items() if not np.isnan(value)}),
        draws=tuple(tuple(_digits(value) for value in draw) for draw in draws[1:]),
    )  # fmt: skip


def as_yaml(kernels: Iterable[FittedKernel], paths: Sequence[Path], command: str) -> str:
    """The file for kernels that were fitted to the measurements at `paths`."""
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    found = Efficiencies(command=command, version=version("sparse-dse"), measurements=hashes, kernels=tuple(kernels))
    head = "".join(f"#   {p.name:13} {p.meaning} [{p.unit}]\n" for p in PARAMETERS)
    text = yaml.safe_dump(found.model_dump(mode="json", exclude_none=True), sort_keys=False, default_flow_style=None, width=138)
    return HEAD + head + text


def _assumed(p: Parameter, value: float) -> Estimate:
    """What the measurements say less of than the prior does: its limits are the prior's."""
    low, high = (p.outward(p.inward(p.prior) + sign * NINE_TENTHS * p.spread) for sign in (-1, 1))
    return Estimate(value=_digits(value), low=_digits(low), high=_digits(high), unit=p.unit, kind="assumed")


def _text(tile: Tile | None) -> str | None:
    return f"{tile[0]}x{tile[1]}" if tile else None


def _tile(text: str | None) -> Tile | None:
    return next((tile for tile in TILES if _text(tile) == text), None)


def _digits(value: float) -> float:
    return float(f"{value:.4g}")
