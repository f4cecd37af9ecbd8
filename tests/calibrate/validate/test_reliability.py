"""Predicted probabilities of a speedup against how often there was one."""

import numpy as np
import pytest

from dse.calibrate.validate.comparison import Comparison, compute_reliability
from dse.calibrate.validate.report import format_reliability
from dse.model.efficiency.interval import Z_SCORE

ABOUT = ("set", "shapes", "device", "kernel", "2:4", "fp16")


def comparisons(scale_of_interval: float) -> list[Comparison]:
    """5,000 speedups whose logarithm is normal about the prediction, with an interval `scale_of_interval` times as wide as it should be."""
    generator = np.random.default_rng(0)
    predicted, deviation = np.exp(generator.normal(0, 0.3, 5000)), 0.2
    measured = predicted * np.exp(generator.normal(0, deviation, 5000))
    width = np.exp(Z_SCORE * deviation * scale_of_interval)
    return [
        Comparison(*ABOUT, "speedup", (1, 1, 1), 0.5, float(m), {"calibrated": float(p)}, (p / width, p * width))
        for m, p in zip(measured, predicted, strict=True)
    ]


def test_probabilities_of_correct_intervals_are_reliable():
    bins = compute_reliability(comparisons(1.0))
    assert sum(each.speedups for each in bins) == 5000
    for each in bins:
        assert each.share_faster == pytest.approx(each.mean_predicted, abs=0.04)


def test_intervals_that_are_too_narrow_show():
    first, *_, last = compute_reliability(comparisons(0.3))
    assert first.share_faster > first.mean_predicted + 0.05
    assert last.share_faster < last.mean_predicted - 0.05


def test_the_table_has_a_row_for_each_bin_and_none_without_intervals():
    table = format_reliability(comparisons(1.0), markdown=True).splitlines()
    assert table[0] == "| predicted probability of a speedup, leave-one-shape-out | n | mean | measured above 1 |"
    assert [line.split(" | ")[0] for line in table[2:]] == [
        "| 0% to 5%", "| 5% to 25%", "| 25% to 50%", "| 50% to 75%", "| 75% to 95%", "| 95% to 100%",
    ]  # fmt: skip
    assert format_reliability([]) == ""
