"""The piecewise-linear sum of layers equals their sum one by one."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.model.axis_dependence import layers_of_rate_pairs
from dse.model.piecewise_linear import PiecewiseLinear, evaluate_table
from dse.model.roofline import NetworkWork

SPREAD = np.array([1e-12, 1e-3, 0.3, 1.0, 1.7, 40.0, 1e9])


def summed(a, b, legal, u, v) -> np.ndarray:
    """The time of all layers at pairs of u and v, layer by layer."""
    total = np.zeros(np.broadcast_shapes(u.shape, v.shape))
    for layer in range(len(a)):
        times = [np.maximum(x * u, y * v) for x, y, allowed in zip(a[layer], b[layer], legal[layer], strict=True) if allowed]
        total += np.min(times, axis=0)
    return total


def looked_up(function: PiecewiseLinear, u, v, precision="float64", pieces: int = 0) -> np.ndarray:
    """At pairs of u and v, split into those of a row and those of a column."""
    with jax.enable_x64(True):
        table, halvings = function.table(np.dtype(precision), pieces)
        rows, columns = (np.stack([u, v])[None].astype(precision), np.full((1, 2, 1), 2.0, precision))
        return np.asarray(evaluate_table(table, rows / 2, columns, halvings=halvings))[:, 0]


def layers(seed: int, count: int, executions: int, spread: float = 3.0):
    random = np.random.default_rng(seed)
    a, b = 10 ** random.uniform(-spread, spread, (2, count, executions))
    legal = np.ones((count, executions), bool)
    legal[:, 1:] = random.random((count, executions - 1)) >= 0.3
    return a, b * (random.random(b.shape) < 0.9), legal


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("executions", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 2, 60, 700])
def test_every_ratio_of_rates(precision, executions, count):
    a, b, legal = layers(count + executions, count, executions)
    function = PiecewiseLinear.of_layers(a, b, legal)
    u = np.concatenate([np.geomspace(1e-10, 1e10, 999), function.breakpoints[:-1]])
    latency = looked_up(function, u, np.ones_like(u), precision, pieces=len(function.breakpoints) + 5)
    np.testing.assert_allclose(latency, summed(a, b, legal, u, np.ones_like(u)), rtol=30 * np.finfo(precision).eps)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, *SPREAD]), st.sampled_from(SPREAD)), min_size=1, max_size=30),
    st.lists(st.tuples(st.sampled_from(SPREAD), st.sampled_from(SPREAD)), min_size=6, max_size=6),
)
def test_equal_layers_layers_without_work_and_designs_on_a_breakpoint(amounts, designs):
    b, a = np.array(amounts).T[..., None]
    u, v = np.array(designs).T
    legal = np.ones(a.shape, bool)
    function = PiecewiseLinear.of_layers(a, b, legal)
    np.testing.assert_allclose(looked_up(function, u, v, pieces=64), summed(a, b, legal, u, v), rtol=1e-13)


def test_crowded_breakpoints_take_more_halvings():
    a = np.linspace(1, 1 + 1e-9, 50)[:, None]
    a[0] = 1e6
    b, legal = np.ones_like(a), np.ones(a.shape, bool)
    function = PiecewiseLinear.of_layers(a, b, legal)
    assert function.table(np.dtype(float))[1] == 6
    u = np.linspace(1 - 2e-9, 1, 500)
    np.testing.assert_allclose(looked_up(function, u, np.ones_like(u)), summed(a, b, legal, u, np.ones_like(u)), rtol=1e-14)


def test_slopes_rise_and_there_is_one_breakpoint_for_each_layer():
    """Of one execution: each layer goes from memory bound to compute bound once."""
    a, b, legal = layers(3, 40, 1)
    function = PiecewiseLinear.of_layers(a, b + 1e-6, legal)
    assert len(function.breakpoints) == 41
    assert (np.diff(function.slopes) > 0).all()
    assert (np.diff(function.heights) < 0).all()


def test_which_layers_depend_on_two_rates():
    """All depend on the bandwidth; the first two run on one unit each, the third on either of them, so it depends on three rates."""
    work, legal = np.ones((3, 2, 3)), np.array([[True, False], [False, True], [True, True]])
    work[:, :, 0] = 0  # no gain cap
    work[~legal] = 0
    bandwidth, peaks = np.ones((2, 3, 4)), np.ones((2, 3, 5))
    bandwidth[:, 2], peaks[0, 1] = np.arange(1, 5), np.arange(1, 6)
    constant = np.array([[0.0, 2.0, 3.0], [0.0, 5.0, 3.0]])
    pairs = layers_of_rate_pairs(NetworkWork(work, legal), constant, [bandwidth, peaks])
    assert sorted(pair.layers.tolist() for pair in pairs) == [[False, True, False], [True, False, False]]
    (first,) = (pair for pair in pairs if pair.layers[0])
    times = {rate: float(first.times[number, 0, 0]) for number, rate in enumerate(first.rates)}
    assert times == {(0, 1): 2.0, (0, 2): 3.0}
