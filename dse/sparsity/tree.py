"""The tree of ranks of a real mask: which places are stored, and which places each fibre of each rank keeps.

`stored_mask` computes the stored places, on complete tiles: every slot of a fixed pattern, zero or not, and places that the format itself
has to keep (rows padded to the longest, places between distant ones). `fibres_by_rank` splits them into ranks, arrays [fibre, place];
`mask_from_fibres` is its inverse.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

from dse.sparsity import pruning
from dse.sparsity.hierarchy import Hierarchy
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, Dense, Structured
from dse.sparsity.layout import Layout
from dse.sparsity.mask import split_into_tiles
from dse.sparsity.pattern import Pattern
from dse.sparsity.rank import Fibres, Rank, distances

Mask = Bool[np.ndarray, "m k"]


def pad_to_tiles(mask: Mask, pattern: Pattern) -> Mask:
    """Pad a matrix with zeros to complete tiles."""
    (m, k), (rows, columns) = mask.shape, pattern.tile
    return np.pad(mask, ((0, -m % rows), (0, -k % columns)))


def stored_mask(mask: Mask, pattern: Pattern, layout: Layout) -> Mask:
    """The places that a format stores of a legal `mask` of complete tiles."""
    slots, stored_as = _slots(mask, pattern), layout.pattern
    if not stored_as.has_free_tiles:
        return slots
    return _slots_in_tiles(slots, _kept_tiles(occupied_tiles(slots, *stored_as.tile), layout), stored_as)


def _slots(mask: Mask, pattern: Pattern) -> Mask:
    """The places that a pattern stores of a legal mask: whole blocks, and N places of each group of M."""
    if isinstance(pattern, Dense):
        return np.ones(mask.shape, bool)
    if isinstance(pattern, Structured):
        return mask.copy()  # no padding
    if pattern.has_free_tiles:
        return _slots_in_tiles(mask, occupied_tiles(mask, *pattern.tile), pattern)
    return pruning.best_fixed_mask(mask.astype(np.float32), pattern)


def _slots_in_tiles(mask: Mask, tiles: Mask, pattern: Pattern) -> Mask:
    """The slots inside the kept `tiles`."""
    elements = pruning.expand_tiles(tiles, *pattern.tile)
    return elements & _slots(mask, pattern.inner) if isinstance(pattern, Hierarchy) else elements


def occupied_tiles(mask: Mask, rows: int, columns: int) -> Mask:
    """Which tiles have any kept element."""
    return np.asarray(split_into_tiles(mask, rows, columns).any(axis=(1, 3)))


def _kept_tiles(tiles: Mask, layout: Layout) -> Mask:
    """The tiles of the grid that the format keeps: the occupied ones, and those that it cannot leave out."""
    if layout.order == "flat":
        return _add_kept_places(tiles.reshape(1, -1), layout.ranks[0], 0).reshape(tiles.shape)
    lines = tiles if layout.order == "row" else tiles.T
    outer, inner = layout.ranks[:2]
    kept_lines = lines.any(axis=1) | (outer.kind == "dense")
    lines = lines.copy()
    length = int(lines.sum(axis=1).max(initial=0)) if outer.padded else 0
    lines[kept_lines] = _add_kept_places(lines[kept_lines], inner, length)
    return lines if layout.order == "row" else lines.T


def _add_kept_places(fibres: Fibres, rank: Rank, length: int) -> Fibres:
    """Add the places that a rank has to keep: all if dense, some between distant ones, and up to `length` places in each fibre."""
    if rank.kind == "dense":
        return np.ones(fibres.shape, bool)
    if rank.kind == "delta":
        fibre, place, gaps = distances(fibres)
        step = 2 ** int(rank.bits_per_number(fibres.shape[1]))
        added = gaps // step  # in each gap
        number_in_gap = np.arange(added.sum()) - np.repeat(added.cumsum() - added, added)
        fibres = fibres.copy()
        fibres[np.repeat(fibre, added), np.repeat(place - gaps - 1, added) + step * (number_in_gap + 1)] = True
    missing = np.maximum(length - fibres.sum(axis=1), 0)
    return fibres | (~fibres & ((~fibres).cumsum(axis=1) <= missing[:, None]))


def fibres_by_rank(stored: Mask, layout: Layout) -> list[Fibres]:
    """The fibres of each rank, outermost first, in the order of `Layout.levels`."""
    pattern = layout.pattern
    if not pattern.has_free_tiles:
        return _groups(stored, pattern)
    tiles = occupied_tiles(stored, *pattern.tile)
    lines = tiles if layout.order != "column" else tiles.T
    kept_lines = np.logical_or(lines.any(axis=1), layout.ranks[0].kind == "dense")
    outer = [lines.reshape(1, -1)] if layout.order == "flat" else [kept_lines[None], lines[kept_lines]]
    return [*outer, *(_groups(_stack_kept_tiles(stored, tiles, pattern), pattern.inner) if isinstance(pattern, Hierarchy) else [])]


def _stack_kept_tiles(stored: Mask, tiles: Mask, pattern: Pattern) -> Mask:
    """The kept tiles, one below the other."""
    return _list_tiles(stored, *pattern.tile)[tiles.ravel()].reshape(-1, pattern.tile[1])


def _groups(stored: Mask, pattern: Pattern) -> list[Fibres]:
    """The groups of a pattern whose tiles are all kept, level by level: which places each keeps."""
    if isinstance(pattern, Structured):
        return [np.atleast_2d(stored.any(axis=1 if pattern.axis == "row" else 0))]
    if isinstance(pattern, NM):
        return [occupied_tiles(stored, pattern.v, 1).reshape(-1, pattern.m)]
    if isinstance(pattern, VNM):
        return _vnm_groups(stored, pattern)
    if not isinstance(pattern, Hierarchy):
        return []
    if isinstance(pattern.outer, Block):  # all blocks are kept
        return _groups(stored, pattern.inner)
    tiles = occupied_tiles(stored, *pattern.inner.tile)
    return [tiles.reshape(-1, pattern.outer.m), *_groups(_stack_kept_tiles(stored, tiles, pattern.inner), pattern.inner)]


def _list_tiles(matrix: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """A matrix [m, k] as its tiles [tile, row, column]."""
    return split_into_tiles(matrix, rows, columns).swapaxes(1, 2).reshape(-1, rows, columns)


def _vnm_groups(stored: Mask, pattern: VNM) -> list[Fibres]:
    """The 4 columns of each block (columns without nonzeros are added from the left), then the places of each row among them."""
    blocks = _list_tiles(stored, pattern.v, pattern.m)
    columns = np.asarray(pruning.top_n(blocks.any(axis=1).astype(np.float32), VNM_COLUMNS))
    places = np.nonzero(columns)[1].reshape(-1, 1, VNM_COLUMNS)
    return [columns, np.take_along_axis(blocks, np.broadcast_to(places, (*blocks.shape[:2], VNM_COLUMNS)), axis=2).reshape(-1, VNM_COLUMNS)]


def mask_from_fibres(fibres: Iterator[Fibres], layout: Layout, shape: tuple[int, int]) -> Mask:
    """The inverse of `fibres_by_rank`: the stored places of a matrix of complete tiles with this `shape`."""
    pattern = layout.pattern
    if not pattern.has_free_tiles:
        return _mask_from_groups(fibres, pattern, shape)
    rows, columns = pattern.tile
    down, across = shape[0] // rows, shape[1] // columns
    tiles, first = np.zeros((across, down) if layout.order == "column" else (down, across), bool), next(fibres)
    if layout.order == "flat":
        tiles[:] = first.reshape(tiles.shape)
    else:
        tiles[first.ravel()] = next(fibres)
    tiles = tiles.T if layout.order == "column" else tiles
    if not isinstance(pattern, Hierarchy):
        return pruning.expand_tiles(tiles, rows, columns)
    return _place_tiles(_mask_from_groups(fibres, pattern.inner, (rows * int(tiles.sum()), columns)), tiles, rows, columns)


def _mask_from_groups(fibres: Iterator[Fibres], pattern: Pattern, shape: tuple[int, int]) -> Mask:
    """The inverse of `_groups`."""
    if isinstance(pattern, Dense | Block):
        return np.ones(shape, bool)
    if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block):
        return _mask_from_groups(fibres, pattern.inner, shape)
    (m, k), first = shape, next(fibres)
    if isinstance(pattern, Structured):
        return np.broadcast_to(first.T if pattern.axis == "row" else first, shape).copy()
    if isinstance(pattern, NM):
        return pruning.expand_tiles(first.reshape(m // pattern.v, k), pattern.v, 1)
    if isinstance(pattern, VNM):
        inside = np.zeros((len(first), pattern.v, pattern.m), bool)
        places = np.broadcast_to(np.nonzero(first)[1].reshape(-1, 1, VNM_COLUMNS), (*inside.shape[:2], VNM_COLUMNS))
        np.put_along_axis(inside, places, next(fibres).reshape(*inside.shape[:2], VNM_COLUMNS), axis=2)
        return _place_tiles(inside, np.ones((m // pattern.v, k // pattern.m), bool), pattern.v, pattern.m)
    assert isinstance(pattern, Hierarchy)
    rows, columns = pattern.inner.tile
    tiles = first.reshape(m // rows, k // columns)
    return _place_tiles(_mask_from_groups(fibres, pattern.inner, (rows * int(tiles.sum()), columns)), tiles, rows, columns)


def _place_tiles(kept: np.ndarray, tiles: Mask, rows: int, columns: int) -> Mask:
    """Put kept tiles of [rows, columns], one below the other, at their positions in the matrix."""
    all_tiles = np.zeros((tiles.size, rows, columns), bool)
    all_tiles[tiles.ravel()] = kept.reshape(-1, rows, columns)
    return all_tiles.reshape(*tiles.shape, rows, columns).swapaxes(1, 2).reshape(tiles.shape[0] * rows, tiles.shape[1] * columns)
