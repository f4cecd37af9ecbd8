"""Exact statistics of a real mask: nonzeros of rows, columns and blocks, and the elements that patterns would store.

A matrix is read in slabs of rows and never held in memory as a whole. A group of M along k is a 1 x M block, so one count of blocks
shows both which blocks are occupied and whether the mask is N:M.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Shaped

from dse.base.errors import InputError
from dse.sparsity.kinds import DENSE, NM, UNSTRUCTURED, Block
from dse.sparsity.pattern import Pattern

BlockSize = tuple[int, int]  # rows and columns of a block

GROUPS = (2, 4, 8, 16, 32)
BLOCKS: tuple[BlockSize, ...] = ((4, 4), (8, 8), (16, 16), (32, 32))


@dataclass(frozen=True, eq=False)
class MaskStatistics:
    """Counts over a mask [m, k].

    `rows` and `columns`: nonzeros of each row and column. `blocks`: for each block size, the number of blocks with 0, 1, ... nonzeros
    [R C + 1], incomplete blocks included.
    """

    rows: Int[np.ndarray, " m"]
    columns: Int[np.ndarray, " k"]
    blocks: dict[BlockSize, np.ndarray]

    @property
    def nnz(self) -> int:
        return int(self.rows.sum())

    @property
    def size(self) -> int:
        return len(self.rows) * len(self.columns)

    @property
    def occupied_columns(self) -> int:
        """Columns with any nonzero: the rows of the other operand that a product needs."""
        return int(np.count_nonzero(self.columns))

    def occupied_blocks(self, block: BlockSize) -> int:
        """Blocks with any nonzero."""
        return int(self.blocks[block][1:].sum())

    def max_in_group(self, group: int) -> int:
        """Most nonzeros in any aligned group of `group` elements along k."""
        return int(np.flatnonzero(self.blocks[(1, group)]).max(initial=0))

    def stored_elements(self) -> dict[Pattern, float]:
        """Elements that each pattern stores of this mask, padding included; for each M, only the N:M with the smallest N is listed."""
        m, k = len(self.rows), len(self.columns)
        stored: dict[Pattern, float] = {DENSE: float(m * k), UNSTRUCTURED: float(self.nnz)}
        for rows, columns in self.blocks:
            stored[Block(rows, columns)] = float(self.occupied_blocks((rows, columns)) * rows * columns)
            if rows == 1 and 0 < self.max_in_group(columns) < columns:
                pattern = NM(self.max_in_group(columns), columns)
                stored[pattern] = float(pattern.stored_elements(m, k, 1.0))
        return stored


def count_nonzeros(slabs: Iterable[np.ndarray], columns: int, blocks: Iterable[BlockSize], tolerance: float = 0.0) -> MaskStatistics:
    """Count the nonzeros of a matrix that is given in slabs [rows, columns]; an element is zero if |w| <= tolerance.

    Raises InputError for the first number that is not finite.
    """
    counters = {size: _BlockCounter(*size) for size in dict.fromkeys(blocks)}
    row_sums, column_sums, rows_read = [], np.zeros(columns, np.int64), 0
    for slab in slabs:
        mask = nonzero_mask(slab, tolerance, rows_read)
        rows_read += len(mask)
        row_sums.append(mask.sum(axis=1, dtype=np.int64))
        column_sums += mask.sum(axis=0, dtype=np.int64)
        group_sums = _sum_groups(mask, {size[1] for size in counters})
        for (_, width), counter in counters.items():
            counter.add(group_sums[width])
    return MaskStatistics(np.concatenate(row_sums), column_sums, {size: counter.finish() for size, counter in counters.items()})


def nonzero_mask(slab: Shaped[np.ndarray, "row column"], tolerance: float, first_row: int = 0) -> Bool[np.ndarray, "row column"]:
    """The nonzeros of a slab whose first row has the number `first_row`; raises InputError if a number is not finite."""
    if slab.dtype == bool:
        return slab
    if slab.dtype.kind == "c":
        raise InputError("the weights are complex numbers", "give real ones")
    if slab.dtype.kind not in "iu":
        slab = slab.astype(np.float32, copy=False) if slab.dtype.itemsize <= 4 else slab  # bf16 and fp8 have no fast sums
        _check_finite(slab, first_row)
    return slab != 0 if tolerance == 0 else np.abs(slab.astype(np.float64)) > tolerance


def _check_finite(slab: np.ndarray, first_row: int) -> None:
    with np.errstate(all="ignore"):
        if np.isfinite(slab.sum()) or np.isfinite(slab).all():  # a finite sum, which is cheap, proves that all numbers are finite
            return
    row, column = map(int, np.argwhere(~np.isfinite(slab))[0])
    message = f"the weight in row {first_row + row}, column {column} is {slab[row, column]}"
    raise InputError(message, "give finite weights")


def _sum_groups(mask: np.ndarray, widths: set[int]) -> dict[int, np.ndarray]:
    """Nonzeros of each aligned group along the rows, by width; wide groups are sums of narrow ones."""
    sums = {1: mask.view(np.uint8)}
    for width in sorted(widths - {1}):
        narrow = max(known for known in sums if width % known == 0)
        sums[width] = _sum_neighbours(sums[narrow], width // narrow, np.uint8 if width < 256 else np.uint32)
    return sums


def _sum_neighbours(counts: np.ndarray, number: int, dtype: type) -> np.ndarray:
    """Sums of `number` neighbours in each row; the last sum may have fewer."""
    if missing := -counts.shape[1] % number:
        counts = np.pad(counts, ((0, 0), (0, missing)))
    total = counts[:, ::number].astype(dtype)
    for offset in range(1, number):
        total += counts[:, offset::number]
    return total


class _BlockCounter:
    """Counts blocks by their nonzeros; rows of group sums are added in slabs of any height."""

    def __init__(self, rows: int, columns: int):
        self.rows, self.histogram = rows, np.zeros(rows * columns + 1, np.int64)
        self.pending: np.ndarray | None = None  # rows of a block that is not complete

    def add(self, groups: np.ndarray) -> None:
        if self.pending is not None:
            groups = np.concatenate([self.pending, groups])
        complete = len(groups) // self.rows * self.rows
        self.pending = groups[complete:]
        self._count(groups[:complete])

    def finish(self) -> np.ndarray:
        """Count the last block, padded with zeros if it is incomplete; returns the number of blocks with 0, 1, ... nonzeros."""
        if self.pending is not None and len(self.pending):
            self._count(np.pad(self.pending, ((0, self.rows - len(self.pending)), (0, 0))))
        return self.histogram

    def _count(self, groups: np.ndarray) -> None:
        total = groups[:: self.rows].astype(np.uint32) if self.rows > 1 else groups
        for offset in range(1, self.rows):
            total += groups[offset :: self.rows]
        self.histogram += np.bincount(total.ravel(), minlength=len(self.histogram))
