"""The ranks of a format put to a pattern: what they say about which level of the matrix, and what that takes."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dse.base.units import Width
from dse.sparsity import expectation
from dse.sparsity.pattern import FibreCounts, FloatOrArray, Pattern
from dse.sparsity.rank import Rank

Order = Literal["row", "column", "flat"]

ROOT = Rank(kind="dense")  # what stands above the first rank
TINY = 1e-300


@dataclass(frozen=True)
class StorageCost:
    """Elements stored, padding included; bits that say where they stand; whether all numbers fit their widths."""

    elements: FloatOrArray
    metadata_bits: FloatOrArray
    fits: Any = True


@dataclass(frozen=True)
class Layout:
    """Ranks for the tree of `pattern`, outermost first; `order`: what is outside on the grid of its tiles, or one rank for all.

    `whole`: the tile that the matrix is padded to, where a format takes a pattern as single elements. `coordinate`: bits of a row
    number and of a column number, where the one index of a flat grid is the two of them.
    """

    order: Order
    ranks: tuple[Rank, ...]
    pattern: Pattern
    whole: tuple[int, int] = (1, 1)
    coordinate: Width | None = None

    def levels(self, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> list[FibreCounts]:
        """What each rank has to speak of in an [m, k] matrix of which `stored` elements are stored."""
        if not self.ranks:
            return []
        m, k = self.padded(m, k)
        first, *inside = self.pattern.levels(m, k, stored)
        if not self.pattern.has_free_tiles and self.pattern.density is not None:
            return [first, *inside]
        if not self.pattern.has_free_tiles or self.order == "flat":
            return [replace(first, drawn=1.0), *inside]
        down, across = self.pattern.tile_grid(m, k) if self.order == "row" else self.pattern.tile_grid(m, k)[::-1]
        there = down if self.ranks[0].kind == "dense" else expectation.occupied_fibres(down, across, first.kept)
        return [FibreCounts(1.0, down, there), FibreCounts(there, across, first.kept / np.maximum(there, TINY), drawn=down), *inside]

    def padded(self, m: FloatOrArray, k: FloatOrArray) -> tuple[FloatOrArray, FloatOrArray]:
        """Rows and columns of an [m, k] matrix that is padded to whole tiles."""
        return np.ceil(m / self.whole[0]) * self.whole[0], np.ceil(k / self.whole[1]) * self.whole[1]

    def addresses(self, m: FloatOrArray, k: FloatOrArray) -> Any:
        """Whether the numbers of all rows and columns of an [m, k] matrix fit the width of a coordinate."""
        if self.coordinate is None:
            return True
        down, across = self.pattern.tile_grid(*self.padded(m, k))
        return np.maximum(down, across) <= 2.0**self.coordinate.value

    def cost(self, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> StorageCost:
        """Exact where the pattern or the number of kept tiles settles it, else the mean over all masks with as many kept tiles."""
        growth, bits, fits, above = 1.0, 0.0 * stored, self.addresses(m, k), ROOT
        for rank, level in zip(self.ranks, self.levels(m, k, stored), strict=True):
            kept = rank.kept_places(level, above.padded)
            bits = bits + growth * rank.bits(level, kept) + (above.pointer.value * (level.groups + 1) if above.pointer else 0.0)
            fits = fits & rank.numbers_fit(level.size) & (above.pointer is None or kept < 2.0**above.pointer.value)
            growth, above = growth * kept / np.maximum(level.total, TINY), rank
        return StorageCost(stored * growth, bits, fits)


def is_decodable(grid: tuple[Rank, ...], inside: tuple[Rank, ...]) -> bool:
    """Whether a reader can tell how long every fibre is: from the pattern, pointers, padding to the longest, or a bit for each place."""
    if any(rank.kind in ("dense", "delta") for rank in inside) or any(rank.pointer or rank.padded for rank in (*grid[1:], *inside)):
        return False
    if len(grid) < 2:
        return all(rank.kind not in ("dense", "enumerative") and not rank.pointer and not rank.padded for rank in grid)
    rows, tiles = grid
    if rows.padded:
        return rows.kind == "dense" and not rows.pointer and tiles.kind == "index" and not tiles.align
    told = tiles.kind in ("dense", "bitmask") or (rows.pointer is not None and tiles.kind in ("index", "delta"))
    return told and rows.kind in ("dense", "bitmask")
