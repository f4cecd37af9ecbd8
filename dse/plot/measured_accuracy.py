"""Accuracies of a study of `dse accuracy train`: one panel for each network, one curve for each family of patterns.

Patterns of fixed density that differ in their group alone are one family: 1:2, 1:4 and 1:8 are 1:M. Dotted lines connect them, because
nothing is measured between two of them. Bars are 90% intervals.
"""

import math
import re

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.plot import style
from dse.plot.selection import Table
from dse.sparsity.grammar import parse

DENSE = "dense"
MARKERS = "osD^v<>Xp*"


def family(pattern: str) -> str:
    """The family of a pattern: itself, unless it is an N:M or V:N:M, whose M varies."""
    return re.sub(r"^(\d+:)?(\d+):\d+(x\d+)?$", lambda match: f"{match[1] or ''}{'N' if match[1] else match[2]}:M{match[3] or ''}", pattern)


def plot_measured_accuracy(rows: pd.DataFrame) -> Figure:
    """Draw accuracy [%] against sparsity from rows with network, pattern, sparsity, value, low and high."""
    from matplotlib import pyplot as plt

    networks = list(dict.fromkeys(rows.network))
    figure, axes = plt.subplots(1, len(networks), figsize=(1.2 + 4 * len(networks), 4.2), squeeze=False, layout="constrained")
    families = [name for name in dict.fromkeys(map(family, rows.pattern)) if name != DENSE]
    for network, ax in zip(networks, axes[0], strict=True):
        _draw_network(ax, rows[rows.network == network], families)
    axes[0][0].set_ylabel("top-1 accuracy [%]")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    return figure


def _draw_network(ax: Axes, rows: Table, families: list[str]) -> None:
    dense = rows[rows.pattern == DENSE].iloc[0]
    ax.axhline(dense.value, color=style.GREY, linewidth=0.8, linestyle=":", label="dense")
    for number, name in enumerate(families):
        curve = rows[rows.pattern.map(family) == name].sort_values("sparsity")
        error = None if curve.low.isna().any() else [curve.value - curve.low, curve.high - curve.value]
        position = [-math.log2(1 - sparsity) + 0.05 * (number - len(families) / 2) for sparsity in curve.sparsity]
        fixed = parse(str(curve.pattern.iloc[0])).density is not None
        lines: style.CurveStyle = {"linestyle": ":" if fixed else "-", "linewidth": 1, "elinewidth": 0.6, "capsize": 1.5}
        look = lines | {"marker": MARKERS[number % len(MARKERS)], "markersize": 4}
        ax.errorbar(position, curve.value, error, color=f"C{number % 10}", label=name, **look)
    densities = sorted({1 - sparsity for sparsity in rows.sparsity if sparsity}, reverse=True)
    ax.set_xticks([-math.log2(density) for density in densities], [style.percent(1 - density) for density in densities], fontsize=8)
    lowest = float(rows.value.min())
    ax.set_ylim(max(0.0, lowest - 8), min(101.0, float(rows.value.max()) + 3))
    ax.set_xlabel("sparsity")
    ax.set_title(str(rows.network.iloc[0]), fontsize=10)
    ax.grid(alpha=0.25)
