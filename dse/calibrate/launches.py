"""Measured rows grouped by kernel, as arrays: what each launch asks of the machine, and how long it took."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from dse import dtype as dtypes
from dse.accelerator import Accelerator
from dse.calibrate.measured_set import MeasuredSet
from dse.calibrate.measurement import Measurement
from dse.calibrate.plausible import unit_of
from dse.dtype import Dtype
from dse.model.capacity import Product
from dse.model.levels import levels
from dse.sparsity.columns import touched_share
from dse.sparsity.format import default_format
from dse.sparsity.kinds import CHOSEN, NM, VNM
from dse.sparsity.pattern import Pattern

PerLaunch = Float[np.ndarray, "launch"]
Shape = tuple[int, int, int]


@dataclass(frozen=True, order=True)
class Kernel:
    """What one set of parameters describes: an execution of one release, in one precision, on one unit of one device."""

    device: str
    unit: str
    kernel: str
    release: str
    family: str
    dtype: str

    @property
    def precision(self) -> Dtype:
        """What the text `dtype` states of each operand."""
        return dtypes.named(self.dtype)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.device, self.kernel, self.release, self.family, self.dtype)))


def family(pattern: Pattern) -> str:
    """The pattern with the number that sets its density left open; V:N:M is N:4 in the columns that it chooses."""
    if isinstance(pattern, VNM):
        return f"*:{CHOSEN}"
    if isinstance(pattern, NM):
        return f"*:{pattern.m}" + (f"x{pattern.v}" if pattern.v > 1 else "")
    return str(pattern)


@dataclass(frozen=True, eq=False)
class Rates:
    """What a description says of unit and memory [FLOP/s, FLOP/s, B/s, B, 1, s, B]; what it is silent about is NaN, no cache 0."""

    peak: float
    issue: float
    bandwidth: float
    cache: float
    processors: float = np.nan
    launch: float = np.nan
    scratchpad: float = np.nan

    @classmethod
    def of(cls, device: Accelerator, unit: str, name: str) -> "Rates":
        described, inside = device.units[unit], levels(device, "capacity")[0].inside
        issue = described.issue.value if described.issue and name == "fp32" else np.nan
        return cls(
            described.peak[name].value, issue, device.value(f"memory.{device.outermost}.bandwidth"),
            device.value(inside) if inside else 0.0,
            described.processors.value if described.processors else np.nan,
            device.overhead.launch.value if device.overhead.launch else np.nan,
            described.scratchpad.value if described.scratchpad else np.nan,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Launches:
    """Launches of one kernel; `slots` is M of an N:M (else 0), `spread` the deviation of the nonzeros in a row over their mean,
    `value_bytes` and `output_bytes` those of a value of B and of C, `staged` what a tile takes of a scratchpad [B], NaN where that is not
    known, `needed` the share of k where A has any nonzero.

    A launch may be of several `products` of one size: groups of a convolution, heads of an attention.
    """

    kernel: Kernel
    rates: Rates
    m: PerLaunch
    k: PerLaunch
    n: PerLaunch
    density: PerLaunch
    slots: PerLaunch
    spread: PerLaunch
    weight_bytes: PerLaunch
    value_bytes: float
    output_bytes: float
    time: PerLaunch
    products: PerLaunch | float = 1.0
    staged: PerLaunch | float = np.nan
    needed: PerLaunch | float = 1.0

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def shapes(self) -> list[Shape]:
        return [(int(m), int(k), int(n)) for m, k, n in zip(self.m, self.k, self.n, strict=True)]

    @property
    def product(self) -> Product:
        b, c = self.value_bytes * self.k * self.n, self.output_bytes * self.m * self.n
        return Product(self.m, self.k, self.n, self.weight_bytes, b, c, self.density)

    @property
    def needed_product(self) -> Product:
        """The product where only the rows of B that A needs are read, as no schedule can beat; parameters are fitted to `product`."""
        return replace(self.product, least=self.needed, most=self.needed)

    @property
    def flops(self) -> PerLaunch:
        """Of the stored weights [FLOP]."""
        return 2 * self.m * self.k * self.n * self.density * self.products

    def take(self, chosen: np.ndarray) -> "Launches":
        arrays = {name: value[chosen] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays)

    def on(self, other: "Launches") -> "Launches":
        """These launches with the rates of another kernel's device."""
        return replace(self, rates=other.rates, kernel=other.kernel)


def launches(measured: MeasuredSet) -> dict[Kernel, Launches]:
    """Every kernel of a set, dense ones included; the same launch measured twice counts once, at its mean.

    Masks of one shape and density whose rows are statistically different are different launches.
    """
    grouped: dict[Kernel, dict[tuple[Any, ...], list[Measurement]]] = {}
    for row in measured.runs:
        same = grouped.setdefault(kernel_of(row, measured), {})
        same.setdefault((row.m, row.k, row.n, row.pattern, row.kept, row.row_std, row.staged_kib), []).append(row)
    return {kernel: _launches(kernel, measured.devices[kernel.device], list(groups.values())) for kernel, groups in grouped.items()}


def kernel_of(row: Measurement, measured: MeasuredSet) -> Kernel:
    unit = unit_of(measured.devices[row.device], row)
    assert unit is not None, "checked on loading"
    return Kernel(row.device, unit, row.kernel, row.release, family(row.pattern), row.dtype.text)


def asked(kernel: Kernel, device: Accelerator, shapes: Iterable[Shape], pattern: Pattern, density: float) -> Launches:
    """Launches that nobody measured: their times are NaN."""
    precision = kernel.precision
    rows = [
        Measurement.model_construct(
            device=kernel.device, kernel=kernel.kernel, pattern=pattern, dtype=precision, m=m, k=k, n=n, density=density, time_ms=np.nan
        )
        for m, k, n in shapes
    ]
    return _launches(kernel, device, [[row] for row in rows])


def _launches(kernel: Kernel, device: Accelerator, groups: list[list[Measurement]]) -> Launches:
    rows = [group[0] for group in groups]
    m, k, n, density = (np.array([getattr(row, name) for row in rows], float) for name in ("m", "k", "n", "kept"))
    slots = np.array([row.pattern.m if isinstance(row.pattern, NM) else 0 for row in rows], float)
    bits = np.array([_weight_bits(row) for row in rows])
    time = np.array([np.mean([row.time_ms for row in group]) for group in groups]) / 1e3
    rates = Rates.of(device, kernel.unit, kernel.precision.compute)
    spread = np.array([_spread(row) for row in rows])
    value, output = (kernel.precision.bytes(role) for role in ("activations", "outputs"))
    staged = np.array([np.nan if row.staged_kib is None else 1024 * row.staged_kib for row in rows])
    needed = np.array([float(touched_share(row.pattern, float(row.m), float(row.k), np.float64(row.kept))) for row in rows])
    return Launches(kernel, rates, m, k, n, density, slots, spread, bits / 8, value, output, time, staged=staged, needed=needed)


def _weight_bits(row: Measurement) -> float:
    """Of the values and of what says where they stand, in the usual format of the pattern."""
    m, k = float(row.m), float(row.k)
    stored = float(np.asarray(row.pattern.stored(m, k, row.kept)))
    cost = default_format(row.pattern).cost(row.pattern, m, k, stored)
    return float(np.asarray(8 * row.dtype.bytes("weights") * cost.elements + cost.metadata))


def _spread(row: Measurement) -> float:
    """What the row statistics say; without them rows are alike by rule, or random."""
    if row.row_std is not None:
        return row.row_std / (row.kept * row.k)
    return float(random_spread(row.kept, row.k)) if row.pattern.density is None else 0.0


def random_spread(density: Any, k: Any) -> Any:
    """Deviation of the nonzeros in a row of k over their mean, if each stands where it does by chance."""
    return np.sqrt((1 - density) / (density * k))
