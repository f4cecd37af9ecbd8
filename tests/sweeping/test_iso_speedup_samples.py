"""Speedup at iso-accuracy over samples of the accuracies, by hand and by a loop over samples."""

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dse.base.errors import InputError
from dse.sweeping.iso_speedup import choice_shares, iso_speedup, pattern_shares, weighted_quantiles

EXACT = (np.nan, np.nan)


def make_results(*variants: tuple, kind: str = "measured", direction: str = "higher") -> xr.Dataset:
    """Results on one design of variants, each (pattern, speedup, accuracy, (low, high)), of a dense network of accuracy 76."""
    patterns, speedups, accuracies, intervals = zip(*variants, strict=True)
    columns = {
        "workload": ["net"] * len(variants), "method": [f"m{pattern}" for pattern in patterns], "pattern": list(patterns),
        "accuracy_kind": [kind] * len(variants), "metric": ["accuracy"] * len(variants),
    }  # fmt: skip
    coords = {name: ("variant", np.array(values, object)) for name, values in columns.items()}
    low, high = zip(*intervals, strict=True)
    numbers = {"nominal_sparsity": [0.5] * len(variants), "accuracy": accuracies, "dense_accuracy": [76.0] * len(variants)}
    numbers |= {"accuracy_low": low, "accuracy_high": high}
    coords |= {name: ("variant", np.array(values, float)) for name, values in numbers.items()}
    attrs = {"metrics": json.dumps({"net": {"accuracy": {"direction": direction}}})}
    speedup = (("accelerator", "variant"), np.array([speedups]))
    return xr.Dataset({"speedup": speedup}, coords | {"accelerator": ["chip"], "variant": np.arange(len(variants))}, attrs)


def shares(results: xr.Dataset, drop: float = 1.0, seed: int = 0) -> dict[str, float]:
    """The share of each pattern on the only design."""
    return dict(pattern_shares(iso_speedup(results, drop, seed=seed)).shares)


@pytest.mark.parametrize(
    ("value", "low", "high", "share"),
    [(75.0, 74.0, 76.0, 0.5), (75.5, 75.0, 75.6, 0.95), (74.5, 74.0, 75.0, 0.05), (75.5, 75.5, 75.9, 1.0), (74.0, 73.0, 74.0, 0.0)],
)
def test_the_share_of_a_single_variant_is_its_probability_to_be_within_the_tolerance(value, low, high, share):
    """The tolerance is at 75: the median, the 5% quantile, the 95% quantile, below all samples, above all samples."""
    assert shares(make_results(("2:4", 2.0, value, (low, high)))) == pytest.approx({"dense": 1 - share, "2:4": share})


def test_the_quantiles_of_the_speedup_are_those_of_the_chosen_variants():
    """The sparse network at 2x in 50% of the samples, else the dense one: 5% quantile 1, 95% quantile 2."""
    found = iso_speedup(make_results(("2:4", 2.0, 75.0, (74.0, 76.0))), 1.0)
    assert (found.speedup_low.item(), found.speedup_median.item(), found.speedup_high.item()) == (1, 1, 2)
    assert found.speedup.item() == 2
    assert not found.decided.item()
    assert pattern_shares(found).sentence == "the accuracies cannot decide between 2:4 and dense: 2:4 in 50% of samples, dense in 50%"


def test_independent_measurements_and_estimates_that_share_their_error():
    """Both feasible in half of the samples: independently, the slower one is chosen in a quarter; at the same quantile, never."""
    variants = ("1:4", 3.0, 75.0, (74.0, 76.0)), ("2:4", 2.0, 75.0, (74.0, 76.0))
    error = 4 * np.sqrt(0.25 * 0.75 / 1000)
    assert shares(make_results(*variants)) == pytest.approx({"1:4": 0.5, "2:4": 0.25, "dense": 0.25}, abs=error)
    assert shares(make_results(*variants, kind="estimated")) == pytest.approx({"1:4": 0.5, "2:4": 0.0, "dense": 0.5})


def test_a_metric_that_falls():
    falls = make_results(("2:4", 2.0, 76.5, (76.0, 77.0)), direction="lower")  # the tolerance is at 77
    assert shares(falls) == pytest.approx({"dense": 0.05, "2:4": 0.95})


def test_the_order_of_the_variants_changes_no_share_and_another_seed_little():
    variants = [("1:4", 3.0, 75.0, (74.0, 76.0)), ("2:4", 2.0, 75.2, (74.5, 76.0)), ("4:8", 1.5, 75.9, (75.5, 76.0))]
    first = shares(make_results(*variants))
    assert shares(make_results(*variants[::-1])) == pytest.approx(first, abs=1e-12)
    assert shares(make_results(*variants)) == first
    assert shares(make_results(*variants), seed=1) == pytest.approx(first, abs=6 * np.sqrt(0.25 / 1000))


@given(st.lists(st.tuples(st.floats(0.5, 4), st.floats(73, 77)), min_size=1, max_size=5))
def test_intervals_of_zero_width_give_the_answer_without_intervals(variants):
    rows = [(f"{n}:8", speedup, value) for n, (speedup, value) in enumerate(variants, start=1)]
    exact = iso_speedup(make_results(*((*row, EXACT) for row in rows)))
    sampled = iso_speedup(make_results(*((*row, (row[2], row[2])) for row in rows)))
    for name in ("speedup", "best"):
        np.testing.assert_array_equal(sampled[name], exact[name])
    for name in ("speedup_low", "speedup_median", "speedup_high"):
        np.testing.assert_array_equal(sampled[name], exact.speedup)
    assert sampled.decided.all()
    assert "pattern_share" not in exact


def test_results_of_older_versions_have_no_intervals():
    results = make_results(("2:4", 2.0, 75.5, EXACT)).drop_vars(["accuracy_low", "accuracy_high"])
    found = iso_speedup(results)
    assert found.speedup.item() == 2
    with pytest.raises(InputError, match="no accuracy of the sweep has an interval; add the columns 'low' and 'high' to "):
        pattern_shares(found)


random_scores = arrays(float, (3, 4), elements=st.sampled_from([1.0, 2.0, 3.0, np.inf]))
random_masks = arrays(bool, (4, 6))


@given(random_scores, random_masks)
def test_shares_are_those_of_a_loop_over_samples(scores, feasible):
    expected = np.zeros(scores.shape)
    for cell, row in enumerate(scores):
        for sample in range(feasible.shape[1]):
            allowed = np.where(feasible[:, sample], row, np.inf)
            if np.isfinite(allowed).any():
                expected[cell, allowed.argmin()] += 1 / feasible.shape[1]
    np.testing.assert_allclose(choice_shares(scores, feasible), expected, atol=1e-12)


def test_a_weighted_quantile_is_the_least_value_that_covers_the_share():
    values, weights = np.array([[3.0, 1.0, 2.0]]), np.array([[0.5, 0.04, 0.46]])
    np.testing.assert_array_equal(weighted_quantiles(values, weights, [0.04, 0.05, 0.5, 0.51])[:, 0], [1, 2, 2, 3])
