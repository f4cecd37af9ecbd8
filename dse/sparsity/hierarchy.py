"""Hierarchical patterns (`block:32x32/2:4`, `2:4/block:4x4`), and the canonical form of all patterns."""

from dataclasses import dataclass, replace

import numpy as np

from dse.sparsity.kinds import NM, Block, Dense, canonicalize_level
from dse.sparsity.pattern import FibreCounts, FloatOrArray, GroupLimit, Pattern


@dataclass(frozen=True)
class Hierarchy(Pattern):
    """`inner` inside the tiles that `outer` keeps: any fraction of blocks, or N of every M tiles of the inner pattern along k.

    `full`: every block is stored, as is needed for masks of other patterns, which need not leave any block empty.
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
        """The limits of the inner pattern, the outer limit on its tiles, and the products of both where they nest."""
        if isinstance(self.outer, Block):  # any block may be kept
            return self.inner.group_limits
        (rows, columns), n, m = self.inner.tile, self.outer.n, self.outer.m
        products = []
        for limit in self.inner.group_limits:
            width = limit.group_size * limit.columns
            if columns % width == 0 and rows % limit.rows == 0:
                groups = columns // width
                combined = n * groups * limit.max_occupied, m * groups * limit.group_size
                products.append(GroupLimit(limit.rows, limit.columns, *combined))
        return (GroupLimit(rows, columns, n, m), *products, *self.inner.group_limits)

    def storage_pattern_for(self, pattern: Pattern) -> Pattern | None:
        if not self.allows_masks_of(pattern):
            return None
        same_blocks = isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block) and pattern.outer.is_below(self.outer)
        return self if isinstance(self.outer, NM) or same_blocks else replace(self, full=True)

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
        """Elements stored in one kept tile."""
        rows, columns = self.tile
        if isinstance(self.outer, Block):
            return float(self.inner.stored_elements(float(rows), float(columns), 1.0))
        return self.outer.n * float(self.inner.stored_elements(float(self.inner.tile[0]), float(self.inner.tile[1]), 1.0))

    def stored_elements(self, m: FloatOrArray, k: FloatOrArray, density: FloatOrArray) -> FloatOrArray:
        if self.density is not None:
            return self.tile_count(m, k) * self._stored_in_tile * np.ones_like(density, float)
        kept = np.minimum(density / inner_density(self), 1.0)  # fraction of the blocks, each with as many nonzeros as it may have
        return kept * self.tile_count(m, k) * self._stored_in_tile

    def max_nonzeros(self, m: FloatOrArray, k: FloatOrArray) -> FloatOrArray:
        if isinstance(self.outer, Block):
            return self.inner.max_nonzeros(m, k)
        columns, n = self.inner.tile[1], self.outer.n
        groups = np.floor(k / (columns * self.outer.m))
        rest = k - groups * columns * self.outer.m
        tiles = np.floor(rest / columns)  # the last group is incomplete, and its last tile may be
        per_tile = self.inner.max_nonzeros(m, columns * np.ones_like(k, float))
        last = np.where(tiles < n, self.inner.max_nonzeros(m, rest - tiles * columns), 0.0)
        return (groups * n + np.minimum(tiles, n)) * per_tile + last

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
    """The density of a pattern whose free blocks are all kept."""
    if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block):
        return density_of_kept_blocks(pattern.inner)
    return 1.0 if pattern.density is None else pattern.density


def canonicalize(pattern: Pattern) -> Pattern:
    """The one pattern that represents all with the same legal masks and the same storage; inner levels are taken as written."""
    match pattern:
        case Hierarchy(Block() as outer, inner):
            level = canonicalize(inner)
            return outer if isinstance(level, Dense) else Hierarchy(outer, level)
        case Hierarchy(NM(n, m) as outer, inner):
            return canonicalize(inner) if n == m else _simplify_outer_nm(outer, _with_tile(canonicalize(inner), inner.tile))
    return canonicalize_level(pattern)


def _with_tile(pattern: Pattern, tile: tuple[int, int]) -> Pattern:
    """A canonical pattern whose tiles, counted by an outer N:M, are enlarged to `tile`: blocks of that size around it."""
    if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block) and pattern.outer.tile == pattern.inner.tile:
        pattern = pattern.inner  # the outer N:M already keeps or drops the same tiles
    if pattern.tile == tile:
        return pattern
    return Block(*tile) if isinstance(pattern, Dense) else Hierarchy(Block(*tile), pattern)


def _simplify_outer_nm(outer: NM, inner: Pattern) -> Pattern:
    """An outer N:M around a canonical pattern, as one level where possible: 1:a of 1:b is 1:(a b), and N:M of V x 1 blocks is N:MxV."""
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


def inner_density(pattern: Pattern) -> float:
    """Share of the weights that the tiles of a pattern with free tiles hold: below 1 if they are sparse themselves."""
    inner = pattern.inner.density if isinstance(pattern, Hierarchy) else None
    return 1.0 if inner is None else inner
