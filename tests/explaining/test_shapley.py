"""Shapley values: their axioms, against the mean over all orders, and sampled ones."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.explaining.shapley import make_game

values = st.floats(-1e3, 1e3)


def mean_over_orders(values_of: dict[frozenset[int], float], n: int) -> np.ndarray:
    """The definition, without any weight."""
    orders = list(itertools.permutations(range(n)))
    totals = np.zeros(n)
    for order in orders:
        for position, factor in enumerate(order):
            before = frozenset(order[:position])
            totals[factor] += values_of[before | {factor}] - values_of[before]
    return totals / len(orders)


@given(st.integers(0, 5).flatmap(lambda n: st.lists(values, min_size=2**n, max_size=2**n)))
def test_parts_are_the_mean_over_all_orders(numbers):
    n = int(np.log2(len(numbers)))
    game = make_game(n)
    parts = game.parts(np.array(numbers))
    of_sets = {frozenset(np.flatnonzero(mask)): value for mask, value in zip(game.masks, numbers, strict=True)}
    assert np.allclose(parts, mean_over_orders(of_sets, n), rtol=1e-9, atol=1e-9)
    assert parts.sum() == pytest.approx(numbers[game.last] - numbers[game.first], abs=1e-9)


@pytest.mark.parametrize("exact", [12, 3])
def test_parts_of_many_factors_add_up_negate_and_leave_out_what_has_no_effect(exact):
    game, weights = make_game(6, exact=exact), np.array([1.0, -2.0, 0.0, 4.0, 0.5, 3.0])

    def value(masks):
        chosen = masks * weights
        return chosen.sum(axis=1) + 10 * chosen[:, 0] * chosen[:, 3] + np.exp(chosen[:, 5])

    parts, swapped = game.parts(value(game.masks)), game.parts(value(~game.masks))
    assert parts.sum() == pytest.approx(value(game.masks)[game.last] - value(game.masks)[game.first], abs=1e-12)
    assert np.allclose(parts, -swapped, rtol=0, atol=1e-12)
    assert parts[2] == 0


def test_sampled_orders_approach_all_orders():
    def value(masks):
        return 1 / (1 + masks @ np.arange(1.0, 9.0))

    exact, sampled = make_game(8), make_game(8, exact=0, orders=2000)
    assert sampled.orders == 2000
    assert np.allclose(sampled.parts(value(sampled.masks)), exact.parts(value(exact.masks)), atol=0.01)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=8, max_size=8))
def test_parts_of_a_ratio_add_up(pairs):
    game, (numerator, denominator) = make_game(3), np.array(pairs).T
    through_denominator, through_numerator = game.ratio_parts(numerator, denominator)
    assert np.allclose(through_denominator + through_numerator, game.parts(numerator / denominator), atol=1e-9)
    constant, _ = game.ratio_parts(np.ones(8), denominator)
    assert np.allclose(constant, game.parts(1 / denominator), atol=1e-9)
