"""Launches of a kernel as arrays: sizes, densities, bytes, and the rates of the unit and the memory that they run on."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from dse.base.dtype import OperandDtypes, parse_dtype
from dse.model.capacity import Product
from dse.model.levels import levels
from dse.schema.accelerator import Accelerator
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS
from dse.sparsity.pattern import Pattern

PerLaunch = Float[np.ndarray, "launch"]


Shape = tuple[int, int, int]


@dataclass(frozen=True, order=True)
class KernelKey:
    """What one set of parameters describes: an execution of one release, in one precision, on one unit of one device."""

    device: str
    unit: str
    kernel: str
    release: str
    family: str
    dtype: str

    @property
    def precision(self) -> OperandDtypes:
        """What the text `dtype` states of each operand."""
        return parse_dtype(self.dtype)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.device, self.kernel, self.release, self.family, self.dtype)))


def family(pattern: Pattern) -> str:
    """The pattern with the number that sets its density left open; V:N:M is N:4 in the columns that it chooses."""
    if isinstance(pattern, VNM):
        return f"*:{VNM_COLUMNS}"
    if isinstance(pattern, NM):
        return f"*:{pattern.m}" + (f"x{pattern.v}" if pattern.v > 1 else "")
    return str(pattern)


@dataclass(frozen=True, eq=False)
class DeviceRates:
    """What a description says of unit and memory [FLOP/s, FLOP/s, B/s, B, 1, s, B]; what it is silent about is NaN, no cache 0."""

    peak: float
    issue: float
    bandwidth: float
    cache: float
    processors: float = np.nan
    launch: float = np.nan
    scratchpad: float = np.nan

    @classmethod
    def from_accelerator(cls, device: Accelerator, unit: str, name: str) -> "DeviceRates":
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
class KernelLaunches:
    """Launches of one kernel; `slots` is M of an N:M (else 0), `spread` the deviation of the nonzeros in a row over their mean,
    `value_bytes` and `output_bytes` those of a value of B and of C, `staged` what a tile takes of a scratchpad [B], NaN where that is not
    known, `needed` the share of k where A has any nonzero.

    A launch may be of several `products` of one size: groups of a convolution, heads of an attention.
    """

    key: KernelKey
    rates: DeviceRates
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

    def take(self, chosen: np.ndarray) -> "KernelLaunches":
        arrays = {name: value[chosen] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays)

    def on(self, other: "KernelLaunches") -> "KernelLaunches":
        """These launches with the rates of another kernel's device."""
        return replace(self, rates=other.rates, key=other.key)


def random_row_spread(density: Any, k: Any) -> Any:
    """Deviation of the nonzeros in a row of k over their mean, if each stands where it does by chance."""
    return np.sqrt((1 - density) / (density * k))
