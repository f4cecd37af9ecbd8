"""Predicted against measured values: shared axes, few names and outliers at the edge."""

import numpy as np
import pytest

from dse.calibrate.validate.comparison import Comparison
from dse.plot import style, validation

RNG = np.random.default_rng(0)


def compare(
    measured: float,
    predicted: float,
    quantity: str = "time",
    split: str = "shapes",
    device: str = "gpu",
    kernel: str = "lib",
    family: str = "2:4",
) -> Comparison:
    fidelities = {"sol": predicted / 2, "r3": predicted, "capacity": predicted / 2, "calibrated": predicted}
    return Comparison("set", split, device, kernel, family, "fp16", quantity, (1, 2, 3), 0.5, measured, fidelities)  # type: ignore[arg-type]


def near_one(**names: str) -> list[Comparison]:
    return [compare(value, 1.01 * value, **names) for value in RNG.lognormal(0, 0.1, 40)]


def test_panels_of_a_quantity_share_their_axes():
    times = [compare(1e-3 * value, 1e-3 * value, split=split) for split, value in (("shapes", 1), ("shapes", 30), ("devices", 5))]
    figure, _ = validation.draw_figure([*times, *near_one(quantity="speedup"), *near_one(quantity="speedup", split="devices")])
    times, speedups = figure.axes[:2], figure.axes[2:]
    for panels in (times, speedups):
        assert len({(*ax.get_xlim(), *ax.get_ylim()) for ax in panels}) == 1


@pytest.mark.parametrize("outlier", [0.02, 50.0])
def test_outliers_are_arrowheads_at_the_edge(outlier):
    figure, table = validation.draw_figure([*near_one(quantity="speedup"), compare(outlier, 1.0, "speedup")])
    (ax,) = figure.axes
    low, high = ax.get_xlim()
    assert high < 10 * low
    (arrowhead,) = (line for line in ax.lines if line.get_marker() == (">" if outlier > 1 else "<"))
    assert low < arrowhead.get_xdata()[0] < high
    assert "arrowheads: 1 point beyond the frame" in " ".join(figure.legends[0].get_title().get_text().split())
    assert outlier in set(table.measured)


def test_no_value_is_an_outlier_of_even_values():
    figure, _ = validation.draw_figure([compare(value, value) for value in np.geomspace(1e-6, 1, 60)])
    assert "arrowheads" not in figure.legends[0].get_title().get_text()


@pytest.mark.parametrize(
    ("names", "entries"),
    [
        ([("gpu", "A", "dense"), ("gpu", "B V=1", "2:4"), ("gpu", "B V=1", "1:4"), ("gpu", "B V=2", "1:4")], {"A dense", "B 2:4", "B 1:4"}),
        ([("gpu", "A", "2:4"), ("gpu", "B V=1", "2:4"), ("gpu", "B V=2", "2:4")], {"A", "B V=1", "B V=2"}),
        ([(d, k, "2:4") for d in ("one", "two", "three") for k in ("V read", "V write", "V wait")], {"one", "two", "three", "V read", "V write", "V wait"}),
        ([("gpu", "A", "2:4")], {"A"}),
    ],
)  # fmt: skip
def test_the_legend_names_pairs_or_colours_and_markers(names, entries):
    """One colour for each device, or of one device for each library; a shorter legend is taken."""
    figure, _ = validation.draw_figure([compare(value, value, device=d, kernel=k, family=f) for d, k, f in names for value in (1.0, 2.0)])
    assert {text.get_text() for text in figure.legends[0].get_texts()} == entries


def test_no_two_kernels_of_the_same_name_differ_in_colour_or_marker():
    """Twenty libraries are too many for colours: another property has them."""
    kernels = [compare(1.0, 1.0, kernel=f"lib{n}", family="2:4" if n % 2 else "dense") for n in range(20)]
    figure, _ = validation.draw_figure(kernels)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["dense", "2:4"]
    colours = {line.get_color() for line in figure.axes[0].lines if line.get_label() in ("dense", "2:4")}
    assert len(colours) == 2 <= len(style.COLOURS)
