"""The compiled kernel against plain loops: every design of a grid, both precisions, any cut into chunks."""

import itertools
import math

import jax
import numpy as np
import pytest

from dse.model import roofline
from dse.model.grid import Grid, cut

SHAPES = [(), (5,), (3, 4), (2, 3, 5), (7, 1, 2)]


def arrays(seed: int, shape, layers: int = 7, executions: int = 3, terms: int = 4):
    """Random work, some of it illegal or absent, and inverse rates."""
    random = np.random.default_rng(seed)
    work = 10 ** random.uniform(3, 11, (layers, executions, terms)) * (random.random((layers, executions, terms)) < 0.8)
    work[:, 1:, 1][random.random((layers, executions - 1)) < 0.3] = np.inf
    constant = 10 ** random.uniform(-14, -9, (executions, terms))
    factors = [10 ** random.uniform(-2, 2, (executions, terms, size)) for size in shape]
    return work, constant, factors


def plain(work, constant, factors, place, compute: int, overlap: str) -> float:
    """The latency of one design by loops."""
    rates = constant * math.prod(factor[:, :, at] for factor, at in zip(factors, place, strict=True))
    total = 0.0
    for layer in work:
        fastest = math.inf
        for amounts, inverse in zip(layer, rates, strict=True):
            times = [w * i for w, i in zip(amounts, inverse, strict=True)]
            times = [max(times[:compute]), *times[compute:]]
            fastest = min(fastest, max(times) if overlap == "full" else sum(times))
        total += fastest
    return total


def evaluated(work, grid: Grid, compute: int, overlap, breakdown: bool = False) -> np.ndarray:
    outer = (work.shape[1], work.shape[2] - compute + 1) if breakdown else ()
    with jax.enable_x64(True):
        return grid.evaluated(
            lambda *rates: roofline.spent_time(
                work.astype(grid.precision), *rates, compute=compute, overlap=overlap, breakdown=breakdown
            ),
            outer,
        )  # fmt: skip


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("seed", "shape"), list(enumerate(SHAPES)))
@pytest.mark.parametrize(("compute", "overlap"), [(2, "full"), (1, "full"), (2, "none")])
def test_every_design_is_within_the_stated_error_of_plain_loops(precision, seed, shape, compute, overlap):
    work, constant, factors = arrays(seed, shape)
    found = evaluated(
        work, Grid(constant, factors, len(shape) // 2, math.prod(shape[len(shape) // 2 :]), 2, np.dtype(precision)), compute, overlap
    )
    assert found.shape == shape
    n = work.shape[0] + (work.shape[2] - compute + 1) + 4
    unit = np.finfo(precision).eps / 2
    bound = n * unit / (1 - n * unit) + (1e-15 * n if precision == "float64" else 0)  # the plain loops round too
    for place in itertools.product(*map(range, shape)):
        exact = plain(work, constant, factors, place, compute, overlap)
        assert abs(found[place] / exact - 1) <= bound


@pytest.mark.parametrize("breakdown", [False, True])
def test_what_is_evaluated_together_changes_no_bit(breakdown):
    work, constant, factors = arrays(9, (4, 3, 5))
    ways = [evaluated(work, Grid(constant, factors, 1, 15, rows, np.dtype(float)), 2, "full", breakdown) for rows in (1, 3, 4, 9)]
    assert all(np.array_equal(ways[0], way) for way in ways)
    for part in range(4):
        one = Grid(constant, [factors[0][..., part : part + 1], *factors[1:]], 1, 15, 1, np.dtype(float))
        np.testing.assert_array_equal(evaluated(work, one, 2, "full", breakdown)[..., 0, :, :], ways[0][..., part, :, :])


def test_what_each_resource_sets_sums_to_the_latency():
    work, constant, factors = arrays(4, (3, 4))
    grid = Grid(constant, factors, 1, 4, 2, np.dtype(float))
    spent, latency = evaluated(work, grid, 2, "full", breakdown=True), evaluated(work, grid, 2, "full")
    np.testing.assert_allclose(spent.sum(axis=(0, 1)), latency, rtol=1e-14)


def test_columns_are_the_last_axes_that_fit():
    shapes = {(): 0, (10,): 0, (10**9,): 1, (7, 10**4): 1, (10**9, 2, 3): 1, (2**7, 2**7): 0, (3, 2**7, 2**8): 2}
    assert {shape: cut(shape) for shape in shapes} == shapes


def test_a_grid_narrower_than_what_is_evaluated_at_once_repeats_designs():
    work, constant, factors = arrays(5, (3, 2))
    exact, wide = (evaluated(work, Grid(constant, factors, 0, width, 4, np.dtype(float)), 2, "full") for width in (6, 100))
    np.testing.assert_array_equal(exact, wide)
