"""Attribution of differences: the parts add up, do not depend on an order, and are those of all permutations."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dse.html_report.shapley import attribute_differences, shapley_values

FINITE = st.floats(-1e3, 1e3)


def mean_over_orders(values: np.ndarray, count: int) -> np.ndarray:
    """The independent definition: the mean change by each factor over all orders of the factors."""
    parts = np.zeros(count)
    orders = list(itertools.permutations(range(count)))
    for order in orders:
        mask = 0
        for factor in order:
            parts[factor] += values[mask | 1 << factor] - values[mask]
            mask |= 1 << factor
    return parts / len(orders)


@given(st.integers(1, 5).flatmap(lambda count: st.tuples(st.just(count), arrays(float, 2**count, elements=FINITE))))
def test_parts_are_the_mean_over_all_orders_and_add_up(case):
    count, values = case
    parts = shapley_values(values, count)
    np.testing.assert_allclose(parts, mean_over_orders(values, count), atol=1e-9)
    assert parts.sum() == pytest.approx(values[-1] - values[0], abs=1e-9)


def test_a_single_factor_gets_the_whole_difference_and_swapping_negates_every_part():
    def area(designs):
        return designs[:, 0] * designs[:, 1] + designs[:, 2]

    start, end = np.array([2.0, 3.0, 5.0]), np.array([4.0, 7.0, 5.0])
    values, parts = attribute_differences(start, end, [0, 1], area)
    assert list(values) == [11, 17, 19, 33]
    assert parts.tolist() == [10, 12]  # of 6 and 14, and of 8 and 16
    assert attribute_differences(end, start, [0, 1], area)[1].tolist() == [-10, -12]
    assert attribute_differences(start, np.array([2.0, 3.0, 8.0]), [2], area)[1].tolist() == [3]
