"""The kinds of sparsity patterns.

| text           | meaning                                                                                         |
|----------------|-------------------------------------------------------------------------------------------------|
| `dense`        | all elements are kept                                                                           |
| `unstructured` | any fraction of single elements (also `block:1x1`)                                              |
| `block:RxC`    | any fraction of R x C blocks, each kept or dropped as a whole (`vector:V` is `block:Vx1`)       |
| `row` `column` | any fraction of whole rows, of whole columns                                                    |
| `channel`      | any fraction of input channels: all columns of one, one for each offset of the layer's kernel   |
| `N:M`          | at most N of each aligned group of M along k                                                    |
| `N:MxV`        | N:M with the same positions in V neighbouring rows                                              |
| `V:N:M`        | 4 columns of each V x M block, then N of those 4 in each row (VENOM, arXiv 2310.02065)          |
| `A/B`          | B inside the tiles that A keeps (HighLight, arXiv 2305.12718): an outer N:M counts tiles of B   |
| `block:RxC*`   | a family: blocks of any multiple of R by any multiple of C                                      |
| `V:N:*`        | a family: V:N:M with any M                                                                      |

`A/B` is in `dse.sparsity.hierarchy`.
"""

from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from dse.sparsity.pattern import FibreCounts, FloatOrArray, GroupLimit, Pattern

VNM_COLUMNS = 4  # columns that V:N:M keeps of each group, for N:4 hardware


@dataclass(frozen=True)
class Dense(Pattern):
    """All elements are kept."""

    def __str__(self) -> str:
        return "dense"

    def allows_masks_of(self, other: Pattern) -> bool:
        return True

    @property
    def stores_zeros(self) -> bool:
        return True

    @property
    def density(self) -> float:
        return 1.0

    def stored_elements(self, m: FloatOrArray, k: FloatOrArray, density: FloatOrArray) -> FloatOrArray:
        return m * k * np.ones_like(density, float)  # zeros included


@dataclass(frozen=True)
class Block(Pattern):
    """Any fraction of `rows` x `columns` blocks; 1 x 1 is `unstructured`."""

    rows: int
    columns: int

    def __str__(self) -> str:
        return "unstructured" if self.tile == (1, 1) else f"block:{self.rows}x{self.columns}"

    @property
    def granularity(self) -> tuple[float, float]:
        return self.tile

    @property
    def has_free_tiles(self) -> bool:
        return True

    @property
    def omission_block(self) -> tuple[float, float, float]:
        return (self.rows, self.columns, 1)

    @property
    def tile(self) -> tuple[int, int]:
        return (self.rows, self.columns)


UNSTRUCTURED = Block(1, 1)
DENSE = Dense()


@dataclass(frozen=True)
class BlockFamily(Pattern):
    """Blocks whose sizes are any multiple of `base`; hardware that lists it stores each mask in the block size of its pattern.

    The legal masks are those of `base`. `base`, which stores them in smaller blocks, is below the family.
    """

    base: Block

    def __str__(self) -> str:
        return f"block:{self.base.rows}x{self.base.columns}*"

    @property
    def granularity(self) -> tuple[float, float]:
        return self.base.granularity

    @property
    def has_free_tiles(self) -> bool:
        return True

    def storage_pattern_for(self, pattern: Pattern) -> Pattern | None:
        if not self.allows_masks_of(pattern):
            return None
        return pattern if isinstance(pattern, Block) else self.base

    @property
    def omission_block(self) -> tuple[float, float, float]:
        return (*self.base.tile, inf)

    @property
    def tile(self) -> tuple[int, int]:
        return self.base.tile


@dataclass(frozen=True)
class Structured(Pattern):
    """Any fraction of whole rows, columns or input channels: compaction leaves a smaller dense matrix, which every unit runs.

    The number of columns of a channel depends on the layer; a matrix alone only shows that whole columns are kept.
    """

    axis: Literal["row", "column", "channel"]

    def __str__(self) -> str:
        return self.axis

    @property
    def granularity(self) -> tuple[float, float]:
        return (1, inf) if self.axis == "row" else (inf, 1)

    def allows_masks_of(self, other: Pattern) -> bool:
        return other == self if self.axis == "channel" else super().allows_masks_of(other)

    def levels(self, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> list[FibreCounts]:
        return [FibreCounts(1.0, m, stored / k) if self.axis == "row" else FibreCounts(1.0, k, stored / m)]


class _FixedGroups(Pattern):
    """At most `n` of each group of `m` along k in each row; the choices of `v` rows depend on each other."""

    n: int
    m: int
    v: int

    @property
    def density(self) -> float:
        return self.n / self.m

    @property
    def tile(self) -> tuple[int, int]:
        return (self.v, self.m)

    def stored_elements(self, m: FloatOrArray, k: FloatOrArray, density: FloatOrArray) -> FloatOrArray:
        return self.tile_count(m, k) * self.v * self.n * np.ones_like(density, float)  # every slot, zero or not

    def max_nonzeros(self, m: FloatOrArray, k: FloatOrArray) -> FloatOrArray:
        groups = np.floor(k / self.m)
        return m * (groups * self.n + np.minimum(k - groups * self.m, self.n))

    def levels(self, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> list[FibreCounts]:
        return self.levels_inside(self.tile_count(m, k))


@dataclass(frozen=True)
class NM(_FixedGroups):
    """At most `n` of each aligned group of `m` along k, the same positions in `v` neighbouring rows; n < m (n = m is `dense`)."""

    n: int
    m: int
    v: int = 1

    def __str__(self) -> str:
        return f"{self.n}:{self.m}" if self.v == 1 else f"{self.n}:{self.m}x{self.v}"

    @property
    def granularity(self) -> tuple[float, float]:
        return (self.v, 1)

    @property
    def group_limits(self) -> tuple[GroupLimit, ...]:
        return (GroupLimit(self.v, 1, self.n, self.m),)

    def levels_inside(self, tiles: FloatOrArray) -> list[FibreCounts]:
        return [FibreCounts(tiles, float(self.m), float(self.n))]


@dataclass(frozen=True)
class VNM(_FixedGroups):
    """4 columns of each `v` x `m` block, then at most `n` of those 4 in each row (Castro et al. 2023, VENOM, arXiv 2310.02065)."""

    v: int
    n: int
    m: int

    def __str__(self) -> str:
        return f"{self.v}:{self.n}:{self.m}"

    @property
    def group_limits(self) -> tuple[GroupLimit, ...]:
        return (GroupLimit(self.v, 1, VNM_COLUMNS, self.m), GroupLimit(1, 1, self.n, self.m))

    def levels_inside(self, tiles: FloatOrArray) -> list[FibreCounts]:
        return [FibreCounts(tiles, float(self.m), float(VNM_COLUMNS)), FibreCounts(tiles * self.v, float(VNM_COLUMNS), float(self.n))]


@dataclass(frozen=True)
class VNMFamily(Pattern):
    """`V:N:M` for any M; hardware that lists it gathers columns, and stores each mask with the M of its pattern."""

    v: int
    n: int

    def __str__(self) -> str:
        return f"{self.v}:{self.n}:*"

    def allows_masks_of(self, other: Pattern) -> bool:
        return self == other or self.storage_pattern_for(other) is not None

    def storage_pattern_for(self, pattern: Pattern) -> Pattern | None:
        """The V:N:M with the largest M that allows all masks of `pattern`."""
        groups = sorted(
            {limit.group_size * limit.columns for limit in pattern.group_limits if limit.group_size * limit.columns > VNM_COLUMNS},
            reverse=True,
        )
        return next((member for m in groups if (member := canonicalize_level(VNM(self.v, self.n, m))).allows_masks_of(pattern)), None)


def canonicalize_level(pattern: Pattern) -> Pattern:
    """The canonical pattern of one level: N:N is `dense`, and V:N:M is N:M if V rows can choose at most 4 columns anyway.

    That is the case for V N <= 4, and for M = 4.
    """
    match pattern:
        case NM(n, m) if n == m:
            return DENSE
        case VNM(v, n, m) if v * n <= VNM_COLUMNS or m == VNM_COLUMNS:
            return canonicalize_level(NM(n, m))
        case VNMFamily(v, n) if v * n <= VNM_COLUMNS:
            return VNMFamily(1, n)
    return pattern
