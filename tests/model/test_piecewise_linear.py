"""Layers that are sorted and searched take as long as layers that are added up one by one."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.model.piecewise_linear import Lines, looked_up
from dse.model.rate_pairs import pairs

SPREAD = np.array([1e-12, 1e-3, 0.3, 1.0, 1.7, 40.0, 1e9])


def added(a, b, u, v) -> np.ndarray:
    """The time of all layers at pairs of u and v, layer by layer."""
    total = np.zeros(np.broadcast_shapes(u.shape, v.shape))
    for layer in range(len(a)):
        total += np.min([np.maximum(x * u, y * v) for x, y in zip(a[layer], b[layer], strict=True)], axis=0)
    return total


def searched(found: Lines, u, v, precision="float64", lines: int = 0) -> np.ndarray:
    """At pairs of u and v, split into those of a row and those of a column."""
    with jax.enable_x64(True):
        table, steps = found.table(np.dtype(precision), lines)
        rows, columns = (np.stack([u, v])[None].astype(precision), np.full((1, 2, 1), 2.0, precision))
        return np.asarray(looked_up(table, rows / 2, columns, steps=steps))[:, 0]


def layers(seed: int, count: int, executions: int, spread: float = 3.0):
    random = np.random.default_rng(seed)
    a, b = 10 ** random.uniform(-spread, spread, (2, count, executions))
    a[:, 1:][random.random((count, executions - 1)) < 0.3] = np.inf
    return a, b * (random.random(b.shape) < 0.9)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("executions", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 2, 60, 700])
def test_every_ratio_of_rates(precision, executions, count):
    a, b = layers(count + executions, count, executions)
    found = Lines.of(a, b)
    u = np.concatenate([np.geomspace(1e-10, 1e10, 999), found.breaks[:-1]])  # on the breaks, too
    exact = added(a, b, u, np.ones_like(u))
    np.testing.assert_allclose(
        searched(found, u, np.ones_like(u), precision, lines=len(found.breaks) + 5), exact, rtol=30 * np.finfo(precision).eps
    )


@given(
    st.lists(st.tuples(st.sampled_from([0.0, *SPREAD]), st.sampled_from(SPREAD)), min_size=1, max_size=30),
    st.lists(st.tuples(st.sampled_from(SPREAD), st.sampled_from(SPREAD)), min_size=6, max_size=6),
)
def test_layers_alike_absent_and_on_a_break(amounts, designs):
    """Many turn at the same ratio, some never do, and designs lie on the turns."""
    b, a = np.array(amounts).T[..., None]
    u, v = np.array(designs).T
    np.testing.assert_allclose(searched(Lines.of(a, b), u, v, lines=64), added(a, b, u, v), rtol=1e-13)


def test_breaks_that_crowd_are_halved():
    a = np.linspace(1, 1 + 1e-9, 50)[:, None]
    a[0] = 1e6
    b = np.ones_like(a)
    found = Lines.of(a, b)
    assert found.table(np.dtype(float))[1] == 6
    u = np.linspace(1 - 2e-9, 1, 500)
    np.testing.assert_allclose(searched(found, u, np.ones_like(u)), added(a, b, u, np.ones_like(u)), rtol=1e-14)


def test_lines_rise_and_are_as_many_as_layers_turn():
    """Of one execution: each layer turns from bytes to FLOPs once."""
    a, b = layers(3, 40, 1)
    b += 1e-6
    found = Lines.of(a, b)
    assert len(found.breaks) == 41
    assert (np.diff(found.slopes) > 0).all()
    assert (np.diff(found.heights) < 0).all()


def test_which_layers_depend_on_two_rates():
    """Bandwidth counts for all; of two units each is some layers' own, one that runs on either depends on three rates."""
    work = np.ones((3, 2, 3))
    work[:, :, 0] = 0  # no gain cap
    work[0, 1, 1] = work[1, 0, 1] = np.inf
    work[0, 1, 2] = work[1, 0, 2] = 0
    bandwidth, peaks = np.ones((2, 3, 4)), np.ones((2, 3, 5))
    bandwidth[:, 2], peaks[0, 1] = np.arange(1, 5), np.arange(1, 6)
    constant = np.array([[0.0, 2.0, 3.0], [0.0, 5.0, 3.0]])
    found = pairs(work, constant, [bandwidth, peaks])
    assert sorted(pair.layers.tolist() for pair in found) == [[False, True, False], [True, False, False]]
    (first,) = (pair for pair in found if pair.layers[0])
    times = {rate: first.times[number, 0].tolist() for number, rate in enumerate(first.rates)}
    assert times == {(0, 1): [2.0, np.inf], (0, 2): [3.0, np.inf]}
