"""Samples of accuracies have the quantiles of their intervals; estimates of a network share their error, measurements do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.workload.accuracy_samples import UncertainAccuracy, sample_accuracies
from dse.workload.pattern_shares import PatternShares


def accuracy(value: float, low: float = np.nan, high: float = np.nan, kind: str = "measured", variant: str = "a") -> UncertainAccuracy:
    return UncertainAccuracy(value, low, high, kind, "net", variant)


@given(st.floats(-100, 100), st.floats(0, 10), st.floats(0, 10), st.integers(0, 5))
def test_the_quantiles_are_value_low_and_high(value, below, above, seed):
    (samples,) = sample_accuracies([accuracy(value, value - below, value + above)], samples=1001, seed=seed)
    np.testing.assert_allclose(
        np.quantile(samples, [0.05, 0.5, 0.95]), [value - below, value, value + above], atol=0.004 * (below + above) + 1e-9
    )


def test_an_accuracy_without_an_interval_or_of_zero_width_is_exact():
    samples = sample_accuracies([accuracy(75.0), accuracy(75.0, 75.0, 75.0, variant="b")])
    assert (samples == 75.0).all()


def test_estimates_of_a_network_are_sampled_at_the_same_quantile_and_measurements_independently():
    def correlation(kind: str) -> float:
        return np.corrcoef(sample_accuracies([accuracy(75, 74, 76, kind, "a"), accuracy(70, 60, 80, kind, "b")]))[0, 1]

    assert correlation("estimated") == pytest.approx(1)
    assert abs(correlation("measured")) < 0.1  # three standard errors of 1000 samples


def test_the_samples_of_a_variant_depend_on_the_seed_alone():
    first, second = accuracy(75, 74, 76, variant="a"), accuracy(70, 60, 80, variant="b")
    np.testing.assert_array_equal(sample_accuracies([first, second]), sample_accuracies([second, first])[::-1])
    np.testing.assert_array_equal(sample_accuracies([second]), sample_accuracies([first, second])[1:])
    assert (sample_accuracies([first], seed=1) != sample_accuracies([first])).any()


@pytest.mark.parametrize(
    ("shares", "chosen", "decided", "expected"),
    [
        ({"2:8": 0.71, "1:4": 0.24, "dense": 0.05}, "2:8", False, "the accuracies cannot decide between 2:8 and 1:4: 2:8 in 71% of samples, 1:4 in 24%, dense in 5%"),
        ({"2:4": 0.9, "dense": 0.1}, "2:4", True, "2:4 stays the best: 2:4 in 90% of samples, dense in 10%"),
        ({"2:4": 1.0, "dense": 0.0}, "2:4", True, "2:4 stays the best: 2:4 in 100% of samples"),
        ({"2:4": 0.999, "dense": 0.001}, "2:4", True, "2:4 stays the best: 2:4 in >99% of samples"),
        ({"2:4": 0.95, "1:4": 0.05}, "1:4", False, "the accuracies cannot decide between 2:4 and 1:4: 2:4 in 95% of samples, 1:4 in 5% (the best estimates choose 1:4)"),
        ({"a": 0.3, "b": 0.35, "c": 0.3, "d": 0.05}, "a", False, "the accuracies cannot decide between b, a and c: b in 35% of samples, a in 30%, c in 30%, d in 5% (the best estimates choose a)"),
        (dict.fromkeys("abcdefgh", 0.125), "a", False, "the accuracies cannot decide between a, b, c, d and 4 others: a in 12% of samples, b in 12%, c in 12%, d in 12%, e in 12%, others in 38%"),
    ],
)  # fmt: skip
def test_shares_in_words(shares, chosen, decided, expected):
    described = PatternShares(shares, chosen)
    assert described.is_decided is decided
    assert described.sentence == expected
