"""What a real mask says exactly: nonzeros of each row and column, how full its blocks are, what patterns would store of it.

A matrix comes in slabs of rows and is never held whole. A group of M along k is a block of 1 x M, so that one count of
blocks answers both questions: which blocks are occupied, and whether the mask is N:M.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dse.base.errors import InputError
from dse.sparsity.kinds import DENSE, NM, UNSTRUCTURED, Block
from dse.sparsity.pattern import Pattern

BlockSize = tuple[int, int]  # rows and columns of a block

GROUPS = (2, 4, 8, 16, 32)
BLOCKS: tuple[BlockSize, ...] = ((4, 4), (8, 8), (16, 16), (32, 32))


@dataclass(frozen=True, eq=False)
class MaskStatistics:
    """Counts over a mask [m, k].

    `rows` [m] and `columns` [k] are nonzeros of each; `blocks` has for each block size the number of blocks with 0, 1, ...
    nonzeros [R C + 1], blocks cut by the edge included.
    """

    rows: np.ndarray
    columns: np.ndarray
    blocks: dict[BlockSize, np.ndarray]

    @property
    def nnz(self) -> int:
        return int(self.rows.sum())

    @property
    def size(self) -> int:
        return len(self.rows) * len(self.columns)

    @property
    def touched(self) -> int:
        """Columns with any nonzero: the rows of the other operand that a product needs."""
        return int(np.count_nonzero(self.columns))

    def occupied(self, block: BlockSize) -> int:
        """Blocks with any nonzero."""
        return int(self.blocks[block][1:].sum())

    def most(self, group: int) -> int:
        """Most nonzeros in any aligned group of `group` along k."""
        return int(np.flatnonzero(self.blocks[(1, group)]).max(initial=0))

    def stored_elements(self) -> dict[Pattern, float]:
        """Elements that each pattern stores of this mask, padding included; of N:M the tightest for each M that holds it."""
        m, k = len(self.rows), len(self.columns)
        found: dict[Pattern, float] = {DENSE: float(m * k), UNSTRUCTURED: float(self.nnz)}
        for rows, columns in self.blocks:
            found[Block(rows, columns)] = float(self.occupied((rows, columns)) * rows * columns)
            if rows == 1 and 0 < self.most(columns) < columns:
                pattern = NM(self.most(columns), columns)
                found[pattern] = float(pattern.stored_elements(m, k, 1.0))
        return found


def count_nonzeros(slabs: Iterable[np.ndarray], columns: int, blocks: Iterable[BlockSize], tolerance: float = 0.0) -> MaskStatistics:
    """Statistics of the matrix whose rows `slabs` [rows, columns] bring; an element is zero if |w| <= tolerance.

    Raises InputError at the first number that is not finite.
    """
    counters = {size: _Blocks(*size) for size in dict.fromkeys(blocks)}
    rows, total, seen = [], np.zeros(columns, np.int64), 0
    for slab in slabs:
        mask = nonzero_mask(slab, tolerance, seen)
        seen += len(mask)
        rows.append(mask.sum(axis=1, dtype=np.int64))
        total += mask.sum(axis=0, dtype=np.int64)
        along = _along_rows(mask, {size[1] for size in counters})
        for (_, width), counter in counters.items():
            counter.add(along[width])
    return MaskStatistics(np.concatenate(rows), total, {size: counter.finish() for size, counter in counters.items()})


def nonzero_mask(slab: np.ndarray, tolerance: float, first: int = 0) -> np.ndarray:
    """Where a slab, whose first row is number `first`, is not zero; raises InputError if a number is not finite."""
    if slab.dtype == bool:
        return slab
    if slab.dtype.kind == "c":
        raise InputError("the weights are complex numbers", "give real ones")
    if slab.dtype.kind not in "iu":
        slab = slab.astype(np.float32, copy=False) if slab.dtype.itemsize <= 4 else slab  # bf16 and fp8 have no fast sums
        _check_finite(slab, first)
    return slab != 0 if tolerance == 0 else np.abs(slab.astype(np.float64)) > tolerance


def _check_finite(slab: np.ndarray, first: int) -> None:
    with np.errstate(all="ignore"):
        if np.isfinite(slab.sum()) or np.isfinite(slab).all():  # the sum is cheap, and finite unless a number isn't, or it overflows
            return
    row, column = map(int, np.argwhere(~np.isfinite(slab))[0])
    what = f"the weight in row {first + row}, column {column} is {slab[row, column]}"
    raise InputError(what, "give finite weights: whether such a one is zero can't be said")


def _along_rows(mask: np.ndarray, widths: set[int]) -> dict[int, np.ndarray]:
    """Nonzeros of each aligned group along the rows, for each width; wide groups are sums of narrow ones."""
    found = {1: mask.view(np.uint8)}
    for width in sorted(widths - {1}):
        part = max(known for known in found if width % known == 0)
        found[width] = _summed(found[part], width // part, np.uint8 if width < 256 else np.uint32)
    return found


def _summed(counts: np.ndarray, along: int, dtype: type) -> np.ndarray:
    """Sums of `along` neighbours in each row; the last sum may have fewer."""
    if missing := -counts.shape[1] % along:
        counts = np.pad(counts, ((0, 0), (0, missing)))
    total = counts[:, ::along].astype(dtype)
    for offset in range(1, along):
        total += counts[:, offset::along]
    return total


class _Blocks:
    """Counts blocks by their nonzeros, as rows of group counts arrive in pieces of any height."""

    def __init__(self, rows: int, columns: int):
        self.rows, self.histogram = rows, np.zeros(rows * columns + 1, np.int64)
        self.waiting: np.ndarray | None = None  # rows of a block that is not complete

    def add(self, groups: np.ndarray) -> None:
        if self.waiting is not None:
            groups = np.concatenate([self.waiting, groups])
        whole = len(groups) // self.rows * self.rows
        self.waiting = groups[whole:]
        self._tally(groups[:whole])

    def finish(self) -> np.ndarray:
        if self.waiting is not None and len(self.waiting):
            self._tally(np.pad(self.waiting, ((0, self.rows - len(self.waiting)), (0, 0))))
        return self.histogram

    def _tally(self, groups: np.ndarray) -> None:
        total = groups[:: self.rows].astype(np.uint32) if self.rows > 1 else groups
        for offset in range(1, self.rows):
            total += groups[offset :: self.rows]
        self.histogram += np.bincount(total.ravel(), minlength=len(self.histogram))
