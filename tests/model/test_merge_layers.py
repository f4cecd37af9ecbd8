"""Merged layers take as long as the layers that they stand for, on every design, and only proportional layers are merged."""

import jax
import numpy as np
import pytest

from dse.model.merge_layers import merge_proportional
from dse.model.roofline import Combination, NetworkWork, network_latency

SAMPLES, LAYERS, EXECUTIONS, TERMS, DESIGNS = 3, 12, 3, 4, 50


def proportional_layers(seed: int):
    """Four kinds of layers, each repeated in several sizes; one kind has a single legal execution and overheads of its own."""
    random = np.random.default_rng(seed)
    kind, size = np.arange(LAYERS) % 4, random.uniform(0.1, 10, LAYERS)
    work = 10 ** random.uniform(3, 9, (SAMPLES, 4, EXECUTIONS, TERMS))[:, kind] * size[:, None, None]
    overhead = random.uniform(1e-6, 1e-5, (SAMPLES, 4, EXECUTIONS))[:, kind] * size[:, None]
    legal = np.array([[True, True, True], [True, False, True], [False, True, True], [False, True, False]])[kind]
    overhead[:, kind == 3] = random.uniform(1e-6, 1e-5, (SAMPLES, LAYERS // 4, EXECUTIONS))
    return np.where(legal[:, :, None], work, 0.0), overhead, legal, random


@pytest.mark.parametrize("overlap", ["full", "none", "pipelined"])
@pytest.mark.parametrize("seed", range(5))
def test_the_latency_stays_the_same_on_every_design(seed, overlap):
    work, overhead, legal, random = proportional_layers(seed)
    merge = merge_proportional(work, legal, overhead)
    assert len(merge.first) == 4
    rates = 10 ** random.uniform(-14, -10, (EXECUTIONS, TERMS, DESIGNS))
    with jax.enable_x64(True):
        rates = jax.numpy.asarray(rates)
        for sample in range(SAMPLES):
            whole = NetworkWork(work[sample], legal, overhead[sample])
            merged = NetworkWork(merge.total(work[sample]), legal[merge.first], merge.total(overhead[sample]))
            expected, latency = (network_latency(network, rates, Combination(2, overlap)) for network in (whole, merged))
            np.testing.assert_allclose(latency, expected, rtol=1e-12)


def test_what_differs_is_not_merged():
    """Another ratio of terms, another legal execution, another ratio in one sample, or another value of an array that has to be equal."""
    work, overhead, legal, _ = proportional_layers(0)
    assert len(merge_proportional(work[:, [0, 4]], legal[[0, 4]], overhead[:, [0, 4]]).first) == 1
    other = work[:, [0, 4]].copy()
    other[1, 1, 0, 2] *= 1 + 1e-9
    assert len(merge_proportional(other, legal[[0, 4]], overhead[:, [0, 4]]).first) == 2
    barred = legal[[0, 4]].copy()
    barred[1, 2] = False
    assert len(merge_proportional(work[:, [0, 4]], barred, overhead[:, [0, 4]]).first) == 2
    longer = overhead[:, [0, 4]] * np.array([1.0, 2.0])[:, None]
    assert len(merge_proportional(work[:, [0, 4]], legal[[0, 4]], longer).first) == 2
    assert len(merge_proportional(work[:, [0, 4]], legal[[0, 4]], overhead[:, [0, 4]], [np.array([0, 1])]).first) == 2


def test_layers_without_work_are_one():
    merge = merge_proportional(np.zeros((1, 3, 2, 4)), np.ones((3, 2), bool))
    assert len(merge.first) == 1
    np.testing.assert_array_equal(merge.total(np.ones((3, 2))), [[3.0, 3.0]])
