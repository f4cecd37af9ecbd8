"""Groups of layers that depend on few axes: on every design their latencies add up to that of the network."""

import itertools
import math

import numpy as np
import pytest

from dse.model import axis_dependence
from dse.model.axis_dependence import LayerGroup, drop_dominated, group_layers
from dse.model.roofline import NetworkWork

SHAPES = [(5, 6, 7), (1, 6, 7), (5, 1, 1)]
PATHS = np.array([[[0, 1], [0, 0], [1, 0]], [[0, 1], [0, 0], [0, 1]], [[1, 0], [0, 0], [0, 1]]])  # [axis, execution, term]: what scales


def random_network(seed: int, spread: float, shape=SHAPES[0]):
    """Work of two terms under three executions, and rates that depend on one axis each, over a wide or a narrow range."""
    random = np.random.default_rng(seed)
    work = 10 ** random.uniform(6, 10, (12, 3, 3))
    work[:, :, 0] = 0  # no gain cap
    legal = np.ones((12, 3), bool)
    legal[:, 1:] = random.random((12, 2)) >= 0.3
    constant = np.concatenate([np.zeros((3, 1)), 10 ** random.uniform(-13, -11, (3, 1)), np.full((3, 1), 1e-11)], axis=1)
    factors = [np.ones((3, 3, size)) for size in shape]
    for axis, size in enumerate(shape):
        for execution, term in itertools.product(range(3), range(2)):
            if PATHS[axis, execution, term]:
                factors[axis][execution, term + 1] = 10 ** random.uniform(-spread, spread, size)
    return NetworkWork(np.where(legal[:, :, None], work, 0.0), legal), constant, factors


def latency(network, constant, factors, overlap, indices) -> float:
    times = network.work * constant * math.prod(factor[:, :, at] for factor, at in zip(factors, indices, strict=True))
    times = times.max(axis=2) if overlap == "full" else times.sum(axis=2)
    return float(np.where(network.legal, times, np.inf).min(axis=1).sum())


@pytest.mark.parametrize("overlap", ["full", "none"])
@pytest.mark.parametrize("spread", [0.05, 0.5, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_the_groups_add_up_on_every_design(monkeypatch, seed, shape, spread, overlap):
    monkeypatch.setattr(axis_dependence, "LEAST_REDUCTION", 1)
    network, constant, factors = random_network(seed, spread, shape)
    groups = group_layers(network, constant, factors, overlap)
    assert sum(len(group.network.work) for group in groups) == len(network.work)
    for indices in itertools.product(*map(range, shape)):
        total = 0.0
        for group in groups:
            executions = list(group.executions)
            own = latency(group.network, constant[executions], [factor[executions] for factor in factors], overlap, indices)
            total += own
            other = [at if axis in group.axes else 0 for axis, at in enumerate(indices)]
            known = [factor[executions] if axis in group.axes else np.ones_like(factor[executions]) for axis, factor in enumerate(factors)]
            assert latency(group.network, constant[executions], known, overlap, other) == pytest.approx(own, rel=1e-13)
        assert total == pytest.approx(latency(network, constant, factors, overlap, indices), rel=1e-13)


def test_executions_and_terms_that_never_set_the_time_are_dropped():
    """On a narrow grid the first execution always wins, and bytes set its time: only the bandwidth counts."""
    network = NetworkWork(np.array([[[0.0, 1e9, 1e9], [0.0, 1e12, 1e9]]]), np.ones((1, 2), bool))
    constant = np.array([[0.0, 1e-12, 1e-9], [0.0, 1e-11, 1e-9]])
    bandwidth, peak = np.ones((2, 3, 4)), np.ones((2, 3, 5))
    bandwidth[:, 2], peak[0, 1] = np.linspace(1, 2, 4), np.linspace(1, 3, 5)
    (group,) = group_layers(network, constant, [bandwidth, peak], "full")
    assert (group.axes, group.executions) == ((0,), (0,))
    peak[0, 1] *= 1e3
    (group,) = group_layers(network, constant, [bandwidth, peak], "full")
    assert (group.axes, group.executions) == ((0, 1), (0,))


def test_without_overlap_no_term_is_dropped():
    network, constant, factors = random_network(1, 0.05)
    kept = drop_dominated(network, constant, factors, "none")
    np.testing.assert_array_equal(kept.work[kept.legal], network.work[kept.legal])
    assert kept.legal.any(axis=1).all()
    assert not (kept.legal & ~network.legal).any()


def test_a_group_whose_grid_is_hardly_smaller_joins_the_whole_grid():
    """3 of 4 designs are as many as all: what depends on the long axis alone goes with what depends on both."""
    network = NetworkWork(np.array([[[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]]), np.ones((2, 1), bool))
    long, short = np.ones((1, 3, 9)), np.ones((1, 3, axis_dependence.LEAST_REDUCTION - 1))
    long[:, 1], short[:, 2] = np.arange(1, 10), np.arange(1, axis_dependence.LEAST_REDUCTION)
    groups = group_layers(network, np.array([[0.0, 1.0, 1.0]]), [long, short], "full")
    assert [group.axes for group in groups] == [(1,), (0, 1)]
    assert isinstance(groups[0], LayerGroup)
