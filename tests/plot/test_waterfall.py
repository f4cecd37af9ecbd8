"""The waterfall of an explanation: every bar starts where the one above ends, and small parts of many are summed."""

import numpy as np
import pytest

import dse
from dse.explaining.explanation import Explanation
from dse.explaining.parts import Part
from dse.plot.waterfall import MAX_PARTS, MIN_SHARE, draw_figure


def explanation(count: int, name: str = "factor") -> Explanation:
    values = np.random.default_rng(count).normal(size=count)
    parts = sorted((Part(f"{n}", f"{name} {n}", "1", "2", v, 0.0) for n, v in enumerate(values.tolist())), key=lambda p: -abs(p.value))
    return Explanation("latency", name, name, 10.0, 10.0 + values.sum(), tuple(parts), (), (), f"{name}.", "exact")


@pytest.mark.parametrize("count", [0, 1, MAX_PARTS, MAX_PARTS + 1, 40])
def test_bars_lead_from_one_side_to_the_other(count):
    given = explanation(count, "a name of many words and an_identifier_with_underscores")
    figure, table = draw_figure(given)
    (ax,) = figure.axes
    assert len(table) == 2 + min(count, MAX_PARTS)
    largest = max(abs(given.value_a), abs(given.value_b))
    shown = table[(table.kind == "end") | ((table.end - table.start).abs() >= MIN_SHARE * largest)]
    assert len(ax.patches) == len(shown)
    assert table.kind.iloc[[0, -1]].tolist() == ["end", "end"]
    steps = table.iloc[1:-1]
    assert np.allclose(np.r_[given.value_a, steps.end], np.r_[steps.start, given.value_b])
    widths = [patch.get_width() for patch in ax.patches]
    assert np.allclose(widths, shown.end - shown.start)
    figure.draw_without_rendering()
    right = max(patch.get_x() + max(patch.get_width(), 0) for patch in ax.patches)
    assert ax.get_xlim()[1] > right


def test_texts_of_a_figure():
    result = dse.explain("a100-sxm4-80gb, resnet50, asp, batch=32")
    figure, _ = draw_figure(result)
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()][:2] == ["ideal 2x of 2:4", "traffic that pruning does not remove"]
    assert {"2x", "-0.624x", "1.33x"} <= {text.get_text() for text in ax.texts}
    assert figure.get_suptitle().replace("\n", " ") == result.sentence
    assert ax.get_xlabel() == "speedup over dense"
