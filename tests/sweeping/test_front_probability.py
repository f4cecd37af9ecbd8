"""The probability that a point is on the front, by hand and by a front of each sample."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dse
from dse.sweeping.front_probability import front_probability
from dse.sweeping.pareto_front import nondominated
from tests.sweeping.test_iso_speedup_samples import EXACT, make_results

OBJECTIVES = {"maximize": ["speedup"], "minimize": ["accuracy_drop"]}


def test_two_variants_whose_order_in_accuracy_is_open():
    """The faster one is always on the front, the slower one where it is more accurate: independent equal intervals, in half of them."""
    front = dse.pareto(make_results(("1:4", 3.0, 75.0, (74.0, 76.0)), ("2:4", 2.0, 75.0 + 1e-6, (74.0, 76.0))), **OBJECTIVES)
    np.testing.assert_allclose(front.front_probability, [0.5, 1.0], atol=4 * np.sqrt(0.25 / 1000))
    assert front.front_probability.units == "1"


@pytest.mark.parametrize(("high", "probability"), [(75.0, 1.0), (77.0, 0.5)])
def test_an_exact_variant_against_one_that_may_overtake_it(high, probability):
    """The faster variant of accuracy 75 (exact) dominates the slower one wherever that is at most 75: its median, or below."""
    slow = (75.0 + 1e-9, 75.0 if high == 75.0 else 73.0, max(high, 75.0 + 1e-9))
    results = make_results(("1:4", 3.0, 75.0, EXACT), ("2:4", 2.0, slow[0], (slow[0] if high == 75.0 else 73.0, slow[2])))
    front = dse.pareto(results, maximize=["speedup", "accuracy"])
    assert front.front_probability.values.tolist() == [probability, 1.0]


def test_exact_accuracies_have_no_probability_and_those_of_zero_width_are_certain():
    rows = [("1:4", 3.0, 74.0), ("2:4", 2.0, 75.0), ("4:8", 1.5, 75.5)]
    exact = dse.pareto(make_results(*((*row, EXACT) for row in rows)), **OBJECTIVES)
    sampled = dse.pareto(make_results(*((*row, (row[2], row[2])) for row in rows)), **OBJECTIVES)
    assert "front_probability" not in exact
    xr.testing.assert_identical(sampled.speedup.drop_vars(sampled.speedup.coords), exact.speedup.drop_vars(exact.speedup.coords))
    assert (sampled.front_probability == 1).all()
    assert "front_probability" not in dse.pareto(make_results(*((*row, (0, 100)) for row in rows)), maximize=["speedup"])


columns = st.integers(0, 2).flatmap(lambda count: arrays(float, (6, count), elements=st.integers(0, 3).map(float)))


@given(columns, arrays(int, 6, elements=st.integers(0, 2)), arrays(float, (3, 5), elements=st.integers(0, 3).map(float)))
def test_probabilities_are_those_of_a_front_of_each_sample(others, variants, losses):
    """A point is on the front of a sample if no other dominates it there, whether or not it equals another one."""
    expected = np.zeros(len(others))
    for sample in losses.T:
        points = np.column_stack([others, sample[variants]])
        on_front = {tuple(point) for point in points[nondominated(points)]}
        expected += [tuple(point) in on_front for point in points]
    found = front_probability(others, variants, others, variants, losses)
    np.testing.assert_allclose(found, expected / losses.shape[1], atol=1e-12)
