"""Predicted against measured times and speedups: one marker a launch, with the diagonal and a band of 10% around it.

Panels of a quantity share their axes. Colour shows the device, or of a single device the library; the marker shows what else distinguishes
most kernels. Values far outside the others are drawn as arrowheads at the edge of the frame.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.display_units import DisplayUnit, select_unit
from dse.calibrate.validate.comparison import Comparison
from dse.calibrate.validate.report import SPLIT_TITLES
from dse.plot import style
from dse.plot.selection import Table

BAND = 0.1
MAX_SOL_DISTANCE = 4  # the axes extend to speed-of-light values up to this factor outside the measured range
OUTLIER_DISTANCE = 3  # interquartile ranges of the logarithm from the quartiles, beyond which a value is an outlier (Tukey's outer fence)
MIN_QUARTILE_RANGE = np.log(1.25)  # a narrower one would make outliers of values within a factor of two
MIN_SAVING = 1.5  # ratio of the logarithmic ranges with and without outliers from which these are drawn at the edge
MAX_COLOURS = MAX_MARKERS = 7  # names that differ in colour, or in shape
MAX_NAMES = 12  # pairs of both
ALL = "all kernels"

Name = tuple[str, str]  # what colour and marker show
Limits = tuple[float, float]


def draw_figure(comparisons: Sequence[Comparison]) -> tuple[Figure, pd.DataFrame]:
    """Draw the comparisons of one set in panels of quantity by split; returns the figure and its table."""
    rows = _tabulate(comparisons)
    splits = [split for split in SPLIT_TITLES if split in set(rows.split)]
    quantities = [quantity for quantity in ("time", "speedup") if quantity in set(rows.quantity)]
    row_count, column_count = (1, len(quantities)) if len(splits) == 1 else (len(quantities), len(splits))
    share = "row" if len(splits) > 1 else "none"
    figure = Figure(figsize=(max(3.4 * column_count, 5.0), 3.2 * row_count), layout="constrained")
    axes = figure.subplots(row_count, column_count, squeeze=False, sharex=share, sharey=share)
    named = rows.assign(name=_marker_names(rows))
    styles = _marker_styles(named.name)
    beyond = 0
    for quantity, axes_row in zip(quantities, axes.reshape(len(quantities), len(splits)), strict=True):
        of_quantity = named[named.quantity == quantity]
        limits = _axis_limits(of_quantity)
        unit = select_unit("s", rows[rows.quantity == "time"].measured.to_numpy(float)) if quantity == "time" else DisplayUnit("", 1.0)
        for split, ax in zip(splits, axes_row, strict=True):
            style.set_panel_style(ax)
            beyond += _draw_panel(ax, of_quantity[of_quantity.split == split], limits, styles)
            ax.set_title(f"{quantity}, {SPLIT_TITLES[split]}", fontsize=9)
        for ax in axes_row:  # after the scales of all panels are set, which share the ticks
            style.set_axis_unit(ax.xaxis, f"measured {quantity}", unit)
            style.set_axis_unit(ax.yaxis, f"predicted {quantity}", unit)
        for ax in axes_row[1:]:
            ax.set_ylabel("")
    _add_legend_entries(axes[0, 0], styles)
    points = f"arrowheads: {beyond} {'point' if beyond == 1 else 'points'} beyond the frame" if beyond else ""
    style.add_legend(figure, axes.flat, "coloured: calibrated; grey: speed of light; band: 10%", points)
    return figure, rows


def _tabulate(comparisons: Sequence[Comparison]) -> Table:
    """One row a comparison, with a column for each fidelity."""
    fields = [{name: value for name, value in vars(comparison).items() if name != "predicted"} for comparison in comparisons]
    rows = pd.DataFrame([row | comparison.predicted for row, comparison in zip(fields, comparisons, strict=True)])
    rows["shape"] = ["x".join(map(str, shape)) for shape in rows["shape"]]
    return rows


def _marker_names(rows: Table) -> list[Name]:
    """What colour and marker show of each row.

    Colour: the first of device, library, family, kernel and dtype with several values, but not too many. Marker: that of the others with
    which colour and marker distinguish most kernels without too many names.
    """
    library = rows.kernel.str.split().str[0]
    columns = {"device": rows.device, "library": library, "family": rows.family, "kernel": rows.kernel, "dtype": rows.dtype}
    colour = next((name for name, column in columns.items() if 1 < column.nunique() <= MAX_COLOURS), None)
    if colour is None:
        return [(rows.kernel.iloc[0] if rows.kernel.nunique() == 1 else ALL, "")] * len(rows)
    colours = columns.pop(colour)
    pairs = [list(zip(colours, column, strict=True)) for column in columns.values() if column.nunique() <= MAX_MARKERS]
    few = [[(each, "") for each in colours], *(names for names in pairs if len(set(names)) <= MAX_NAMES)]
    return max(few, key=lambda names: len(set(names)))


def _marker_styles(names: Iterable[Name]) -> dict[Name, style.CurveStyle]:
    """Colour and marker of each name."""
    unique = list(dict.fromkeys(names))
    numbers = [{name: number for number, name in enumerate(dict.fromkeys(part))} for part in zip(*unique, strict=True)]
    return {
        (first, second): {"color": style.numbered_style(numbers[0][first])["color"], "marker": style.MARKERS[numbers[1][second]]}
        for first, second in unique
    }


def _add_legend_entries(ax: Axes, styles: Mapping[Name, style.CurveStyle]) -> None:
    """An entry for each pair of colour and marker, or for each colour and for each marker if these are fewer."""
    colours = {first: look["color"] for (first, _), look in styles.items()}
    markers = {second: look["marker"] for (_, second), look in styles.items()}
    look: style.CurveStyle = {"linestyle": "none", "markersize": 5, "markeredgewidth": 0}
    if len(styles) <= len(colours) + len(markers):
        for (first, second), own in styles.items():
            ax.plot([], [], label=second if second.startswith(first) else f"{first} {second}".rstrip(), **look, **own)
        return
    for name, colour in colours.items():
        ax.fill_between([], [], color=colour, linewidth=0, label=name)
    for name, marker in markers.items():
        ax.plot([], [], color="black", marker=marker, label=name, **look)


def _draw_panel(ax: Axes, rows: Table, limits: Limits, styles: Mapping[Name, style.CurveStyle]) -> int:
    """Draw one panel; returns the number of its values beyond the limits."""
    if rows.empty:
        ax.set_visible(False)
        return 0
    ends = np.array(limits)
    ax.fill_between(ends, (1 - BAND) * ends, (1 + BAND) * ends, color=style.GREY, alpha=0.2, linewidth=0)
    ax.plot(ends, ends, color="black", linewidth=0.8)
    ax.plot(rows.measured, rows.sol, ".", color=style.GREY, markersize=2, alpha=0.35, zorder=1)
    is_beyond = _is_beyond(rows.measured, limits) | _is_beyond(rows.calibrated, limits)
    look: style.CurveStyle = {"linestyle": "none", "alpha": 0.7, "markeredgewidth": 0}
    for name, own in styles.items():
        shown = rows[(rows.name == name) & ~is_beyond]
        ax.plot(shown.measured, shown.calibrated, markersize=3.5, **look, **own)
    _draw_arrowheads(ax, rows[is_beyond], limits, styles)
    ax.set(xscale="log", yscale="log", xlim=limits, ylim=limits)
    return int(is_beyond.sum())


def _is_beyond(values: Table, limits: Limits) -> Bool[np.ndarray, " row"]:
    return ((values < limits[0]) | (values > limits[1])).to_numpy()


def _draw_arrowheads(ax: Axes, rows: Table, limits: Limits, styles: Mapping[Name, style.CurveStyle]) -> None:
    """Draw the values beyond the limits at the edge, with arrowheads that point to them."""
    inside = np.exp(np.interp([0.015, 0.985], [0, 1], np.log(limits)))
    arrowheads: dict[str, Callable[[Any], Any]] = {
        "<": lambda row: row.measured < limits[0],
        ">": lambda row: row.measured > limits[1],
        "v": lambda row: row.calibrated < limits[0],
        "^": lambda row: row.calibrated > limits[1],
    }
    for row in rows.itertuples():
        marker = next(marker for marker, points_to in arrowheads.items() if points_to(row))
        x, y = np.clip([row.measured, row.calibrated], *inside)
        ax.plot(x, y, marker, color=styles[row.name]["color"], markersize=5, markeredgewidth=0, alpha=0.7, zorder=4)


def _axis_limits(rows: Table) -> Limits:
    """Limits of both axes: measured and calibrated values but outliers, and the speed of light as far as it is not too distant."""
    least, greatest = _range_without_outliers(np.concatenate([rows.measured, rows.calibrated]).astype(float))
    low, high = min(least, max(rows.sol.min(), least / MAX_SOL_DISTANCE)), max(greatest, min(rows.sol.max(), greatest * MAX_SOL_DISTANCE))
    margin = (high / low) ** 0.04
    return low / margin, high * margin


def _range_without_outliers(values: np.ndarray) -> Limits:
    """Least and greatest of the values, without outliers where these would take a large part of a logarithmic axis."""
    logarithms = np.log(values)
    low, high = np.quantile(logarithms, (0.25, 0.75))
    distance = OUTLIER_DISTANCE * max(high - low, MIN_QUARTILE_RANGE)
    near = logarithms[(logarithms >= low - distance) & (logarithms <= high + distance)]
    shown = near if np.ptp(logarithms) > MIN_SAVING * np.ptp(near) else logarithms
    return float(np.exp(shown.min())), float(np.exp(shown.max()))
