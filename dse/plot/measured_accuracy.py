"""Accuracies of a study of `dse accuracy train`: a column of panels for each network, one curve for each family of patterns.

Patterns of fixed density that differ in their group alone are one family: 1:2, 1:4 and 1:8 are 1:M. Dotted lines connect them, because
nothing is measured between two of them. The families are split over rows of panels, with the first one in grey in each of the others.
Bars are 90% intervals as far as they are between 0 and 100%.
"""

import math
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.plot import style
from dse.plot.selection import Table
from dse.sparsity.grammar import parse

DENSE = "dense"
MAX_CURVES = 6  # in a panel
HIGHEST = 100.0  # %


def family(pattern: str) -> str:
    """The family of a pattern: itself, unless it is an N:M or V:N:M, whose M varies."""
    return re.sub(r"^(\d+:)?(\d+):\d+(x\d+)?$", lambda match: f"{match[1] or ''}{'N' if match[1] else match[2]}:M{match[3] or ''}", pattern)


def plot_measured_accuracy(rows: pd.DataFrame) -> Figure:
    """Draw accuracy [%] against sparsity from rows with network, pattern, sparsity, value, low and high."""
    networks, groups = list(dict.fromkeys(rows.network)), _family_groups(rows)
    figure, axes = style.create_panels([""] * len(groups), networks, width=4.0, height=3.2, sharex="col", sharey="none")
    numbers = {name: number for number, name in enumerate(name for group in groups for name in group)}
    for column, network in enumerate(networks):
        of_network = rows[rows.network == network]
        for group, ax in zip(groups, axes[:, column], strict=True):
            _draw_panel(ax, of_network, group, numbers)
            ax.sharey(axes[0, column])
        _limit_axes(axes[0, column], of_network)
    style.label_edges(axes, "sparsity", "top-1 accuracy [%]")
    dotted = "dotted: patterns of fixed density" if any(_is_fixed(rows, name) for name in numbers) else ""
    repeated = f"grey: {groups[0][0]} again" if len(groups) > 1 else ""
    style.add_legend(figure, axes.flat, "bars: 90% intervals", dotted, repeated)
    return figure


def _family_groups(rows: Table) -> list[list[str]]:
    """The families in each row of panels: those of any density, then those of fixed density, few in each."""
    families = [name for name in dict.fromkeys(map(family, rows.pattern)) if name != DENSE]
    kinds = [[name for name in families if _is_fixed(rows, name) is fixed] for fixed in (False, True)]
    return [kind[start : start + MAX_CURVES] for kind in kinds for start in range(0, len(kind), MAX_CURVES)]


def _is_fixed(rows: Table, name: str) -> bool:
    return parse(str(rows.pattern[rows.pattern.map(family) == name].iloc[0])).density is not None


def _draw_panel(ax: Axes, rows: Table, group: Sequence[str], numbers: dict[str, int]) -> None:
    dense = rows[rows.pattern == DENSE].iloc[0]
    ax.axhline(dense.value, color=style.GREY, linewidth=0.8, label="dense", gid=style.REFERENCE)
    first = next(iter(numbers))
    if first not in group:
        _draw_curve(ax, rows, first, 0.0, {"color": "#bbbbbb", "zorder": 1})
    for place, name in enumerate(group):
        look = style.numbered_style(numbers[name]) | {"linestyle": ":" if _is_fixed(rows, name) else "-", "markersize": 4, "label": name}
        _draw_curve(ax, rows, name, 0.07 * (place - (len(group) - 1) / 2), look)
    densities = sorted({1 - sparsity for sparsity in rows.sparsity if sparsity}, reverse=True)
    ax.set_xticks([-math.log2(density) for density in densities], [style.percent(1 - density) for density in densities])


def _draw_curve(ax: Axes, rows: Table, name: str, shift: float, look: style.CurveStyle) -> None:
    """Draw a family, shifted so that bars at the same sparsity are next to each other."""
    curve = rows[rows.pattern.map(family) == name].sort_values("sparsity")
    x = [-math.log2(1 - sparsity) + shift for sparsity in curve.sparsity]
    ax.plot(x, curve.value, linewidth=1.1, **look)
    if "marker" in look and not curve.low.isna().any():
        lengths = [curve.value - curve.low.clip(lower=0.0), curve.high.clip(upper=HIGHEST) - curve.value]
        ax.errorbar(x, curve.value, lengths, fmt="none", ecolor=look["color"], elinewidth=0.7, capsize=1.5)


def _limit_axes(ax: Axes, rows: Table) -> None:
    """Limits that show all accuracies and the whole of their bars."""
    ends = np.clip(rows[["value", "low", "high"]].to_numpy(float), 0.0, HIGHEST)
    low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
    margin = 0.03 * (high - low or 1.0)
    ax.set_ylim(low - margin, high + margin)
