"""A real mask as the tree that formats write: which places are stored, and what each fibre of each rank keeps.

What is stored is settled first, on whole tiles: every slot of a fixed pattern, used or not, and what the format itself has to keep
(rows padded to the longest, places between distant ones). Then each rank is an array [fibre, place].
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

from dse.sparsity import pruning
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, Dense, Hierarchy, Structured
from dse.sparsity.layout import Layout
from dse.sparsity.mask import split_into_tiles
from dse.sparsity.pattern import Pattern
from dse.sparsity.rank import Rank

Fibres = Bool[np.ndarray, "fibre place"]
Mask = Bool[np.ndarray, "m k"]


def pad_to_tiles(mask: Mask, pattern: Pattern) -> Mask:
    """A matrix padded to whole tiles."""
    (m, k), (rows, columns) = mask.shape, pattern.tile
    return np.pad(mask, ((0, -m % rows), (0, -k % columns)))


def stored_mask(mask: Mask, pattern: Pattern, layout: Layout) -> Mask:
    """The places that are stored of a `mask` of whole tiles that is legal in `pattern`."""
    slots, seen = _slots(mask, pattern), layout.pattern
    return _within(slots, _kept(occupied_tiles(slots, *seen.tile), layout), seen) if seen.has_free_tiles else slots


def _slots(mask: Mask, pattern: Pattern) -> Mask:
    if isinstance(pattern, Dense):
        return np.ones(mask.shape, bool)
    if isinstance(pattern, Structured):
        return mask.copy()  # which has no padding
    if pattern.has_free_tiles:
        return _within(mask, occupied_tiles(mask, *pattern.tile), pattern)
    return np.asarray(pruning.best_fixed_mask(mask.astype(np.float32), pattern))


def _within(mask: Mask, tiles: Mask, pattern: Pattern) -> Mask:
    """The slots of those `tiles` that are kept."""
    spread = pruning.expand_tiles(tiles, *pattern.tile)
    return spread & _slots(mask, pattern.inner) if isinstance(pattern, Hierarchy) else spread


def occupied_tiles(mask: Mask, rows: int, columns: int) -> Mask:
    """Which tiles have any place."""
    return np.asarray(split_into_tiles(mask, rows, columns).any(axis=(1, 3)))


def _kept(tiles: Mask, layout: Layout) -> Mask:
    """The tiles on the grid that the format keeps."""
    if layout.order == "flat":
        return _filled(tiles.reshape(1, -1), layout.ranks[0], 0).reshape(tiles.shape)
    lines = tiles if layout.order == "row" else tiles.T
    outer, inner = layout.ranks[:2]
    there = lines.any(axis=1) | (outer.kind == "dense")
    lines = lines.copy()
    lines[there] = _filled(lines[there], inner, int(lines.sum(axis=1).max(initial=0)) if outer.padded else 0)
    return lines if layout.order == "row" else lines.T


def _filled(fibres: Fibres, rank: Rank, length: int) -> Fibres:
    """What a rank keeps beside what it is given: at least `length` places in each fibre."""
    if rank.kind == "dense":
        return np.ones(fibres.shape, bool)
    if rank.kind == "delta":
        fibre, place, gaps = distances(fibres)
        step = 2 ** int(rank.bits_per_number(fibres.shape[1]))
        number = gaps // step
        within = np.arange(number.sum()) - np.repeat(number.cumsum() - number, number)
        fibres = fibres.copy()
        fibres[np.repeat(fibre, number), np.repeat(place - gaps - 1, number) + step * (within + 1)] = True
    missing = np.maximum(length - fibres.sum(axis=1), 0)
    return fibres | (~fibres & ((~fibres).cumsum(axis=1) <= missing[:, None]))


def distances(fibres: Fibres) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fibre, place and number of dropped places before it, of every kept place."""
    fibre, place = np.nonzero(fibres)
    before = np.where(np.diff(fibre, prepend=-1) > 0, -1, np.roll(place, 1))
    return fibre, place, place - before - 1


def fibres_by_rank(stored: Mask, layout: Layout) -> list[Fibres]:
    """What each fibre keeps, rank by rank, as `Layout.levels` counts them."""
    pattern = layout.pattern
    if not pattern.has_free_tiles:
        return _groups(stored, pattern)
    tiles = occupied_tiles(stored, *pattern.tile)
    lines = tiles if layout.order != "column" else tiles.T
    there = np.logical_or(lines.any(axis=1), layout.ranks[0].kind == "dense")
    outer = [lines.reshape(1, -1)] if layout.order == "flat" else [there[None], lines[there]]
    return [*outer, *(_groups(_stack(stored, tiles, pattern), pattern.inner) if isinstance(pattern, Hierarchy) else [])]


def _stack(stored: Mask, tiles: Mask, pattern: Pattern) -> Mask:
    """The kept tiles one below the other."""
    return _stacked(stored, *pattern.tile)[tiles.ravel()].reshape(-1, pattern.tile[1])


def _groups(stored: Mask, pattern: Pattern) -> list[Fibres]:
    """Of a pattern whose tiles are all there: which places each group keeps, level by level."""
    if isinstance(pattern, Structured):
        return [np.atleast_2d(stored.any(axis=1 if pattern.axis == "row" else 0))]
    if isinstance(pattern, NM):
        return [occupied_tiles(stored, pattern.v, 1).reshape(-1, pattern.m)]
    if isinstance(pattern, VNM):
        return _chosen(stored, pattern)
    if not isinstance(pattern, Hierarchy):
        return []
    if isinstance(pattern.outer, Block):  # all of them are there
        return _groups(stored, pattern.inner)
    tiles = occupied_tiles(stored, *pattern.inner.tile)
    return [tiles.reshape(-1, pattern.outer.m), *_groups(_stack(stored, tiles, pattern.inner), pattern.inner)]


def _stacked(matrix: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """[m, k] as its tiles, one after the other [tile, row, column]."""
    return split_into_tiles(matrix, rows, columns).swapaxes(1, 2).reshape(-1, rows, columns)


def _chosen(stored: Mask, pattern: VNM) -> list[Fibres]:
    """The 4 columns of each block, those without nonzeros filled up from the left; then the places of each row among them."""
    blocks = _stacked(stored, pattern.v, pattern.m)
    columns = np.asarray(pruning.top_n(blocks.any(axis=1).astype(np.float32), VNM_COLUMNS))
    places = np.nonzero(columns)[1].reshape(-1, 1, VNM_COLUMNS)
    return [columns, np.take_along_axis(blocks, np.broadcast_to(places, (*blocks.shape[:2], VNM_COLUMNS)), axis=2).reshape(-1, VNM_COLUMNS)]


def mask_from_fibres(fibres: Iterator[Fibres], layout: Layout, shape: tuple[int, int]) -> Mask:
    """The inverse of `ranks`: the stored places of a matrix of whole tiles, of `shape`."""
    pattern = layout.pattern
    if not pattern.has_free_tiles:
        return _ungrouped(fibres, pattern, shape)
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
    return _unstacked(_ungrouped(fibres, pattern.inner, (rows * int(tiles.sum()), columns)), tiles, rows, columns)


def _ungrouped(fibres: Iterator[Fibres], pattern: Pattern, shape: tuple[int, int]) -> Mask:
    """The inverse of `_groups`, of a pattern whose tiles are all there."""
    if isinstance(pattern, Dense | Block):
        return np.ones(shape, bool)
    if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block):
        return _ungrouped(fibres, pattern.inner, shape)
    (m, k), first = shape, next(fibres)
    if isinstance(pattern, Structured):
        return np.broadcast_to(first.T if pattern.axis == "row" else first, shape).copy()
    if isinstance(pattern, NM):
        return pruning.expand_tiles(first.reshape(m // pattern.v, k), pattern.v, 1)
    if isinstance(pattern, VNM):
        inside = np.zeros((len(first), pattern.v, pattern.m), bool)
        places = np.broadcast_to(np.nonzero(first)[1].reshape(-1, 1, VNM_COLUMNS), (*inside.shape[:2], VNM_COLUMNS))
        np.put_along_axis(inside, places, next(fibres).reshape(*inside.shape[:2], VNM_COLUMNS), axis=2)
        return _unstacked(inside, np.ones((m // pattern.v, k // pattern.m), bool), pattern.v, pattern.m)
    assert isinstance(pattern, Hierarchy)
    rows, columns = pattern.inner.tile
    tiles = first.reshape(m // rows, k // columns)
    return _unstacked(_ungrouped(fibres, pattern.inner, (rows * int(tiles.sum()), columns)), tiles, rows, columns)


def _unstacked(kept: np.ndarray, tiles: Mask, rows: int, columns: int) -> Mask:
    """Kept tiles of [rows, columns], one below the other, put where they stand."""
    stacked = np.zeros((tiles.size, rows, columns), bool)
    stacked[tiles.ravel()] = kept.reshape(-1, rows, columns)
    return stacked.reshape(*tiles.shape, rows, columns).swapaxes(1, 2).reshape(tiles.shape[0] * rows, tiles.shape[1] * columns)
