"""Predicted against measured times and speedups: one marker a launch, with the diagonal and a band of 10% around it."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.display_units import DisplayUnit, select_unit
from dse.calibrate.validate.comparison import Comparison
from dse.calibrate.validate.report import SPLIT_TITLES
from dse.plot import style
from dse.plot.selection import Table

BAND = 0.1
MAX_SOL_DISTANCE = 4  # the axes extend to speed-of-light values up to this factor outside the measured range
NAMES = (("device", "kernel", "family", "dtype"), ("device", "kernel", "dtype"), ("device", "kernel"), ("device",))  # of markers, by column
MAX_NAMES = 21  # markers that differ in colour or shape
MarkerName = tuple[str, ...]
MarkerStyle = tuple[str, str]  # colour, marker


def draw_figure(comparisons: Sequence[Comparison]) -> tuple[Figure, pd.DataFrame]:
    """Draw the comparisons of one set in panels of quantity by split; returns the figure and its table."""
    rows = _tabulate(comparisons)
    splits = [split for split in SPLIT_TITLES if split in set(rows.split)]
    quantities = [quantity for quantity in ("time", "speedup") if quantity in set(rows.quantity)]
    row_count, column_count = (1, len(quantities)) if len(splits) == 1 else (len(quantities), len(splits))
    figure = Figure(figsize=(max(3.4 * column_count, 5.0), 3.2 * row_count), layout="constrained")
    axes = figure.subplots(row_count, column_count, squeeze=False)
    named = _with_marker_names(rows)
    marker_styles = _assign_marker_styles(named)
    for quantity, axes_row in zip(quantities, axes.reshape(len(quantities), len(splits)), strict=True):
        for split, ax in zip(splits, axes_row, strict=True):
            style.set_panel_style(ax)
            _draw_panel(ax, named[(named.quantity == quantity) & (named.split == split)], marker_styles)
            ax.set_title(f"{quantity}, {SPLIT_TITLES[split]}", fontsize=9)
            unit = select_unit("s", rows[rows.quantity == "time"].measured.to_numpy(float)) if quantity == "time" else DisplayUnit("", 1.0)
            style.set_axis_unit(ax.xaxis, f"measured {quantity}", unit)
            style.set_axis_unit(ax.yaxis, f"predicted {quantity}", unit)
    style.add_legend(figure, axes.flat, "coloured: calibrated; grey: speed of light; band: 10%")
    return figure, rows


def _tabulate(comparisons: Sequence[Comparison]) -> Table:
    """One row a comparison, with a column for each fidelity."""
    fields = [{name: value for name, value in vars(comparison).items() if name != "predicted"} for comparison in comparisons]
    rows = pd.DataFrame([row | comparison.predicted for row, comparison in zip(fields, comparisons, strict=True)])
    rows["shape"] = ["x".join(map(str, shape)) for shape in rows["shape"]]
    return rows


def _with_marker_names(rows: Table) -> Table:
    """The rows with a column `marker`: as detailed a name of the kernel as leaves few enough markers."""
    named = [list(zip(*(rows[column] for column in columns), strict=True)) for columns in NAMES]
    return rows.assign(marker=next((names for names in named if len(set(names)) <= MAX_NAMES), named[-1]))


def _assign_marker_styles(rows: Table) -> dict[MarkerName, MarkerStyle]:
    return {name: (style.COLOURS[n % 7], style.MARKERS[(n + n // 7) % 7]) for n, name in enumerate(rows.marker.unique())}


def _draw_panel(ax: Axes, rows: Table, marker_styles: dict[MarkerName, MarkerStyle]) -> None:
    if rows.empty:
        ax.set_visible(False)
        return
    low, high = _axis_limits(rows)
    ends = np.array([low, high])
    ax.fill_between(ends, (1 - BAND) * ends, (1 + BAND) * ends, color=style.GREY, alpha=0.2, linewidth=0)
    ax.plot(ends, ends, color="black", linewidth=0.8)
    ax.plot(rows.measured, rows.sol, ".", color=style.GREY, markersize=2, alpha=0.35, zorder=1)
    for name, (colour, marker) in marker_styles.items():
        of_kernel = rows[[other == name for other in rows.marker]]
        if len(of_kernel):
            label = " ".join(dict.fromkeys(name)).replace("pytorch/pytorch ", "")
            look = {"color": colour, "markersize": 3, "alpha": 0.7, "markeredgewidth": 0}
            ax.plot(of_kernel.measured, of_kernel.calibrated, marker, label=label, **look)
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))


def _axis_limits(rows: Table) -> tuple[float, float]:
    """Limits of both axes: measured and calibrated values, and the speed of light as far as it is not too distant."""
    least, greatest = rows.measured.min(), rows.measured.max()
    low = min(least, rows.calibrated.min(), max(rows.sol.min(), least / MAX_SOL_DISTANCE))
    high = max(greatest, rows.calibrated.max(), min(rows.sol.max(), greatest * MAX_SOL_DISTANCE))
    return 0.7 * low, 1.4 * high
