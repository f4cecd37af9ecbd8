"""Windows against brute force: they cover every mask, no smaller number does, and the expanded product is the same product."""

from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.sparsity import legal
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import NM
from dse.sparsity.windows import WindowCover, expand_weights, window_cover

UNITS = [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (2, 5), (2, 8), (3, 4), (4, 8)]


def fits(columns: tuple[int, ...], starts: tuple[int, ...], n: int, m: int) -> bool:
    """Whether all columns can be assigned to windows, by augmenting paths (Kuhn): no order of the windows is assumed."""
    assigned: list[list[int]] = [[] for _ in starts]

    def assign(column: int, visited: set[int]) -> bool:
        for window in [w for w, start in enumerate(starts) if start <= column < start + m and w not in visited]:
            visited.add(window)
            if len(assigned[window]) < n:
                assigned[window].append(column)
                return True
            for place, other in enumerate(assigned[window]):
                if assign(other, visited):
                    assigned[window][place] = column
                    return True
        return False

    return all(assign(column, set()) for column in columns)


def full_mask(text: str, m: int, k: int, generator: np.random.Generator) -> np.ndarray:
    """A random mask that keeps as much as an N:M pattern allows."""
    pattern = parse(text)
    assert isinstance(pattern, NM)
    mask = np.zeros((m, k), bool)
    for row in range(0, m, pattern.v):
        for left in range(0, k, pattern.m):
            columns = np.arange(left, min(left + pattern.m, k))
            kept = generator.permutation(columns)[: pattern.n]
            mask[row : row + pattern.v, kept] = True
    return mask


def known_cover(pattern: str, unit: str) -> WindowCover:
    cover = window_cover(parse(pattern), parse(unit))
    assert cover is not None
    return cover


def cover_all(starts: tuple[int, ...], kept: int, group: int, n: int, m: int) -> bool:
    return all(fits(columns, starts, n, m) for columns in combinations(range(group), kept))


def cases(largest_group: int):
    return [(kept, group, n, m) for n, m in UNITS for group in range(2, largest_group + 1) for kept in range(1, group)]


def test_the_windows_cover_every_mask_of_at_most_10_columns():
    for kept, group, n, m in cases(10):
        starts = WindowCover(NM(n, m), kept, group).starts
        assert cover_all(starts, kept, group, n, m), (kept, group, n, m, starts)
        assert list(starts) == sorted(starts)
        assert starts[-1] + m >= group


def test_no_smaller_number_of_windows_covers_every_mask_wherever_they_start():
    """Windows that start left of the group, or end right of it, contain no more columns than those moved to its edge."""
    compared = 0
    for kept, group, n, m in cases(8):
        fewer = len(WindowCover(NM(n, m), kept, group).starts) - 1
        places = range(max(group - m, 0) + 1)
        compared += sum(1 for starts in combinations_with_replacement(places, fewer) if not cover_all(starts, kept, group, n, m))
        assert not any(cover_all(starts, kept, group, n, m) for starts in combinations_with_replacement(places, fewer))
    assert compared > 1000


def test_the_condition_says_of_any_starts_whether_all_masks_fit():
    """a_{i+j} - a_i <= m + n (j - 1) for j <= ceil(kept / n), with a_{-1} = -m and a_L = M."""
    fitting = 0
    for kept, group, n, m in cases(6):
        for number in range(1, 5):
            for starts in combinations_with_replacement(range(max(group - m, 0) + 1), number):
                ends = (-m, *starts, group)
                steps = range(1, -(-kept // n) + 1)
                condition = all(ends[i + j] - ends[i] <= m + n * (j - 1) for j in steps for i in range(len(ends) - j))
                assert cover_all(starts, kept, group, n, m) == condition, (kept, group, n, m, starts)
                fitting += condition
    assert fitting > 500


@pytest.mark.parametrize("half", range(3, 9))
def test_2_4_units_cover_2n_minus_2_of_2n_with_n_minus_1_windows(half):
    """SlideSparse (arXiv 2603.05232): windows of stride 2, K expanded by 2 - 2 / N, and no padding stored."""
    cover = known_cover(f"{2 * half - 2}:{2 * half}", "2:4")
    assert cover.starts == tuple(range(0, 2 * half - 2, 2))
    assert cover.expansion == pytest.approx(2 - 2 / half)
    assert cover.stored_share == pytest.approx((half - 1) / half)


@pytest.mark.parametrize(
    ("unit", "pattern", "windows", "expansion", "stored"),
    [
        ("1:4", "2:5", 2, 8 / 5, 2 / 5),
        ("1:4", "3:6", 3, 12 / 6, 3 / 6),
        ("4:8", "6:10", 2, 16 / 10, 8 / 10),
        ("2:8", "4:10", 2, 16 / 10, 4 / 10),
        ("2:4", "5:8", 3, 12 / 8, 6 / 8),  # the last window stores a zero
        ("2:4", "4:8", 3, 12 / 8, 6 / 8),  # two windows of stride 4 take no four neighbours
        ("2:4", "9:16", 7, 28 / 16, 14 / 16),  # a chain of five windows, then two more
        ("2:4", "2:6", 2, 8 / 6, 4 / 6),  # without overlap, the last window padded
        ("2:4x4", "6:8x8", 3, 12 / 8, 6 / 8),
        ("2:4", "block:16x16/6:8", 3, 12 / 8, 6 / 8),
        ("2:4", "64:3:8", 3, 12 / 8, 6 / 8),
        ("2:4", "3:4/block:1x2", 3, 12 / 8, 6 / 8),  # three of four pairs are at most 6 of 8
    ],
)
def test_windows_of_other_units_and_patterns_by_hand(unit, pattern, windows, expansion, stored):
    cover = known_cover(pattern, unit)
    assert (len(cover.starts), cover.expansion, cover.stored_share) == pytest.approx((windows, expansion, stored))


@pytest.mark.parametrize(
    ("unit", "pattern"),
    [("2:4", "3:4"), ("2:4", "unstructured"), ("2:4", "block:16x16"), ("2:4", "dense"), ("block:4x4", "6:8"), ("2:4x4", "6:8")],
)
def test_no_windows_where_they_save_nothing_or_nothing_is_limited(unit, pattern):
    assert window_cover(parse(pattern), parse(unit)) is None


@st.composite
def matrices(draw):
    unit = draw(st.sampled_from(["2:4", "1:4", "2:8", "1:2", "3:4", "2:4x2"]))
    group = draw(st.integers(3, 18))
    rows = ("", "x2", "x4")[draw(st.integers(1 if "x" in unit else 0, 2))]
    pattern = f"{draw(st.integers(1, group - 1))}:{group}{rows}"
    seed = draw(st.integers(0, 2**32))
    return unit, pattern, draw(st.integers(1, 12)), draw(st.integers(1, 60)), seed


@given(matrices())
def test_the_expanded_product_is_the_product(case):
    unit, pattern, m, k, seed = case
    cover = window_cover(parse(pattern), parse(unit))
    generator = np.random.default_rng(seed)
    weights = generator.integers(1, 9, (m, k)) * full_mask(pattern, m, k, generator)
    other = generator.integers(-9, 9, (k, 3))
    if cover is None:
        with pytest.raises(InputError, match="store no less than all"):
            expand_weights(weights, pattern, unit)
        return
    expanded, columns = expand_weights(weights, pattern, unit)
    assert expanded.shape == (m, cover.expanded_columns(k))
    assert columns.shape == (expanded.shape[1],)
    assert legal(expanded != 0, unit)
    assert np.count_nonzero(expanded) == np.count_nonzero(weights)
    assert np.array_equal(expanded @ other[columns], weights @ other)


def test_a_mask_outside_the_pattern_is_refused():
    weights = np.tile([0, 1, 1, 1, 1, 1, 1, 1], (4, 2))  # 7:8
    with pytest.raises(InputError, match="not a legal mask of '6:8'"):
        expand_weights(weights, "6:8", "2:4")


def test_windows_that_wrap_around_a_group_may_be_fewer():
    """Three such windows cover 4:9, of which every window has two columns of its own; four consecutive ones are needed."""
    wrapped = [{0, 1, 2, 3}, {3, 4, 5, 6}, {6, 7, 8, 0}]
    subsets = [chosen for number in (1, 2, 3) for chosen in combinations(range(3), number)]
    for columns in combinations(range(9), 4):
        needing = [{w for w, window in enumerate(wrapped) if column in window} for column in columns]
        assert all(sum(windows <= set(chosen) for windows in needing) <= 2 * len(chosen) for chosen in subsets)
    assert len(known_cover("4:9", "2:4").starts) == 4
