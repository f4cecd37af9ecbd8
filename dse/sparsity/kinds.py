"""Every kind of pattern.

| text           | meaning                                                                                     |
|----------------|---------------------------------------------------------------------------------------------|
| `dense`        | all kept                                                                                    |
| `unstructured` | any fraction of single elements (also `block:1x1`)                                          |
| `block:RxC`    | any fraction of R x C blocks, each kept or dropped whole (`vector:V` is `block:Vx1`)        |
| `row` `column` | any fraction of whole rows, of whole columns                                                |
| `channel`      | any fraction of input channels: all columns of one, as many as the layer's kernel has points  |
| `N:M`          | at most N of each aligned group of M along k                                                |
| `N:MxV`        | the same, chosen once for V neighbouring rows                                               |
| `V:N:M`        | of each V x M block 4 columns, then N of those 4 in each row (VENOM, arXiv 2310.02065)      |
| `A/B`          | B inside what A keeps (HighLight, arXiv 2305.12718): an outer N:M counts tiles of B         |
| `block:RxC*`   | a family: blocks of any multiple of R by any multiple of C                                  |
| `V:N:*`        | a family: any M                                                                             |
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from dse.sparsity.pattern import FibreCounts, FloatOrArray, GroupLimit, Pattern

VNM_COLUMNS = 4  # columns of V:N:M that are left for the N:4 hardware


@dataclass(frozen=True)
class Dense(Pattern):
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
        return m * k * np.ones_like(density, float)  # zeros too


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
    """Blocks of any multiple of `base`: hardware that lists it stores each mask in its own block size.

    The same masks as in `base` are legal, and `base`, which stores them in smaller blocks, is below the family.
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
    """Any fraction of whole rows, columns or input channels: what is left is a smaller dense matrix, which every unit runs.

    How many columns a channel has, the layer says; of a matrix alone all that is sure is that they are whole.
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


class _Grouped(Pattern):
    """At most `n` of each `m` along k in a row, chosen together in some way for `v` rows."""

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
        return self.tile_count(m, k) * self.v * self.n * np.ones_like(density, float)  # every slot, used or not

    def max_nonzeros(self, m: FloatOrArray, k: FloatOrArray) -> FloatOrArray:
        whole = np.floor(k / self.m)
        return m * (whole * self.n + np.minimum(k - whole * self.m, self.n))

    def levels(self, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> list[FibreCounts]:
        return self.levels_inside(self.tile_count(m, k))


@dataclass(frozen=True)
class NM(_Grouped):
    """At most `n` of each aligned group of `m` along k, with n < m (n = m is `dense`), alike in `v` neighbouring rows."""

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
class VNM(_Grouped):
    """Of each `v` x `m` block 4 columns are chosen, then at most `n` of those 4 in each row (Castro et al. 2023, VENOM)."""

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
    """`V:N:M` for any M: hardware that gathers columns stores each mask with its own M."""

    v: int
    n: int

    def __str__(self) -> str:
        return f"{self.v}:{self.n}:*"

    def allows_masks_of(self, other: Pattern) -> bool:
        return self == other or self.storage_pattern_for(other) is not None

    def storage_pattern_for(self, pattern: Pattern) -> Pattern | None:
        """The widest group at which `pattern` is a V:N:M."""
        groups = sorted(
            {limit.group_size * limit.columns for limit in pattern.group_limits if limit.group_size * limit.columns > VNM_COLUMNS},
            reverse=True,
        )
        return next((member for m in groups if (member := canonicalize(VNM(self.v, self.n, m))).allows_masks_of(pattern)), None)


@dataclass(frozen=True)
class Hierarchy(Pattern):
    """`inner` inside what `outer` keeps: any fraction of blocks, or N of every M tiles of the inner one along k.

    `full`: every block is kept, as has to be where a mask of another pattern, which leaves no block empty, is stored so.
    """

    outer: Block | NM
    inner: Pattern
    full: bool = False

    def __str__(self) -> str:
        return f"{self.outer}/{self.inner}"

    @property
    def granularity(self) -> tuple[float, float]:
        return self.inner.granularity

    @property
    def has_free_tiles(self) -> bool:
        return isinstance(self.outer, Block)

    @property
    def group_limits(self) -> tuple[GroupLimit, ...]:
        """Those of the inner pattern; that of the outer one, which counts its tiles; and both together, where they nest."""
        if isinstance(self.outer, Block):  # any block may be kept
            return self.inner.group_limits
        (rows, columns), n, m = self.inner.tile, self.outer.n, self.outer.m
        nested = [
            (x, columns // (x.group_size * x.columns))
            for x in self.inner.group_limits
            if columns % (x.group_size * x.columns) == 0 and rows % x.rows == 0
        ]
        both = tuple(GroupLimit(x.rows, x.columns, n * groups * x.max_occupied, m * groups * x.group_size) for x, groups in nested)
        return (GroupLimit(rows, columns, n, m), *both, *self.inner.group_limits)

    def storage_pattern_for(self, pattern: Pattern) -> Pattern | None:
        if not self.allows_masks_of(pattern):
            return None
        blocks = isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block) and pattern.outer.is_below(self.outer)
        return self if isinstance(self.outer, NM) or blocks else replace(self, full=True)

    @property
    def omission_block(self) -> tuple[float, float, float]:
        return self.outer.omission_block if isinstance(self.outer, Block) and not self.full else super().omission_block

    @property
    def density(self) -> float | None:
        if isinstance(self.outer, Block):
            return self.inner.density if self.full else None
        return self.outer.density * density_of_kept_blocks(self.inner)

    @property
    def tile(self) -> tuple[int, int]:
        if isinstance(self.outer, Block):
            return self.outer.tile
        return (self.inner.tile[0], self.inner.tile[1] * self.outer.m)

    @property
    def _stored_in_tile(self) -> float:
        rows, columns = self.tile
        if isinstance(self.outer, Block):
            return float(self.inner.stored_elements(float(rows), float(columns), 1.0))
        return self.outer.n * float(self.inner.stored_elements(float(self.inner.tile[0]), float(self.inner.tile[1]), 1.0))

    def stored_elements(self, m: FloatOrArray, k: FloatOrArray, density: FloatOrArray) -> FloatOrArray:
        if self.density is not None:
            return self.tile_count(m, k) * self._stored_in_tile * np.ones_like(density, float)
        kept = np.minimum(density / (self.inner.density or 1.0), 1.0)  # share of the blocks, each as full as it may be
        return kept * self.tile_count(m, k) * self._stored_in_tile

    def max_nonzeros(self, m: FloatOrArray, k: FloatOrArray) -> FloatOrArray:
        if isinstance(self.outer, Block):
            return self.inner.max_nonzeros(m, k)
        columns, n = self.inner.tile[1], self.outer.n
        whole = np.floor(k / (columns * self.outer.m))
        rest = k - whole * columns * self.outer.m
        tiles = np.floor(rest / columns)  # the last group is cut, and so may be its last tile
        of_a_tile = self.inner.max_nonzeros(m, columns * np.ones_like(k, float))
        last = np.where(tiles < n, self.inner.max_nonzeros(m, rest - tiles * columns), 0.0)
        return (whole * n + np.minimum(tiles, n)) * of_a_tile + last

    def levels_inside(self, tiles: FloatOrArray) -> list[FibreCounts]:
        if isinstance(self.outer, Block):
            (rows, columns), (inner_rows, inner_columns) = self.outer.tile, self.inner.tile
            return self.inner.levels_inside(tiles * (rows // inner_rows) * (columns // inner_columns))
        return [FibreCounts(tiles, float(self.outer.m), float(self.outer.n)), *self.inner.levels_inside(tiles * self.outer.n)]

    def levels(self, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> list[FibreCounts]:
        tiles = self.tile_count(m, k)
        if isinstance(self.outer, NM):
            return self.levels_inside(tiles)
        kept = stored / self._stored_in_tile
        return [FibreCounts(1.0, tiles, kept), *self.levels_inside(kept)]


def density_of_kept_blocks(pattern: Pattern) -> float:
    """The share kept [1] of a pattern inside an N:M level, where every block of it is kept."""
    if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block):
        return density_of_kept_blocks(pattern.inner)
    return 1.0 if pattern.density is None else pattern.density


def canonicalize(pattern: Pattern) -> Pattern:
    """The one pattern that stands for all with the same legal masks that are stored alike; levels inside are read as they are written.

    N:N is `dense`. V:N:M is N:M if each block of V rows can choose no more columns than 4 anyway: V N <= 4, or M = 4.
    """
    match pattern:
        case NM(n, m) if n == m:
            return DENSE
        case VNM(v, n, m) if v * n <= VNM_COLUMNS or m == VNM_COLUMNS:
            return canonicalize(NM(n, m))
        case VNMFamily(v, n) if v * n <= VNM_COLUMNS:
            return VNMFamily(1, n)
        case Hierarchy(Block() as outer, inner):
            found = canonicalize(inner)
            return outer if isinstance(found, Dense) else Hierarchy(outer, found)
        case Hierarchy(NM(n, m) as outer, inner):
            return canonicalize(inner) if n == m else _counted_tiles(outer, _with_tile(canonicalize(inner), inner.tile))
    return pattern


def _with_tile(pattern: Pattern, tile: tuple[int, int]) -> Pattern:
    """A canonical pattern whose tiles an outer N:M counts, although they are larger than its own: as blocks of that size."""
    if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block) and pattern.outer.tile == pattern.inner.tile:
        pattern = pattern.inner  # the outer N:M keeps or drops the same tiles
    if pattern.tile == tile:
        return pattern
    return Block(*tile) if isinstance(pattern, Dense) else Hierarchy(Block(*tile), pattern)


def _counted_tiles(outer: NM, inner: Pattern) -> Pattern:
    """`outer` around a canonical pattern, as one level where it can be: 1:a of 1:b is 1:(a b), and N:M of V x 1 blocks is N:MxV."""
    match inner:
        case Dense():
            return outer
        case Block(rows, 1):
            return NM(outer.n, outer.m, rows)
        case NM(1, m, v) if outer.n == 1:
            return NM(1, outer.m * m, v)
        case Hierarchy(NM(1, m), inside) if outer.n == 1:
            return Hierarchy(NM(1, outer.m * m), inside)
    return Hierarchy(outer, inner)
