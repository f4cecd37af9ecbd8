"""Styles of curves, grids of panels, and ticks of logarithmic axes."""

import numpy as np
import pandas as pd
import pytest

from dse.base.display_units import DisplayUnit
from dse.base.errors import InputError
from dse.plot import style


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (2, 1), (1, 2), (7, 1), (1, 7), (20, 1), (10, 2), (1, 20), (60, 1), (1, 60), (2, 30), (20, 3)]
)
@pytest.mark.parametrize("width", [3.6, 5.4])
def test_every_panel_has_its_own_place_and_the_lowest_of_each_column_its_labels(rows, columns, width):
    titles = [f"row {n}" for n in range(rows)], [f"column {n}" for n in range(columns)]
    figure, axes = style.create_panels(*titles, width=width)
    style.label_edges(axes, "x", "y")
    places = [(ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start) for ax in axes.flat]
    assert len(set(places)) == len(figure.axes) == rows * columns
    assert [ax.get_title() for ax in axes.flat] == [f"{row}, {column}" for row in titles[0] for column in titles[1]]
    lowest = {column: max(row for row, other in places if other == column) for _, column in places}
    for ax, (row, column) in zip(axes.flat, places, strict=True):
        assert ax.get_xlabel() == "x" or lowest[column] > row
        assert (ax.get_ylabel() == "y") == (column == 0)
    grid = figure.axes[0].get_subplotspec().get_gridspec()
    assert grid.nrows * grid.ncols < 1.5 * rows * columns + 2  # few places are empty
    assert figure.get_figwidth() <= style.MAX_WIDTH


def test_more_panels_than_can_be_read_are_refused():
    with pytest.raises(InputError, match="has 200 panels, 20 x 10; at most 120 can be read; select some"):
        style.create_panels([str(n) for n in range(20)], [str(n) for n in range(10)])


def test_a_curve_has_one_style_in_all_panels():
    """Two networks with different methods: a colour stands for one (method, pattern) throughout."""
    rows = pd.DataFrame({"method": ["b", "a", "b"], "pattern": ["2:4", "2:4", "1:4"]})
    looks = style.curve_styles(rows)
    assert len({look["color"] for look in looks.values()}) == 3
    many = style.curve_styles(pd.DataFrame({"method": ["m"] * 21, "pattern": [f"1:{n}" for n in range(2, 23)]}))
    assert len({(look["color"], look["linestyle"]) for look in many.values()}) == 21


@pytest.mark.parametrize("span", [1.05, 1.3, 2, 6, 40, 900, 1e5, 1e15])
@pytest.mark.parametrize("low", [*np.geomspace(1e-6, 1e-5, 13), 0.97, 1.0, 2.1, 1.2e9])
@pytest.mark.parametrize("unit", [1.0, 1e-6, 2.0**20])
def test_a_logarithmic_axis_has_at_least_two_ticks_of_few_digits(low, span, unit):
    """Multiples of a power of ten are shown only with a power of ten."""
    ticks = np.array(style.LogTickLocator(unit).tick_values(low * unit, low * span * unit)) / unit
    assert 2 <= len(ticks) <= 13
    assert (ticks >= low * (1 - 1e-6)).all()
    assert (ticks <= low * span * (1 + 1e-6)).all()
    mantissas = [f"{tick:.3e}".partition("e")[0] for tick in ticks]
    evenly_spaced = np.ptp(np.diff(ticks)) < 1e-6 * ticks[-1]
    assert "1.000" in mantissas or evenly_spaced


def test_a_logarithmic_axis_of_a_figure_has_two_labelled_ticks():
    figure, axes = style.create_panels(["a"], ["b"])
    (ax,) = axes.flat
    ax.loglog([0.97, 1.02], [3e9, 8e9])
    style.set_axis_unit(ax.xaxis, "x", DisplayUnit("", 1.0))
    style.set_axis_unit(ax.yaxis, "y", DisplayUnit("GB", 1e9))
    figure.draw_without_rendering()
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        texts = [tick.label1.get_text() for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        assert len(list(filter(None, texts))) >= 2


def test_numbered_styles_differ():
    styles = [style.numbered_style(number) for number in range(49)]
    assert len({(each["color"], each["marker"]) for each in styles}) == 49
    assert len({each["marker"] for each in styles[:7]}) == len({each["color"] for each in styles[:7]}) == 7


def test_equal_curves_share_an_entry_of_the_legend():
    names = {"net, 2:4 80%": [1, 2], "net, 1:2 80%": [1.001, 2], "net, 1:4": [1, 3], "short": [1]}
    rows = pd.DataFrame([(name, x, y) for name, curve in names.items() for x, y in enumerate(curve)], columns=["name", "x", "y"])
    merged = style.merge_equal_curves(rows, "name", ["x"], "y")
    assert list(dict.fromkeys(merged.name)) == ["net, 2:4 80% or 1:2 80%", "net, 1:4", "short"]
    assert not merged.duplicated(["name", "x"]).any()
    assert set(rows.name) == set(names)
