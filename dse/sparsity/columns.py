"""The expected columns of a random mask with any nonzero: the rows of the other operand that a product has to read.

In C[m, n] = A[m, k] B[k, n], row j of B is needed only if column j of A has a nonzero. Patterns choose columns for several rows together
(V:N:M for V rows, blocks for their height), so that fewer distinct columns may have nonzeros. The means are over random masks whose tiles
are chosen independently. They have slightly fewer such columns than masks with a fixed number of tiles (Hoeffding 1963: sampling without
replacement has no larger spread), so a lower bound on bytes remains one.
"""

from dataclasses import dataclass

import numpy as np

from dse.sparsity.expectation import any_of
from dse.sparsity.hierarchy import Hierarchy, density_of_kept_blocks
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, Dense, Structured
from dse.sparsity.pattern import FloatOrArray, Pattern

Segment = tuple[FloatOrArray, FloatOrArray]  # number of columns, and the probability that one of them has a nonzero


def needed_share(pattern: Pattern, rows: FloatOrArray, k: FloatOrArray, density: FloatOrArray, uses: FloatOrArray = 1.0) -> FloatOrArray:
    """The expected fraction of k that `rows` rows of a random mask of `pattern` with this density need.

    `uses`: columns with independent nonzeros that need the same element (the offsets of a convolution's kernel).
    """
    segments = _segments(pattern, rows, k, *_kept_and_filled(pattern, rows, k, density))
    columns_each = uses if not (isinstance(pattern, Structured) and pattern.axis == "channel") else 1.0
    return np.minimum(sum(count * any_of(chance, columns_each) for count, chance in segments) / k, 1.0)


@dataclass(frozen=True)
class SharedColumnChoices:
    """Choices of columns that rows share, as nested probabilities.

    An aligned stripe of `rows` rows selects a column with probability `share`. In a selected column, each band of `band_rows` rows is
    selected with probability `band_share`, and each row of a selected band has a nonzero with probability `element_share`.
    """

    rows: FloatOrArray
    share: FloatOrArray
    band_rows: FloatOrArray
    band_share: FloatOrArray
    element_share: FloatOrArray


def shared_column_choices(pattern: Pattern, m: FloatOrArray, k: FloatOrArray, density: FloatOrArray) -> SharedColumnChoices:
    """How the rows of a random mask of `pattern` share columns; choices below two levels count as choices of single rows."""
    levels = [(rows, share) for rows, share in _shared_choices(pattern, m, density) if np.any(rows > 1)]
    (rows, share), (band_rows, band_share) = (levels + [(1.0, 1.0)] * 2)[:2]
    element = np.clip(density / np.maximum(share * band_share, 1e-300), 0.0, 1.0)
    return SharedColumnChoices(rows, share, band_rows, band_share, element)


def columns_kept_together(pattern: Pattern) -> int:
    """The number of neighbouring columns that are kept or dropped together."""
    if isinstance(pattern, Block):
        return pattern.columns
    return (
        max(pattern.tile[1] if pattern.has_free_tiles else 1, columns_kept_together(pattern.inner)) if isinstance(pattern, Hierarchy) else 1
    )


def _shared_choices(pattern: Pattern, m: FloatOrArray, density: FloatOrArray) -> list[tuple[FloatOrArray, FloatOrArray]]:
    """Rows and probability of each choice that rows share, outermost first."""
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
        return [(float(pattern.outer.rows), np.minimum(density / inner, 1.0)), *_shared_choices(pattern.inner, m, inner)]
    share = np.full_like(density, pattern.outer.n / pattern.outer.m)
    return [(float(pattern.inner.tile[0]), share), *_shared_choices(pattern.inner, m, inner)]


def _kept_and_filled(pattern: Pattern, m: FloatOrArray, k: FloatOrArray, density: FloatOrArray) -> tuple[FloatOrArray, FloatOrArray]:
    """The fraction of free tiles that is kept, and the fraction of fixed slots that is nonzero."""
    if pattern.density is not None:
        return 1.0, np.minimum(density * m * k / np.maximum(pattern.max_nonzeros(m, k), 1e-300), 1.0)
    inner = density_of_kept_blocks(pattern.inner) if isinstance(pattern, Hierarchy) else 1.0
    return np.minimum(density / inner, 1.0), 1.0


def _segments(pattern: Pattern, rows: FloatOrArray, k: FloatOrArray, kept: FloatOrArray, filled: FloatOrArray) -> list[Segment]:
    """The columns of a mask [rows, k], grouped by equal probability; incomplete tiles at the edge are separate segments."""
    if isinstance(pattern, Dense):
        return [(k, np.ones_like(k * filled))]
    if isinstance(pattern, Structured):
        return [(k, np.where(kept > 0, 1.0, 0.0) if pattern.axis == "row" else kept)]
    if isinstance(pattern, Block):
        return [(k, any_of(kept, np.ceil(rows / pattern.rows)))]
    if isinstance(pattern, NM):
        return [(n, any_of(filled * np.minimum(pattern.n / size, 1), np.ceil(rows / pattern.v))) for size, n in _groups(k, pattern.m)]
    if isinstance(pattern, VNM):
        return [(n, _in_vnm_group(pattern, rows, size, filled)) for size, n in _groups(k, pattern.m)]
    assert isinstance(pattern, Hierarchy)
    if isinstance(pattern.outer, Block):
        return _in_blocks(pattern, rows, k, kept, filled)
    return _in_groups(pattern, rows, k, filled)


def _in_blocks(pattern: Hierarchy, rows: FloatOrArray, k: FloatOrArray, kept: FloatOrArray, filled: FloatOrArray) -> list[Segment]:
    """The segments of an inner pattern inside blocks, of which the fraction `kept` is kept."""
    (height, width), segments = pattern.tile, []
    for size, columns in _groups(k, width):
        for count, full_block, last_block in _inner_segments(pattern.inner, rows, height, size, filled):
            untouched = (1 - kept * full_block) ** (rows // height) * (1 - kept * last_block)
            segments.append((count * columns / size, 1 - untouched))
    return segments


def _in_groups(pattern: Hierarchy, rows: FloatOrArray, k: FloatOrArray, filled: FloatOrArray) -> list[Segment]:
    """The segments of an inner pattern inside tiles, of which an outer N:M keeps N of each group of M."""
    assert isinstance(pattern.outer, NM)
    (height, width), segments = pattern.inner.tile, []
    for span, columns in _groups(k, width * pattern.outer.m):
        kept = np.minimum(pattern.outer.n / np.ceil(span / width), 1.0)
        for size, within in _groups(span, width):
            for count, full_tile, last_tile in _inner_segments(pattern.inner, rows, height, size, filled):
                untouched = (1 - kept * full_tile) ** (rows // height) * (1 - kept * last_tile)
                segments.append((count / size * within * columns / span, 1 - untouched))
    return segments


def _inner_segments(
    inner: Pattern, rows: FloatOrArray, height: int, size: FloatOrArray, filled: FloatOrArray
) -> list[tuple[FloatOrArray, FloatOrArray, FloatOrArray]]:
    """The segments of kept tiles of `height` rows and `size` columns: columns, probability in a full tile, and in the last, shorter one."""
    full, last = (_segments(inner, tile_rows, size, 1.0, filled) for tile_rows in (1.0 * height, rows % height))
    return [(count, in_full, in_last) for (count, in_full), (_, in_last) in zip(full, last, strict=True)]


def _in_vnm_group(pattern: VNM, rows: FloatOrArray, size: FloatOrArray, filled: FloatOrArray) -> FloatOrArray:
    """The probability that a column of a group of `size` columns has a nonzero in `rows` rows."""
    columns = np.minimum(VNM_COLUMNS, size)
    in_row, height = filled * np.minimum(pattern.n / columns, 1.0), float(pattern.v)
    full, last = (columns / size * any_of(in_row, stripe_rows) for stripe_rows in (height, rows % height))
    return 1 - (1 - full) ** (rows // height) * (1 - last)


def _groups(k: FloatOrArray, size: FloatOrArray) -> list[tuple[FloatOrArray, FloatOrArray]]:
    """Size of a group and columns in groups of that size: the complete groups, and the incomplete one at the edge."""
    complete = np.floor(k / size) * size
    return [(size * np.ones_like(complete, float), complete), (np.where(k > complete, k - complete, 1.0), k - complete)]
