"""Masks themselves: whether one is legal in a pattern, straight from the pattern's rules."""

from math import inf

import numpy as np
from jaxtyping import Bool

from dse.base.errors import InputError
from dse.sparsity.grammar import as_pattern
from dse.sparsity.pattern import GroupLimit, Pattern


def legal(mask: Bool[np.ndarray, "*batch m k"], pattern: Pattern | str) -> Bool[np.ndarray, "*batch"]:
    """Whether each mask is a union of the pattern's grains within the pattern's limits. Tiles cut by the edge count as tiles."""
    pattern, found = as_pattern(pattern), np.ones(mask.shape[:-2], bool)
    if pattern.granularity != (1, 1):
        rows, columns = (length if size == inf else int(size) for size, length in zip(pattern.granularity, mask.shape[-2:], strict=True))
        found &= _whole(mask, rows, columns)
    for limit in pattern.group_limits:
        found &= _within(mask, limit)
    return found


def check_matrix_size(pattern: Pattern, m: int, k: int) -> None:
    """Edges are padded to whole tiles, but a matrix that holds no whole block is a mistake: raises InputError."""
    rows, columns = pattern.tile
    if pattern.has_free_tiles and (rows > m or columns > k):
        raise InputError(f"a block of '{pattern}', {rows}x{columns}, is larger than the {m}x{k} matrix", "take a smaller one")


def _whole(mask: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Whether every block is kept or dropped whole: what pads an edge block follows the block."""
    some = split_into_tiles(mask, rows, columns).any(axis=(-3, -1))
    every = split_into_tiles(mask, rows, columns, fill=True).all(axis=(-3, -1))
    return (some == every).all(axis=(-2, -1))


def _within(mask: np.ndarray, limit: GroupLimit) -> np.ndarray:
    occupied = np.asarray(split_into_tiles(mask, limit.rows, limit.columns).any(axis=(-3, -1)))
    groups = split_into_tiles(occupied, 1, limit.group_size).sum(axis=(-3, -1))
    return (groups <= limit.max_occupied).all(axis=(-2, -1))


def split_into_tiles(matrix: np.ndarray, rows: int, columns: int, fill: bool = False) -> np.ndarray:
    """[..., m, k] as [..., tile row, row, tile column, column], padded to whole tiles."""
    *batch, m, k = matrix.shape
    if m % rows or k % columns:
        matrix = np.pad(matrix, [(0, 0)] * len(batch) + [(0, -m % rows), (0, -k % columns)], constant_values=fill)
    return matrix.reshape(*batch, -(-m // rows), rows, -(-k // columns), columns)
