"""The compiled functions against plain loops: every design of a grid, both precisions, any number of rows at a time."""

import itertools
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse.model.efficiency.interval import NETWORK_DEVIATION, add_deviation, quantiles
from dse.model.grid import Grid, Samples, breakdown_on_grid, first_column_axis, intervals, latency_on_grid, samples_on_grid
from dse.model.roofline import Combination, NetworkWork

SHAPES = [(), (5,), (3, 4), (2, 3, 5), (7, 1, 2)]


def arrays(seed: int, shape, layers: int = 7, executions: int = 3, terms: int = 4):
    """Random work, some of it zero, some executions illegal, and inverse rates."""
    random = np.random.default_rng(seed)
    work = 10 ** random.uniform(3, 11, (layers, executions, terms)) * (random.random((layers, executions, terms)) < 0.8)
    legal = np.ones((layers, executions), bool)
    legal[:, 1:] = random.random((layers, executions - 1)) >= 0.3
    constant = 10 ** random.uniform(-14, -9, (executions, terms))
    factors = [10 ** random.uniform(-2, 2, (executions, terms, size)) for size in shape]
    return NetworkWork(work, legal), constant, factors


def plain(network, constant, factors, indices, unit_terms: int, overlap: str) -> float:
    """The latency of one design by loops."""
    rates = constant * math.prod(factor[:, :, at] for factor, at in zip(factors, indices, strict=True))
    total = 0.0
    for layer, legal in zip(network.work, network.legal, strict=True):
        fastest = math.inf
        for amounts, allowed, inverse in zip(layer, legal, rates, strict=True):
            times = [w * i for w, i in zip(amounts, inverse, strict=True)]
            times = [max(times[:unit_terms]), *times[unit_terms:]]
            combined = {"full": max(times), "none": sum(times), "pipelined": (times[0] ** 4 + max(times[1:]) ** 4) ** 0.25}[overlap]
            fastest = min(fastest, combined) if allowed else fastest
        total += fastest
    return total


def evaluate(network, grid: Grid, unit_terms: int, overlap, breakdown: bool = False) -> np.ndarray:
    executions, terms = network.work.shape[1:]
    network = network._replace(work=network.work.astype(grid.precision))
    shape = (executions, terms - unit_terms + 1)
    function = breakdown_on_grid if breakdown else latency_on_grid
    with jax.enable_x64(True):
        results = grid.evaluate(
            lambda *rates: function(network, *rates, combination=Combination(unit_terms, overlap)),
            (math.prod(shape),) if breakdown else (),
        )
    return results.reshape((*shape, *grid.shape)) if breakdown else results


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("seed", "shape"), list(enumerate(SHAPES)))
@pytest.mark.parametrize(("unit_terms", "overlap"), [(2, "full"), (1, "full"), (2, "none"), (2, "pipelined")])
def test_every_design_is_within_the_stated_error_of_plain_loops(precision, seed, shape, unit_terms, overlap):
    network, constant, factors = arrays(seed, shape)
    grid = Grid(constant, factors, len(shape) // 2, math.prod(shape[len(shape) // 2 :]), 2, np.dtype(precision))
    latency = evaluate(network, grid, unit_terms, overlap)
    assert latency.shape == shape
    n = network.work.shape[0] + (network.work.shape[2] - unit_terms + 1) + 4 + 8 * (overlap == "pipelined")  # powers and roots round too
    unit = np.finfo(precision).eps / 2
    bound = n * unit / (1 - n * unit) + (1e-15 * n if precision == "float64" else 0)  # the plain loops round too
    for indices in itertools.product(*map(range, shape)):
        assert abs(latency[indices] / plain(network, constant, factors, indices, unit_terms, overlap) - 1) <= bound


@pytest.mark.parametrize("breakdown", [False, True])
def test_the_number_of_rows_at_a_time_changes_no_bit(breakdown):
    network, constant, factors = arrays(9, (4, 3, 5))
    results = [evaluate(network, Grid(constant, factors, 1, 15, rows, np.dtype(float)), 2, "full", breakdown) for rows in (1, 3, 4, 9)]
    assert all(np.array_equal(results[0], other) for other in results)
    for part in range(4):
        one = Grid(constant, [factors[0][..., part : part + 1], *factors[1:]], 1, 15, 1, np.dtype(float))
        np.testing.assert_array_equal(evaluate(network, one, 2, "full", breakdown)[..., 0, :, :], results[0][..., part, :, :])


@pytest.mark.parametrize("overlap", ["full", "none", "pipelined"])
def test_the_breakdown_sums_to_the_latency(overlap):
    network, constant, factors = arrays(4, (3, 4))
    grid = Grid(constant, factors, 1, 4, 2, np.dtype(float))
    breakdown, latency = evaluate(network, grid, 2, overlap, breakdown=True), evaluate(network, grid, 2, overlap)
    np.testing.assert_allclose(breakdown.sum(axis=(0, 1)), latency, rtol=1e-14)


def test_each_sample_is_evaluated_as_a_network_of_its_own():
    """Intervals of the latency and of the speedup have numpy's quantiles over the samples, with rows that do not fill the last call."""
    network, constant, factors = arrays(6, (5, 3))
    random, samples = np.random.default_rng(0), 20
    work = network.work * random.uniform(1, 2, (samples, *network.work.shape))
    overhead = random.uniform(1e-6, 1e-5, (samples, *network.legal.shape))
    grid, combination = Grid(constant, factors, 1, 4, 2, np.dtype(float)), Combination(2, "pipelined")
    dense = random.uniform(1e-3, 1e-2, (samples, 6, 4))  # three calls of two rows, one row and one column more than the grid has

    groups = [  # two groups of layers, the executions of one in another order
        Samples(work[:, :3], network.legal[:3], overhead[:, :3], (0, 1, 2)),
        Samples(work[:, 3:, ::-1], network.legal[3:, ::-1], overhead[:, 3:, ::-1], (2, 1, 0)),
    ]

    latencies = partial(samples_on_grid, groups, combination=combination)

    with jax.enable_x64(True):
        sampled = grid.evaluate(latencies, (samples,))
        first, second = (partial(samples_on_grid, [group], combination=combination) for group in groups)
        added = grid.evaluate(lambda rows, columns: second(rows, columns, first(rows, columns)), (samples,))
        alone = grid.evaluate(lambda rows, columns: intervals(latencies(rows, columns)), (2,))
        calls = [jnp.asarray(dense[:, start : start + 2]) for start in (0, 2, 4)]
        paired = grid.evaluate(lambda rows, columns, dense: intervals(latencies(rows, columns), dense), (4,), calls)
        each = np.stack([
            grid.evaluate(partial(latency_on_grid, NetworkWork(w, network.legal, o), combination=combination))
            for w, o in zip(work, overhead, strict=True)
        ])  # fmt: skip
    speedup = dense[:, :5, :3] / each
    np.testing.assert_allclose(sampled, each, rtol=1e-14)
    np.testing.assert_allclose(added, each, rtol=1e-14)
    np.testing.assert_allclose(alone, add_deviation(np.quantile(each, [0.05, 0.95], axis=0), NETWORK_DEVIATION), rtol=1e-13)
    of_speedup = add_deviation(np.quantile(speedup, [0.05, 0.95], axis=0), NETWORK_DEVIATION * np.sqrt(2))
    np.testing.assert_allclose(paired, np.concatenate([alone, of_speedup]), rtol=1e-13)


@pytest.mark.parametrize("samples", [1, 2, 3, 20, 33, 101])
def test_quantiles_are_those_of_numpy(samples):
    values = np.random.default_rng(samples).normal(size=(samples, 7))
    np.testing.assert_allclose(quantiles(values), np.quantile(values, [0.05, 0.95], axis=0), rtol=1e-13, atol=1e-15)


def test_columns_are_the_last_axes_that_fit():
    shapes = {(): 0, (10,): 0, (10**9,): 1, (7, 10**4): 1, (10**9, 2, 3): 1, (2**7, 2**7): 0, (3, 2**7, 2**8): 2}
    assert {shape: first_column_axis(shape) for shape in shapes} == shapes


def test_a_grid_narrower_than_a_call_repeats_designs():
    network, constant, factors = arrays(5, (3, 2))
    exact, wide = (evaluate(network, Grid(constant, factors, 0, width, 4, np.dtype(float)), 2, "full") for width in (6, 100))
    np.testing.assert_array_equal(exact, wide)
