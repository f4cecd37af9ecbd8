"""Fronts, hypervolumes and knees against their definitions."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dse.sweeping import pareto_front
from dse.sweeping.pareto_front import RankFilter, hypervolume, knee, nondominated, round_to_bits, select_candidates

# Few distinct values, so that points often tie in an objective or in all.
values = st.one_of(st.integers(0, 4).map(float), st.floats(-1e3, 1e3))
REFERENCE = 5.0


@st.composite
def clouds(draw, objectives=(1, 2, 3, 4, 5), most=40, elements=values) -> np.ndarray:
    shape = (draw(st.integers(1, most)), draw(st.sampled_from(objectives)))
    return draw(arrays(float, shape, elements=elements))


boxed = st.integers(0, 5).map(float) | st.floats(0, 6)


def dominates(a, b) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))


def inclusion_exclusion(points: np.ndarray) -> float:
    """Volume of the union of boxes from each point to the reference."""
    inside = [point for point in points if (point < REFERENCE).all()]
    total = 0.0
    for size in range(1, len(inside) + 1):
        for chosen in itertools.combinations(inside, size):
            total -= (-1) ** size * float(np.prod(REFERENCE - np.max(chosen, axis=0)))
    return total


def corner(points: np.ndarray) -> np.ndarray:
    return np.full(points.shape[1], REFERENCE)


@given(clouds())
def test_the_front_has_the_points_that_no_other_dominates(points):
    np.testing.assert_array_equal(nondominated(points), on_the_front(points))


def on_the_front(points: np.ndarray) -> list[bool]:
    """By definition: no other point dominates it up to rounding, nor is equal up to rounding and first in lexicographic order."""
    coarse = round_to_bits(points)
    return [
        not any(
            dominates(other, mine) or (tuple(other) == tuple(mine) and tuple(first) < tuple(exact))
            for other, first in zip(coarse, points, strict=True)
        )
        for mine, exact in zip(coarse, points, strict=True)
    ]


noisy = st.integers(1, 4).map(float) | st.builds(lambda n, ulps: n * (1 + ulps * 2.0**-52), st.integers(1, 4), st.integers(0, 3))


@given(clouds(elements=noisy), st.integers(1, 5), st.randoms())
def test_the_front_of_the_fronts_of_any_parts_is_the_front_of_the_whole(points, parts, random):
    """Also where points differ by rounding only."""
    part = np.array([random.randrange(parts) for _ in points])
    fronts = [points[part == number][nondominated(points[part == number])] for number in range(parts) if (part == number).any()]
    together = np.concatenate(fronts)
    found = together[nondominated(together)]
    assert sorted(map(tuple, found)) == sorted(map(tuple, points[nondominated(points)])) == sorted(map(tuple, points[on_the_front(points)]))


@given(clouds(elements=noisy))
def test_rounding_differences_put_no_point_on_the_front(points):
    front = np.unique(points[nondominated(points)], axis=0)
    for one, other in itertools.permutations(front, 2):
        assert not (one <= other * (1 + 1e-13)).all()
    for point in points:
        assert any((mark <= point * (1 + 1e-11)).all() for mark in front)


def test_areas_that_differ_by_rounding_are_equal():
    points = np.array([[1.0, 8.26e-4 + 1e-19], [2.0, 8.26e-4]])
    assert points[0, 1] > points[1, 1]
    assert nondominated(points).tolist() == [True, False]


@given(st.floats(-1e300, 1e300), st.sampled_from([40, 20]))
def test_rounding_is_relative_and_keeps_the_order(number, bits):
    found = round_to_bits(np.array([number]), bits)[0]
    assert abs(found - number) <= abs(number) * 2.0**-bits + 5e-324
    assert round_to_bits(np.array([-number]), bits)[0] == -found
    assert round_to_bits(np.array([np.nextafter(number, np.inf)]), bits)[0] >= found


@pytest.mark.parametrize(("objectives", "seed"), list(itertools.product((4, 5, 6), range(3))))
def test_the_front_of_more_points_than_a_block_holds(objectives, seed):
    many = np.random.default_rng(seed).integers(0, 12, (1000, objectives)).astype(float)
    better = (many[:, None] <= many[None]).all(-1) & (many[:, None] < many[None]).any(-1)
    np.testing.assert_array_equal(nondominated(many), ~better.any(axis=0))


@given(clouds(), st.randoms())
def test_the_front_does_not_depend_on_order_or_scale(points, random):
    order = list(range(len(points)))
    random.shuffle(order)
    np.testing.assert_array_equal(nondominated(points[order]), nondominated(points)[order])
    np.testing.assert_array_equal(nondominated(points * 2.0), nondominated(points))


@given(clouds(objectives=(2,), elements=boxed))
def test_the_hypervolume_of_two_objectives_is_that_of_a_staircase(points):
    area, ceiling = 0.0, REFERENCE
    for x, y in sorted(map(tuple, points)):
        if x < REFERENCE and y < ceiling:
            area += (REFERENCE - x) * (ceiling - y)
            ceiling = y
    assert hypervolume(points, corner(points)) == pytest.approx(area, abs=1e-9)


@given(clouds(objectives=(1, 2, 3, 4, 5), most=8, elements=boxed))
def test_the_hypervolume_is_that_of_a_union_of_boxes(points):
    assert hypervolume(points, corner(points)) == pytest.approx(inclusion_exclusion(points), abs=1e-6)


@given(clouds(objectives=(2, 3, 4), most=12, elements=boxed), st.data())
def test_a_point_adds_volume_unless_it_is_dominated(points, data):
    before = hypervolume(points, corner(points))
    new = data.draw(arrays(float, points.shape[1], elements=boxed))
    after = hypervolume(np.vstack([points, new]), corner(points))
    assert after >= before - 1e-9
    if any((point <= new).all() for point in points):
        assert after == pytest.approx(before, abs=1e-9)
    elif (new < REFERENCE - 1e-3).all() and all((point - new).max() > 1e-3 for point in points):
        assert after > before


@given(clouds(objectives=(2, 3, 4), most=12, elements=boxed), st.floats(0.1, 10))
def test_the_hypervolume_scales_with_each_objective_and_only_the_front_matters(points, factor):
    volume = hypervolume(points, corner(points))
    scaled, reference = points.copy(), corner(points)
    scaled[:, 0] *= factor
    reference[0] *= factor
    assert hypervolume(scaled, reference) == pytest.approx(factor * volume, abs=1e-9)
    assert hypervolume(points[nondominated(points)], corner(points)) == pytest.approx(volume, abs=1e-9)
    assert hypervolume(points[:, ::-1], corner(points)) == pytest.approx(volume, abs=1e-9)


@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_the_hypervolume_of_a_simplex_grid_by_formula(objectives):
    """Points with integer coordinates of sum n cover all unit cells whose corner has a sum of n or more: the others can be counted."""
    n = 6
    grid = np.array([p for p in itertools.product(range(n + 1), repeat=objectives) if sum(p) == n], float)
    cells = sum(sum(cell) >= n for cell in itertools.product(range(n + 1), repeat=objectives))
    assert hypervolume(grid, np.full(objectives, n + 1.0)) == pytest.approx(cells)


@given(clouds(objectives=(2,), most=20))
def test_the_knee_of_two_objectives_lies_farthest_below_the_line_through_the_ends(points):
    front = np.unique(points[nondominated(points)], axis=0)
    assume(len(front) > 2)
    scaled = (front - front.min(axis=0)) / np.ptp(front, axis=0)  # the ends are (0, 1) and (1, 0)
    below = (1 - scaled.sum(axis=1)) / np.sqrt(2)
    assert below[knee(front)] == pytest.approx(below.max(), abs=1e-12)


def test_knees_computed_by_hand():
    assert knee(np.array([[0.0, 10.0], [1.0, 2.0], [5.0, 1.0], [10.0, 0.0]])) == 1
    assert knee(np.array([[3.0, 1.0]])) == 0
    assert knee(np.array([[0.0, 7.0], [0.0, 7.0]])) == 0


@pytest.mark.parametrize(("count", "objectives", "seconds"), [(1_000_000, 2, 1.0), (100_000, 3, 3.0)])
def test_many_points_take_little_time(count, objectives, seconds):
    """All on the front, the worst case; the best of three runs, as the machine may be shared."""
    points = np.abs(np.random.default_rng(0).normal(size=(count, objectives)))
    points = 1 - points / np.linalg.norm(points, axis=1, keepdims=True)

    def run() -> float:
        start = time.perf_counter()
        assert nondominated(points).sum() > 0.99 * count
        return time.perf_counter() - start

    assert min(run() for _ in range(3)) < seconds


@pytest.fixture
def small_samples(monkeypatch):
    monkeypatch.setattr(pareto_front, "SAMPLE", 30)
    monkeypatch.setattr(pareto_front, "MAX_CANDIDATES", 30)
    monkeypatch.setattr(pareto_front, "CHUNK", 64)


def random_points(seed: int, objectives: int, count: int, levels: int) -> np.ndarray:
    """Points with many ties (few levels) or none, over several orders of magnitude."""
    generator = np.random.default_rng(seed)
    points = 10.0 ** generator.uniform(-6, 3, (count, objectives))
    return np.round(generator.uniform(0, levels, (count, objectives))) if levels else points


@settings(max_examples=150)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(31, 600), st.sampled_from([0, 2, 9]))
def test_the_front_of_the_candidates_is_that_of_all_points(seed, objectives, count, levels):
    points = random_points(seed, objectives, count, levels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pareto_front, "SAMPLE", 30)
        patch.setattr(pareto_front, "MAX_CANDIDATES", 30)
        patch.setattr(pareto_front, "CHUNK", 64)
        selected = select_candidates(list(points.T))
    assert (np.diff(selected) > 0).all()
    assert selected[nondominated(points[selected])].tolist() == np.flatnonzero(nondominated(points)).tolist()


def test_few_points_are_left_of_many(small_samples):
    points = random_points(0, 3, 20_000, 0)
    assert len(select_candidates(list(points.T))) < 2_000


def test_a_point_of_the_same_bucket_dominates_nothing():
    """Two points that differ in one bucket of the first objective only: neither may be left out."""
    table = RankFilter.from_sample(np.array([[1.0, 1.0], [2.0, 5.0], [3.0, 0.5]]))
    assert table.select([np.array([1.5, 2.5]), np.array([1.0, 1.0])]).tolist() == [0]
    assert table.select([np.array([1.0, 1.2]), np.array([1.0, 1.0])]).tolist() == [0, 1]
