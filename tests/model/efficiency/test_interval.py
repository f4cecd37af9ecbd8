"""90% intervals of networks: an error of their own is added to those of their kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.model.efficiency.interval import NETWORK_DEVIATION, WIDEST, Z_SCORE, add_deviation, network_interval, widen_half_width

DEVIATIONS = st.floats(1e-3, 1)


@given(DEVIATIONS, DEVIATIONS, st.floats(1e-6, 1e6))
def test_independent_deviations_add_in_quadrature(first, second, centre):
    ends = centre * np.exp([-Z_SCORE * first, Z_SCORE * first])
    both = Z_SCORE * np.hypot(first, second)
    np.testing.assert_allclose(add_deviation(ends, second), centre * np.exp([-both, both]), rtol=1e-9)


@given(st.floats(0.1, 10), st.floats(1, 3))
def test_an_interval_only_grows_and_keeps_its_middle(low, ratio):
    wider = add_deviation(np.array([low, low * ratio]), 0.1)
    assert wider[0] < low
    assert wider[1] > low * ratio
    assert wider.prod() == pytest.approx(low * low * ratio)
    np.testing.assert_allclose(add_deviation(np.array([low, low * ratio]), 0.0), [low, low * ratio], rtol=1e-12)


@pytest.mark.parametrize("runs", [1, 2])
def test_networks_without_errors_of_kernels_have_the_interval_of_their_runs(runs):
    half_width = Z_SCORE * NETWORK_DEVIATION * np.sqrt(runs)
    np.testing.assert_allclose(network_interval(np.ones((20, 3)), runs), np.exp([[-half_width] * 3, [half_width] * 3]), rtol=1e-12)


@given(st.floats(1e-3, 2), st.floats(0, 50), st.floats(0, 50))
def test_intervals_widen_with_the_distance_up_to_a_limit(half_width, first, second):
    near, far = (widen_half_width(half_width, np.array([distance]))[0] for distance in sorted((first, second)))
    assert half_width * (1 - 1e-12) <= near <= far <= max(half_width, WIDEST)
