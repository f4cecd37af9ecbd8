"""Check masks against the rules of a pattern, and split matrices into tiles."""

from math import inf

import numpy as np
from jaxtyping import Bool

from dse.base.errors import InputError
from dse.sparsity.grammar import as_pattern
from dse.sparsity.pattern import GroupLimit, Pattern


def legal(mask: Bool[np.ndarray, "*batch m k"], pattern: Pattern | str) -> Bool[np.ndarray, "*batch"]:
    """Whether each mask is legal in a pattern: a union of blocks of its granularity, within its limits. Incomplete tiles count as tiles."""
    pattern, is_legal = as_pattern(pattern), np.ones(mask.shape[:-2], bool)
    if pattern.granularity != (1, 1):
        rows, columns = (length if size == inf else int(size) for size, length in zip(pattern.granularity, mask.shape[-2:], strict=True))
        is_legal &= _has_whole_blocks(mask, rows, columns)
    for limit in pattern.group_limits:
        is_legal &= _is_within(mask, limit)
    return is_legal


def check_matrix_size(pattern: Pattern, m: int, k: int) -> None:
    """Raise InputError if a matrix is smaller than one block; edges of larger ones are padded to complete tiles."""
    rows, columns = pattern.tile
    if pattern.has_free_tiles and (rows > m or columns > k):
        raise InputError(f"a block of '{pattern}', {rows}x{columns}, is larger than the {m}x{k} matrix", "take a smaller one")


def _has_whole_blocks(mask: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Whether every block is kept or dropped as a whole; the padding of a block at the edge counts as the rest of the block."""
    some = split_into_tiles(mask, rows, columns).any(axis=(-3, -1))
    every = split_into_tiles(mask, rows, columns, fill=True).all(axis=(-3, -1))
    return (some == every).all(axis=(-2, -1))


def _is_within(mask: np.ndarray, limit: GroupLimit) -> np.ndarray:
    """Whether no group has more occupied tiles than a limit allows."""
    occupied = np.asarray(split_into_tiles(mask, limit.rows, limit.columns).any(axis=(-3, -1)))
    groups = split_into_tiles(occupied, 1, limit.group_size).sum(axis=(-3, -1))
    return (groups <= limit.max_occupied).all(axis=(-2, -1))


def split_into_tiles(matrix: np.ndarray, rows: int, columns: int, fill: bool = False) -> np.ndarray:
    """Reshape [..., m, k] to [..., tile row, row, tile column, column]; incomplete tiles are padded with `fill`."""
    *batch, m, k = matrix.shape
    if m % rows or k % columns:
        matrix = np.pad(matrix, [(0, 0)] * len(batch) + [(0, -m % rows), (0, -k % columns)], constant_values=fill)
    return matrix.reshape(*batch, -(-m // rows), rows, -(-k // columns), columns)
