"""Which columns of a random mask hold any nonzero: the rows of the other operand that a product has to read.

In C[m, n] = A[m, k] B[k, n] row j of B is needed only if column j of A has a nonzero. Patterns choose columns for several rows
together (V:N:M for V rows, blocks for their height), so few distinct columns may be left. Means are over random masks whose
choices are independent from tile to tile, which leaves slightly fewer columns than masks with a fixed number of tiles have
(Hoeffding 1963: sampling without replacement is no more spread out), so a lower bound stays one.
"""

from dataclasses import dataclass

import numpy as np

from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, Dense, Hierarchy, Structured, density_of_kept_blocks
from dse.sparsity.pattern import FloatOrArray, Pattern

Segment = tuple[FloatOrArray, FloatOrArray]  # number of columns, chance that one of them holds a nonzero


def needed_share(pattern: Pattern, rows: FloatOrArray, k: FloatOrArray, density: FloatOrArray, uses: FloatOrArray = 1.0) -> FloatOrArray:
    """Expected share of k that is needed by `rows` rows of a random mask of `pattern` of which `density` is nonzero [1].

    `uses`: columns, with nonzeros independent of each other, that need the same element (the offsets of a convolution's kernel).
    """
    parts = _segments(pattern, rows, k, *_fill(pattern, rows, k, density))
    joint = uses if not (isinstance(pattern, Structured) and pattern.axis == "channel") else 1.0
    return np.minimum(sum(count * _any(chance, joint) for count, chance in parts) / k, 1.0)


@dataclass(frozen=True)
class SharedColumnChoices:
    """Choices that rows share: an aligned stripe of `rows` rows opens a column by the chance `share`; in an open one each band of
    `band_rows` rows by `band_share`; and each row of an open band has a nonzero there by `element_share`."""

    rows: FloatOrArray
    share: FloatOrArray
    band_rows: FloatOrArray
    band_share: FloatOrArray
    element_share: FloatOrArray


def shared_column_choices(pattern: Pattern, m: FloatOrArray, k: FloatOrArray, density: FloatOrArray) -> SharedColumnChoices:
    """How the rows of a random mask of `pattern` share columns; choices deeper than two levels count as those of single rows."""
    levels = [(rows, share) for rows, share in _levels(pattern, m, density) if np.any(rows > 1)]
    (rows, share), (band_rows, band_share) = (levels + [(1.0, 1.0)] * 2)[:2]
    element = np.clip(density / np.maximum(share * band_share, 1e-300), 0.0, 1.0)
    return SharedColumnChoices(rows, share, band_rows, band_share, element)


def columns_kept_together(pattern: Pattern) -> int:
    """Neighbouring columns that are kept or dropped together."""
    if isinstance(pattern, Block):
        return pattern.columns
    return (
        max(pattern.tile[1] if pattern.has_free_tiles else 1, columns_kept_together(pattern.inner)) if isinstance(pattern, Hierarchy) else 1
    )


def _levels(pattern: Pattern, m: FloatOrArray, density: FloatOrArray) -> list[tuple[FloatOrArray, FloatOrArray]]:
    """(rows, share) of each choice that rows share, outermost first."""
    if isinstance(pattern, Structured) and pattern.axis != "row":
        return [(m, density)]
    if isinstance(pattern, Block):
        return [(float(pattern.rows), density)]
    if isinstance(pattern, NM):
        return [(float(pattern.v), np.full_like(density, pattern.n / pattern.m))]
    if isinstance(pattern, VNM):
        return [(float(pattern.v), np.full_like(density, min(VNM_COLUMNS / pattern.m, 1.0)))]
    if not isinstance(pattern, Hierarchy):
        return []
    inner = np.full_like(density, density_of_kept_blocks(pattern.inner))
    if isinstance(pattern.outer, Block):
        return [(float(pattern.outer.rows), np.minimum(density / inner, 1.0)), *_levels(pattern.inner, m, inner)]
    share = np.full_like(density, pattern.outer.n / pattern.outer.m)
    return [(float(pattern.inner.tile[0]), share), *_levels(pattern.inner, m, inner)]


def _fill(pattern: Pattern, m: FloatOrArray, k: FloatOrArray, density: FloatOrArray) -> tuple[FloatOrArray, FloatOrArray]:
    """Share of the free tiles that is kept, and how full what a pattern fixes is."""
    if pattern.density is not None:
        return 1.0, np.minimum(density * m * k / np.maximum(pattern.max_nonzeros(m, k), 1e-300), 1.0)
    inner = density_of_kept_blocks(pattern.inner) if isinstance(pattern, Hierarchy) else 1.0
    return np.minimum(density / inner, 1.0), 1.0


def _segments(pattern: Pattern, rows: FloatOrArray, k: FloatOrArray, kept: FloatOrArray, full: FloatOrArray) -> list[Segment]:
    """The columns of a mask [rows, k], those that are alike together; cut tiles at the edge are segments of their own."""
    if isinstance(pattern, Dense):
        return [(k, np.ones_like(k * full))]
    if isinstance(pattern, Structured):
        return [(k, np.where(kept > 0, 1.0, 0.0) if pattern.axis == "row" else kept)]
    if isinstance(pattern, Block):
        return [(k, _any(kept, np.ceil(rows / pattern.rows)))]
    if isinstance(pattern, NM):
        return [(n, _any(full * np.minimum(pattern.n / size, 1), np.ceil(rows / pattern.v))) for size, n in _groups(k, pattern.m)]
    if isinstance(pattern, VNM):
        return [(n, _chosen(pattern, rows, size, full)) for size, n in _groups(k, pattern.m)]
    assert isinstance(pattern, Hierarchy)
    if isinstance(pattern.outer, Block):
        return _in_blocks(pattern, rows, k, kept, full)
    return _in_groups(pattern, rows, k, full)


def _in_blocks(pattern: Hierarchy, rows: FloatOrArray, k: FloatOrArray, kept: FloatOrArray, full: FloatOrArray) -> list[Segment]:
    (high, wide), found = pattern.tile, []
    for size, columns in _groups(k, wide):
        whole, last = (_segments(pattern.inner, deep, size, 1.0, full) for deep in (1.0 * high, rows % high))
        for (n, chance), (_, cut) in zip(whole, last, strict=True):
            found.append((n * columns / size, 1 - (1 - kept * chance) ** (rows // high) * (1 - kept * cut)))
    return found


def _in_groups(pattern: Hierarchy, rows: FloatOrArray, k: FloatOrArray, full: FloatOrArray) -> list[Segment]:
    """Tiles of the inner pattern, of which so many of each group are kept."""
    assert isinstance(pattern.outer, NM)
    (high, wide), found = pattern.inner.tile, []
    for span, columns in _groups(k, wide * pattern.outer.m):
        chosen = np.minimum(pattern.outer.n / np.ceil(span / wide), 1.0)
        for size, within in _groups(span, wide):
            whole, last = (_segments(pattern.inner, deep, size, 1.0, full) for deep in (1.0 * high, rows % high))
            for (n, chance), (_, cut) in zip(whole, last, strict=True):
                share = n / size * within * columns / span
                found.append((share, 1 - (1 - chosen * chance) ** (rows // high) * (1 - chosen * cut)))
    return found


def _chosen(pattern: VNM, rows: FloatOrArray, size: FloatOrArray, full: FloatOrArray) -> FloatOrArray:
    """The chance that one of the columns of a group of `size` has a nonzero in `rows` rows."""
    columns = np.minimum(VNM_COLUMNS, size)
    each, stripe = full * np.minimum(pattern.n / columns, 1.0), float(pattern.v)
    whole, last = (columns / size * _any(each, deep) for deep in (stripe, rows % stripe))
    return 1 - (1 - whole) ** (rows // stripe) * (1 - last)


def _groups(k: FloatOrArray, size: FloatOrArray) -> list[Segment]:
    """(size of a group, columns in groups of that size): whole groups, and the one that the edge cuts."""
    whole = np.floor(k / size) * size
    return [(size * np.ones_like(whole, float), whole), (np.where(k > whole, k - whole, 1.0), k - whole)]


def _any(chance: FloatOrArray, times: FloatOrArray) -> FloatOrArray:
    """The chance that at least one of `times` independent choices falls on something."""
    return -np.expm1(times * np.log1p(-np.minimum(chance, 1 - 1e-16)))
