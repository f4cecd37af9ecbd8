"""The base class of sparsity patterns: sets of legal masks of a weight matrix, ordered by containment.

A weight matrix A is [m, k]: m output channels by k inputs. Tiles are aligned to the origin. Tiles at the edge are padded, and the padding
counts as stored. Two kinds of rules define the legal masks of a pattern:

    granularity (R, C)         the mask is a union of aligned R x C blocks, each kept or dropped as a whole
    limit (R, C, N, M)         of each aligned group of M tiles of R x C along k, at most N have any nonzero

Containment (`is_below`) follows from these rules alone. It is sound: the answer is never yes where some mask would be illegal. It is not
complete: rules are compared one by one, so it may be no where only two rules together imply yes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, lcm
from typing import Any

import numpy as np

FloatOrArray = Any  # a float or a numpy array of floats; the functions work elementwise


@dataclass(frozen=True)
class GroupLimit:
    """Of each aligned group of `group_size` tiles (rows x columns) along k, at most `max_occupied` have any nonzero."""

    rows: int
    columns: int
    max_occupied: int
    group_size: int


@dataclass(frozen=True)
class FibreCounts:
    """The fibres of one rank: `fibres` fibres of `size` places each, of which `kept` are kept. A format stores which.

    `random_fibres`: if given, the kept places are spread at random over this many fibres (empty ones included, which a format may leave
    out), and `kept` is a mean. Otherwise each fibre keeps exactly `kept` places.
    """

    fibres: FloatOrArray
    size: FloatOrArray
    kept: FloatOrArray
    random_fibres: FloatOrArray | None = None

    @property
    def total_kept(self) -> FloatOrArray:
        """Places kept in all fibres together."""
        return self.fibres * self.kept


class Pattern(ABC):
    """A set of legal masks, ordered by containment."""

    @abstractmethod
    def __str__(self) -> str:
        """The canonical text: equal patterns have equal texts."""

    @property
    def granularity(self) -> tuple[float, float]:
        """Rows and columns of the blocks that are kept or dropped as a whole; infinite for whole columns and rows."""
        return (1, 1)

    @property
    def group_limits(self) -> tuple[GroupLimit, ...]:
        """Limits on the occupied tiles of each group."""
        return ()

    def is_below(self, other: "Pattern") -> bool:
        """Whether this pattern is below `other` in the partial order of canonical patterns: every mask legal here is legal there.

        Patterns with the same legal masks may be stored differently. Of two such patterns, the one that omits more zeros is below
        (`unstructured` is below `dense`, `block:32x32/2:4` is below `2:4`); neither is if their blocks do not nest.
        """
        if not other.allows_masks_of(self):
            return False
        block, other_block = self.omission_block, other.omission_block
        nested = all(theirs % ours == 0 for theirs, ours in zip(other_block, block, strict=True) if theirs < inf)
        return nested or not self.allows_masks_of(other)

    def allows_masks_of(self, other: "Pattern") -> bool:
        """Whether every mask that is legal in `other` is legal in this pattern."""
        sizes = zip(other.granularity, self.granularity, strict=True)
        if other.stores_zeros or not all(theirs == inf or theirs % ours == 0 for theirs, ours in sizes):
            return False
        return all(max_occupied_tiles(other, limit) <= limit.max_occupied for limit in self.group_limits)

    @property
    def stores_zeros(self) -> bool:
        """Whether all elements are stored, zeros included."""
        return False

    @property
    def omission_block(self) -> tuple[float, float, float]:
        """Rows and columns of the blocks that are omitted if they are zero, and the largest multiple of them that is stored as one block.

        Infinite if all blocks are stored.
        """
        return (inf, inf, inf)

    def storage_pattern_for(self, pattern: "Pattern") -> "Pattern | None":
        """The pattern in which hardware that lists this pattern stores a mask of `pattern`; None if it cannot store it."""
        return self if self.allows_masks_of(pattern) else None

    @property
    def density(self) -> float | None:
        """The fraction kept, if the pattern itself fixes it."""
        return None

    @property
    def has_free_tiles(self) -> bool:
        """Whether any fraction of the tiles may be kept, at any positions."""
        return False

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the tile that edges are padded to."""
        return (1, 1)

    def tile_grid(self, m: FloatOrArray, k: FloatOrArray) -> tuple[FloatOrArray, FloatOrArray]:
        """Tiles down and across an [m, k] matrix, incomplete ones included."""
        return np.ceil(m / self.tile[0]), np.ceil(k / self.tile[1])

    def tile_count(self, m: FloatOrArray, k: FloatOrArray) -> FloatOrArray:
        """Tiles that cover an [m, k] matrix, incomplete ones included."""
        down, across = self.tile_grid(m, k)
        return down * across

    def stored_elements(self, m: FloatOrArray, k: FloatOrArray, density: FloatOrArray) -> FloatOrArray:
        """Elements stored for an [m, k] matrix with this density of nonzeros, padding included."""
        rows, columns = self.tile
        return density * self.tile_count(m, k) * rows * columns

    def max_nonzeros(self, m: FloatOrArray, k: FloatOrArray) -> FloatOrArray:
        """Most elements of an [m, k] matrix that a mask may keep, without the padding."""
        return m * k * np.ones_like(k, float)

    def levels_inside(self, tiles: FloatOrArray) -> list[FibreCounts]:
        """The ranks inside `tiles` complete tiles, outermost first; empty if all elements of a tile are kept."""
        return []

    def levels(self, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> list[FibreCounts]:
        """The ranks of an [m, k] matrix of which `stored` elements are stored, outermost first."""
        rows, columns = self.tile
        return [FibreCounts(1.0, self.tile_count(m, k), stored / (rows * columns))]


MAX_WINDOWS = 1000  # to compare for two limits whose group sizes have a large common multiple


def max_occupied_tiles(pattern: Pattern, limit: GroupLimit) -> int:
    """An upper bound on the occupied tiles in any group of `limit`, over all masks of `pattern`."""
    return min([limit.group_size, *(_bound_by_limit(known, limit) for known in pattern.group_limits)])


def _bound_by_limit(known: GroupLimit, limit: GroupLimit) -> int:
    """The occupied tiles that a known limit allows in any group of another limit; no bound if counting would take too long."""
    width, group = limit.group_size * limit.columns, known.group_size * known.columns
    period = lcm(width, group)
    if period // width + period // group > MAX_WINDOWS:
        return limit.group_size
    across = max(_occupied_in_window(known, limit.columns, start, start + width) for start in range(0, period, width))
    return min(limit.group_size, across * max_tiles_met(limit.rows, known.rows))


def _occupied_in_window(known: GroupLimit, columns: int, start: int, stop: int) -> int:
    """Most occupied tiles of width `columns` within columns [start, stop) of one row of tiles of `known`.

    Each group of `known` in the window has at most its number of occupied tiles, and each of them meets so many of the other tiles.
    """
    group, total = known.group_size * known.columns, 0
    for left in range(start - start % group, stop, group):
        low, high = max(start, left), min(stop, left + group)
        known_tiles, tiles = (_tiles_met(low, high, size) for size in (known.columns, columns))
        total += min(tiles, min(known.max_occupied, known_tiles) * max_tiles_met(known.columns, columns))
    return total


def _tiles_met(low: int, high: int, size: int) -> int:
    """Aligned tiles of `size` that the interval [low, high) meets."""
    return -(-high // size) - low // size


def max_tiles_met(length: int, size: int) -> int:
    """Most aligned tiles of `size` that an aligned interval of `length` can meet."""
    if length % size == 0:
        return length // size
    return 1 if size % length == 0 else (length - 2) // size + 2
