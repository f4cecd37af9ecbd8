"""Launches of one kernel as arrays: sizes, density and bytes of each."""

import re
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from dse.base.dtype import BITS_PER_ELEMENT, OperandDtypes, is_format_with_scales, parse_dtype, parse_roles, storage_dtype
from dse.model.capacity import Product
from dse.model.efficiency.device_rates import DeviceRates
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS
from dse.sparsity.pattern import Pattern

PerLaunch = Float[np.ndarray, "launch"]
Shape = tuple[int, int, int]


@dataclass(frozen=True, order=True)
class KernelKey:
    """Identity of a kernel: one release, for one pattern family in one precision, on one unit of one device."""

    device: str
    unit: str
    kernel: str
    release: str
    family: str
    dtype: str

    @property
    def precision(self) -> OperandDtypes:
        """The dtypes of the operands that the text `dtype` states."""
        return parse_dtype(self.dtype)

    @cached_property
    def has_scales(self) -> bool:
        """Whether an operand is stored with scales of its own, which take passes that other kernels do not have."""
        return any(is_format_with_scales(name) for name in parse_roles(self.dtype).values())

    @cached_property
    def group(self) -> tuple[str, str, int, bool]:
        """What kernels of one population have in common: unit, family, width of a value [bit], and whether operands have scales."""
        return self.unit, self.family, BITS_PER_ELEMENT[storage_dtype(self.precision.compute)], self.has_scales

    def __str__(self) -> str:
        return " ".join(filter(None, (self.device, self.kernel, self.release, self.family, self.dtype)))


def pattern_family(pattern: Pattern) -> str:
    """Text of a pattern without the number that sets its density: `*:4` for 2:4, and for V:N:M, which is N:4 in the columns it keeps."""
    if isinstance(pattern, VNM):
        return f"*:{VNM_COLUMNS}"
    if isinstance(pattern, NM):
        return f"*:{pattern.m}" + (f"x{pattern.v}" if pattern.v > 1 else "")
    return str(pattern)


def shared_rows(family: str) -> int | None:
    """Rows of A that use the same gathered row of B: 1 of unstructured weights, V of `block:Vx1`; None for patterns that gather nothing."""
    vector = re.fullmatch(r"block:(\d+)x1", family)
    return int(vector[1]) if vector else 1 if family == "unstructured" else None


@dataclass(frozen=True, eq=False)
class KernelLaunches:
    """Launches of one kernel, each C[m, n] = A[m, k] B[k, n] with `density` of A stored.

    `slots`: M of an N:M pattern, else 0. `row_spread`: standard deviation of the nonzeros in a row of A over their mean. `weight_bytes`: of
    all of A, with metadata. `activation_bytes`, `output_bytes`: of one element of B and of C. `time`: measured [s], NaN if unmeasured.
    `products`: products of this size in one launch (groups of a convolution, heads of an attention). `staged_bytes`: scratchpad that a tile
    takes [B], NaN if unknown. `needed_share`: share of the k columns of A that have a nonzero. `weight_copies`: matrices A that repeated
    launches multiply in turn.
    """

    key: KernelKey
    rates: DeviceRates
    m: PerLaunch
    k: PerLaunch
    n: PerLaunch
    density: PerLaunch
    slots: PerLaunch
    row_spread: PerLaunch
    weight_bytes: PerLaunch
    activation_bytes: float
    output_bytes: float
    time: PerLaunch
    products: PerLaunch | float = 1.0
    staged_bytes: PerLaunch | float = np.nan
    needed_share: PerLaunch | float = 1.0
    weight_copies: PerLaunch | float = 1.0

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def shapes(self) -> list[Shape]:
        """(m, k, n) of each launch."""
        return [(int(m), int(k), int(n)) for m, k, n in zip(self.m, self.k, self.n, strict=True)]

    @property
    def product(self) -> Product:
        """The products with all of B read, as kernels are fitted."""
        input_bytes, output_bytes = self.activation_bytes * self.k * self.n, self.output_bytes * self.m * self.n
        return Product(self.m, self.k, self.n, self.weight_bytes, input_bytes, output_bytes, self.density)

    @property
    def needed_product(self) -> Product:
        """The products with only those rows of B read that meet a nonzero of A: the lower bound of every schedule."""
        return replace(self.product, needed_lower=self.needed_share, needed_upper=self.needed_share)

    @property
    def repeated_bytes(self) -> PerLaunch:
        """Bytes that repeated launches use in turn: operands and result, with all copies of A."""
        return self.product.compulsory_bytes + (self.weight_copies - 1) * self.weight_bytes

    @property
    def flops(self) -> PerLaunch:
        """FLOPs of the stored weights."""
        return 2 * self.m * self.k * self.n * self.density * self.products

    def take(self, index: Int[np.ndarray, "taken"] | Bool[np.ndarray, "launch"]) -> "KernelLaunches":
        """The launches at an index or under a mask."""
        arrays = {name: value[index] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays)


def random_row_spread(density: PerLaunch | float, k: PerLaunch | float) -> PerLaunch | float:
    """Standard deviation of the nonzeros in a row of k over their mean, if each is placed at random."""
    return np.sqrt((1 - density) / (density * k))
