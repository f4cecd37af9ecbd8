"""What a sparsity pattern is: a set of legal masks of a weight matrix, and which pattern may stand in for which.

A is [m, k]: m output channels by k inputs. Grids are aligned to the origin; edge tiles are padded, and the padding counts as
stored. The masks legal in a pattern are told by two kinds of rules:

    grain (R, C)          the mask is a union of aligned R x C blocks, each kept or dropped whole
    limit (R, C, N, M)    of each aligned group of M tiles of R x C along k, at most N have any nonzero

Containment (`fits`) follows from them alone. It is sound: it never says yes where some mask would be illegal. It may say no
where yes is true: rules are weighed one by one, so what only two of them together imply is missed.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, lcm
from typing import Any

import numpy as np

FloatOrArray = Any  # a float or a numpy array of floats


@dataclass(frozen=True)
class GroupLimit:
    """Of each aligned group of `of` tiles (rows x columns) along k, at most `most` have any nonzero."""

    rows: int
    columns: int
    max_occupied: int
    group_size: int


@dataclass(frozen=True)
class FibreCounts:
    """`groups` groups of `size` places each, of which `kept` are kept: what a format has to say bits about.

    `drawn`: the kept places may fall anywhere in so many groups (empty ones, which need not be there, among them), and `kept`
    is a mean; otherwise each group keeps exactly `kept`.
    """

    groups: FloatOrArray
    size: FloatOrArray
    kept: FloatOrArray
    drawn: FloatOrArray | None = None

    @property
    def total(self) -> FloatOrArray:
        return self.groups * self.kept


class Pattern(ABC):
    """A set of legal masks, ordered by containment."""

    @abstractmethod
    def __str__(self) -> str:
        """The canonical text: equal patterns have equal texts."""

    @property
    def granularity(self) -> tuple[float, float]:
        """Rows and columns of the blocks that are kept or dropped whole; infinite for whole columns and rows."""
        return (1, 1)

    @property
    def group_limits(self) -> tuple[GroupLimit, ...]:
        return ()

    def is_below(self, other: "Pattern") -> bool:
        """Whether this pattern is below `other` in the partial order of canonical patterns: every mask legal here is legal there.

        Patterns with the same legal masks may store them differently. Of two such ones, the one that leaves out more is below
        (`unstructured` is below `dense`, `block:32x32/2:4` below `2:4`), and neither is if their blocks do not nest.
        """
        if not other.allows_masks_of(self):
            return False
        return not self.allows_masks_of(other) or all(
            theirs % ours == 0 for theirs, ours in _finite(other.omission_block, self.omission_block)
        )

    def allows_masks_of(self, other: "Pattern") -> bool:
        """Whether every mask legal in `other` is legal here."""
        whole = all(theirs % ours == 0 if theirs < inf else True for theirs, ours in zip(other.granularity, self.granularity, strict=True))
        return (
            whole and not other.stores_zeros and all(max_occupied_tiles(other, limit) <= limit.max_occupied for limit in self.group_limits)
        )

    @property
    def stores_zeros(self) -> bool:
        """Whether nothing is ever left out."""
        return False

    @property
    def omission_block(self) -> tuple[float, float, float]:
        """Rows and columns of the blocks that are not stored where they hold no nonzero, infinite if all are stored; then the largest
        multiple of them that is stored as one block.
        """
        return (inf, inf, inf)

    def storage_pattern_for(self, pattern: "Pattern") -> "Pattern | None":
        """The pattern as which a mask of `pattern` is stored by hardware that lists `self`; None if it can't be."""
        return self if self.allows_masks_of(pattern) else None

    @property
    def density(self) -> float | None:
        """The share kept [1], where the pattern itself fixes it."""
        return None

    @property
    def has_free_tiles(self) -> bool:
        """Whether any fraction of the tiles may be kept, wherever they stand."""
        return False

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the tile that edges are padded to."""
        return (1, 1)

    def tile_grid(self, m: FloatOrArray, k: FloatOrArray) -> tuple[FloatOrArray, FloatOrArray]:
        """Tiles down and across an [m, k] matrix, cut ones included."""
        return np.ceil(m / self.tile[0]), np.ceil(k / self.tile[1])

    def tile_count(self, m: FloatOrArray, k: FloatOrArray) -> FloatOrArray:
        """How many tiles cover an [m, k] matrix, cut ones included."""
        down, across = self.tile_grid(m, k)
        return down * across

    def stored_elements(self, m: FloatOrArray, k: FloatOrArray, density: FloatOrArray) -> FloatOrArray:
        """Elements stored for an [m, k] matrix of which `density` is nonzero, padding included."""
        rows, columns = self.tile
        return density * self.tile_count(m, k) * rows * columns

    def max_nonzeros(self, m: FloatOrArray, k: FloatOrArray) -> FloatOrArray:
        """Most elements of an [m, k] matrix that a mask may keep: padding, which the matrix lacks, left out."""
        return m * k * np.ones_like(k, float)

    def levels_inside(self, tiles: FloatOrArray) -> list[FibreCounts]:
        """What is kept within `tiles` whole tiles; nothing to say where all of a tile is."""
        return []

    def levels(self, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> list[FibreCounts]:
        """What is kept of an [m, k] matrix of which `stored` elements are stored, level by level, outermost first."""
        rows, columns = self.tile
        return [FibreCounts(1.0, self.tile_count(m, k), stored / (rows * columns))]


def _finite(theirs: tuple[float, ...], ours: tuple[float, ...]) -> list[tuple[float, float]]:
    """Pairs of sizes without those in which the other one is infinite, a multiple of every size."""
    return [(a, b) for a, b in zip(theirs, ours, strict=True) if a < inf]


MAX_WINDOWS = 1000  # compared of two rules whose group sizes have a large common multiple


def max_occupied_tiles(pattern: Pattern, limit: GroupLimit) -> int:
    """An upper bound on the tiles with nonzeros in any group that `limit` speaks of, over the masks of `pattern`."""
    return min([limit.group_size, *(_bound(known, limit) for known in pattern.group_limits)])


def _bound(known: GroupLimit, asked: GroupLimit) -> int:
    """What one rule of a pattern leaves for the groups of another rule, wherever they lie; nothing, where counting takes too long."""
    width, group = asked.group_size * asked.columns, known.group_size * known.columns
    period = lcm(width, group)
    if period // width + period // group > MAX_WINDOWS:
        return asked.group_size
    across = max(_in_window(known, asked.columns, start, start + width) for start in range(0, period, width))
    return min(asked.group_size, across * _met(asked.rows, known.rows))


def _in_window(known: GroupLimit, columns: int, start: int, stop: int) -> int:
    """Tiles of `columns` with nonzeros in columns [start, stop) of one row of `known`'s tiles: each group of it that the
    window cuts has at most its number of tiles, and each of those reaches so many of the asked ones."""
    group, total = known.group_size * known.columns, 0
    for left in range(start - start % group, stop, group):
        low, high = max(start, left), min(stop, left + group)
        theirs, ours = (_cut(low, high, size) for size in (known.columns, columns))
        total += min(ours, min(known.max_occupied, theirs) * _met(known.columns, columns))
    return total


def _cut(low: int, high: int, size: int) -> int:
    """Aligned tiles of `size` that [low, high) meets."""
    return -(-high // size) - low // size


def _met(length: int, size: int) -> int:
    """Most aligned tiles of `size` that an aligned stretch of `length` can meet."""
    if length % size == 0:
        return length // size
    return 1 if size % length == 0 else (length - 2) // size + 2
