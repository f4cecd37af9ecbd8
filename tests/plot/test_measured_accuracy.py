"""Accuracies of a study: families over panels, bars within the frame."""

import numpy as np
import pandas as pd
import pytest

from dse.plot.measured_accuracy import HIGHEST, MAX_CURVES, family, plot_measured_accuracy

PATTERNS = ["unstructured", *(f"block:{n}x{n}" for n in (2, 4, 8, 16, 32, 64)), "1:4", "1:8", "16:2:8"]


def study(patterns: list[str], half_width: float) -> pd.DataFrame:
    rows = [("net", "dense", 0.0, 98.0, np.nan, np.nan)]
    for number, pattern in enumerate(patterns):
        for sparsity in [0.5, 0.75] if ":" not in pattern or "block" in pattern else [0.75]:
            value = 96.0 - 30 * sparsity - number
            rows.append(("net", pattern, sparsity, value, value - half_width, value + half_width))
    return pd.DataFrame(rows, columns=["network", "pattern", "sparsity", "value", "low", "high"])


@pytest.mark.parametrize("half_width", [1.0, 90.0])
def test_bars_are_whole_and_no_accuracy_is_beyond_its_range(half_width):
    rows = study(PATTERNS, half_width)
    figure = plot_measured_accuracy(rows)
    for ax in figure.axes:
        low, high = ax.get_ylim()
        bars = [segment[:, 1] for bar in ax.collections for segment in bar.get_segments()]  # type: ignore[attr-defined]
        assert all(low <= end <= high and 0 <= end <= HIGHEST for bar in bars for end in bar)
        assert low < rows.value.min() < rows.value.max() < high


def test_no_panel_has_many_curves_and_each_family_is_in_one():
    figure = plot_measured_accuracy(study(PATTERNS, 1.0))
    names = [[str(line.get_label()) for line in ax.lines if not str(line.get_label()).startswith("_")] for ax in figure.axes]
    families = [name for panel in names for name in panel if name != "dense"]
    assert sorted(families) == sorted({family(pattern) for pattern in PATTERNS})
    assert all(len(panel) <= MAX_CURVES + 1 for panel in names)
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {*families, "dense"}
