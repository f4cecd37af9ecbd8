"""What storing a matrix costs: bits of the ranks that store the levels of its pattern, bits of the scales of its values.

A number format whose blocks count positions stores a scale for every block of the dense matrix. One whose blocks count kept values cuts the
stored values of each row into blocks, the last of which may be shorter: N:M keeps as many values in each row, so that the bits are exact;
for patterns with random rows, they are the mean over all masks that store as many values.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dse.base.number_format import NumberFormat
from dse.base.units import Width
from dse.sparsity import expectation
from dse.sparsity.kinds import Dense, Structured
from dse.sparsity.pattern import FibreCounts, FloatOrArray, Pattern
from dse.sparsity.rank import Rank

Order = Literal["row", "column", "flat"]

ROOT = Rank(kind="dense")  # above the first rank
TINY = 1e-300


@dataclass(frozen=True)
class StorageCost:
    """Elements stored (padding included), bits of metadata, and whether all numbers fit their widths."""

    elements: FloatOrArray
    metadata_bits: FloatOrArray
    fits: Any = True


@dataclass(frozen=True)
class Layout:
    """The ranks that store the levels of `pattern`, outermost first.

    `order`: whether rows or columns of the grid of tiles are outside, or one rank stores the `flat` grid. `padding_tile`: the tile that the
    matrix is padded to, for formats that store a pattern as single elements. `coordinate`: bits of a row number and of a column number, if
    the index in a flat grid is such a pair.
    """

    order: Order
    ranks: tuple[Rank, ...]
    pattern: Pattern
    padding_tile: tuple[int, int] = (1, 1)
    coordinate: Width | None = None

    def levels(self, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> list[FibreCounts]:
        """The fibres of each rank in an [m, k] matrix of which `stored` elements are stored."""
        if not self.ranks:
            return []
        m, k = self.padded_size(m, k)
        first, *inside = self.pattern.levels(m, k, stored)
        if not self.pattern.has_free_tiles and self.pattern.density is not None:
            return [first, *inside]
        if not self.pattern.has_free_tiles or self.order == "flat":
            return [replace(first, random_fibres=1.0), *inside]
        down, across = self.pattern.tile_grid(m, k) if self.order == "row" else self.pattern.tile_grid(m, k)[::-1]
        occupied = down if self.ranks[0].kind == "dense" else expectation.occupied_fibres(down, across, first.kept)
        tiles = FibreCounts(occupied, across, first.kept / np.maximum(occupied, TINY), random_fibres=down)
        return [FibreCounts(1.0, down, occupied), tiles, *inside]

    def padded_size(self, m: FloatOrArray, k: FloatOrArray) -> tuple[FloatOrArray, FloatOrArray]:
        """Rows and columns of an [m, k] matrix that is padded to complete tiles."""
        rows, columns = self.padding_tile
        return np.ceil(m / rows) * rows, np.ceil(k / columns) * columns

    def coordinates_fit(self, m: FloatOrArray, k: FloatOrArray) -> object:
        """Whether the row and column numbers of an [m, k] matrix fit the width of a coordinate."""
        if self.coordinate is None:
            return True
        down, across = self.pattern.tile_grid(*self.padded_size(m, k))
        return np.maximum(down, across) <= 2.0**self.coordinate.value

    def cost(self, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> StorageCost:
        """The storage of an [m, k] matrix: exact if it follows from the pattern or the number of kept tiles.

        Otherwise the mean over all masks with as many kept tiles.
        """
        growth, bits, fits, parent = 1.0, 0.0 * stored, self.coordinates_fit(m, k), ROOT
        for rank, fibres in zip(self.ranks, self.levels(m, k, stored), strict=True):
            kept = rank.kept_places(fibres, parent.padded)
            bits = bits + growth * rank.bits(fibres, kept) + (parent.pointer.value * (fibres.fibres + 1) if parent.pointer else 0.0)
            fits = fits & rank.numbers_fit(fibres.size) & (parent.pointer is None or kept < 2.0**parent.pointer.value)
            growth, parent = growth * kept / np.maximum(fibres.total_kept, TINY), rank
        return StorageCost(stored * growth, bits, fits)


def is_decodable(grid: tuple[Rank, ...], inside: tuple[Rank, ...]) -> bool:
    """Whether a reader can infer the length of every fibre: from the pattern, pointers, padding to the longest, or one bit for each place.

    `grid`: the ranks of the grid of tiles; `inside`: the ranks inside a tile.
    """
    if any(rank.kind in ("dense", "delta") for rank in inside) or any(rank.pointer or rank.padded for rank in (*grid[1:], *inside)):
        return False
    if len(grid) < 2:
        return all(rank.kind not in ("dense", "enumerative") and not rank.pointer and not rank.padded for rank in grid)
    rows, tiles = grid
    if rows.padded:
        return rows.kind == "dense" and not rows.pointer and tiles.kind == "index" and not tiles.align
    has_length = tiles.kind in ("dense", "bitmask") or (rows.pointer is not None and tiles.kind in ("index", "delta"))
    return has_length and rows.kind in ("dense", "bitmask")


def scale_bits(numbers: NumberFormat, pattern: Pattern, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> FloatOrArray:
    """Bits of the scales and zero points of an [m, k] matrix of which `pattern` stores `stored` values."""
    if not numbers.has_scales:
        return 0.0 * stored
    if isinstance(pattern, Structured):
        share = stored / np.maximum(m * k, 1.0)
        return numbers.scale_bits(m * share, k) if pattern.axis == "row" else numbers.scale_bits(m, k * share)
    if not numbers.counts_kept or isinstance(pattern, Dense):
        return numbers.scale_bits(m, k)
    if pattern.has_free_tiles:
        return numbers.block_bits * _blocks_of_random_rows(numbers, pattern, m, k, stored) + numbers.matrix_bits
    rows = np.ceil(m / pattern.tile[0]) * pattern.tile[0]
    return numbers.scale_bits(rows, stored / rows)


def _blocks_of_random_rows(numbers: NumberFormat, pattern: Pattern, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> FloatOrArray:
    """Mean number of blocks if each row of tiles keeps a random number of them."""
    (down, across), tiles = pattern.tile_grid(m, k), pattern.levels(m, k, stored)[0].kept
    kept_in_row = stored / np.maximum(tiles, 1.0) / pattern.tile[0]  # of one tile
    if numbers.columns == np.inf:
        return pattern.tile[0] * expectation.occupied_fibres(down, across, tiles)
    values = expectation.aligned_bits(down, across, tiles, kept_in_row, numbers.columns)
    return pattern.tile[0] * values / numbers.columns
