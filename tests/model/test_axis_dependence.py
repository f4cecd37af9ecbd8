"""A network's time falls into parts that depend on few axes, and their sum is the time of the whole."""

import itertools
import math

import numpy as np
import pytest

from dse.model import axis_dependence
from dse.model.axis_dependence import LayerGroup, decisive, parts

SHAPES = [(5, 6, 7), (1, 6, 7), (5, 1, 1)]
PATHS = np.array([[[0, 1], [0, 0], [1, 0]], [[0, 1], [0, 0], [0, 1]], [[1, 0], [0, 0], [0, 1]]])  # [axis, execution, term]: what scales


def question(seed: int, spread: float, shape=SHAPES[0]):
    """Work of two terms under three executions, and rates that depend on one axis each, over a wide or a narrow range."""
    random = np.random.default_rng(seed)
    work = 10 ** random.uniform(6, 10, (12, 3, 3))
    work[:, :, 0] = 0  # no gain cap
    work[:, 1:, 1][random.random((12, 2)) < 0.3] = np.inf
    constant = np.concatenate([np.zeros((3, 1)), 10 ** random.uniform(-13, -11, (3, 1)), np.full((3, 1), 1e-11)], axis=1)
    factors = [np.ones((3, 3, size)) for size in shape]
    for axis, size in enumerate(shape):
        for execution, term in itertools.product(range(3), range(2)):
            if PATHS[axis, execution, term]:
                factors[axis][execution, term + 1] = 10 ** random.uniform(-spread, spread, size)
    return work, constant, factors


def latency(work, constant, factors, overlap, place) -> float:
    with np.errstate(invalid="ignore"):
        times = work * constant * math.prod(factor[:, :, at] for factor, at in zip(factors, place, strict=True))
    times = np.nan_to_num(times, nan=np.inf)
    return float((times.max(axis=2) if overlap == "full" else times.sum(axis=2)).min(axis=1).sum())


@pytest.mark.parametrize("overlap", ["full", "none"])
@pytest.mark.parametrize("spread", [0.05, 0.5, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_the_parts_add_up_on_every_design(monkeypatch, seed, shape, spread, overlap):
    monkeypatch.setattr(axis_dependence, "WORTH", 1)
    work, constant, factors = question(seed, spread, shape)
    found = parts(work, None, constant, factors, overlap)
    assert sum(len(part.work) for part in found) == len(work)
    for place in itertools.product(*map(range, shape)):
        total = 0.0
        for part in found:
            those = list(part.executions)
            total += latency(part.work, constant[those], [factor[those] for factor in factors], overlap, place)
            moved = [at if axis in part.axes else 0 for axis, at in enumerate(place)]
            own = [factor[those] if axis in part.axes else np.ones_like(factor[those]) for axis, factor in enumerate(factors)]
            elsewhere = latency(part.work, constant[those], own, overlap, moved)
            assert elsewhere == pytest.approx(latency(part.work, constant[those], [f[those] for f in factors], overlap, place), rel=1e-13)
        assert total == pytest.approx(latency(work, constant, factors, overlap, place), rel=1e-13)


def test_what_never_sets_the_time_is_left_out():
    """On a narrow grid the first execution always wins, and bytes set its time: only the bandwidth counts."""
    work = np.array([[[0.0, 1e9, 1e9], [0.0, 1e12, 1e9]]])
    constant = np.array([[0.0, 1e-12, 1e-9], [0.0, 1e-11, 1e-9]])
    bandwidth, peak = np.ones((2, 3, 4)), np.ones((2, 3, 5))
    bandwidth[:, 2], peak[0, 1] = np.linspace(1, 2, 4), np.linspace(1, 3, 5)
    (part,) = parts(work, None, constant, [bandwidth, peak], "full")
    assert (part.axes, part.executions) == ((0,), (0,))
    peak[0, 1] *= 1e3
    (part,) = parts(work, None, constant, [bandwidth, peak], "full")
    assert (part.axes, part.executions) == ((0, 1), (0,))


def test_with_terms_that_add_up_every_term_counts():
    work, constant, factors = question(1, 0.05)
    kept = decisive(work, None, constant, factors, "none")
    left = np.isfinite(kept[:, :, 1])
    np.testing.assert_array_equal(kept[left], work[left])


def test_a_part_hardly_smaller_than_the_grid_is_no_part_of_its_own():
    """3 of 4 designs are as many as all: what depends on the long axis alone goes with what depends on both."""
    work = np.array([[[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]])
    long, short = np.ones((1, 3, 9)), np.ones((1, 3, axis_dependence.WORTH - 1))
    long[:, 1], short[:, 2] = np.arange(1, 10), np.arange(1, axis_dependence.WORTH)
    found = parts(work, None, np.array([[0.0, 1.0, 1.0]]), [long, short], "full")
    assert [part.axes for part in found] == [(1,), (0, 1)]
    assert isinstance(found[0], LayerGroup)
