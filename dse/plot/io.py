"""Plot reads and writes against fast memory capacity: each order and cache policy, relative to the lower bound of I/O theory."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.display_units import format_quantity
from dse.io_theory.bounds import NetworkSummary
from dse.plot import style
from dse.plot.selection import Table

LINES = {
    "two_optimal_fifo": ("two-optimal order, FIFO", style.COLOURS[4], "v"),
    "two_optimal_lru": ("two-optimal order, LRU", style.COLOURS[5], "^"),
    "two_optimal_min": ("two-optimal order, MIN", style.COLOURS[0], "o"),
    "given_fifo": ("given order, FIFO", style.GREY, "v"),
    "given_lru": ("given order, LRU", style.GREY, "^"),
    "given_min": ("given order, MIN", "black", "o"),
    "tiled_min": ("tile order, MIN", style.COLOURS[2], "s"),
    "reordered_min": ("reordered by annealing, MIN", style.COLOURS[1], "D"),
}


def plot_io(rows: Table, name: str, summary: NetworkSummary) -> Figure:
    """One panel from the table and the network summary of `dse io`."""
    figure, axes = style.create_panels(
        [name], [f"{summary['connections']} connections, {summary['neurons']} neurons"], width=6.0, height=3.6
    )
    _draw(axes[0, 0], rows, summary)
    style.label_edges(
        axes, f"fast memory capacity ({summary['dtype']}: {summary['bytes_per_value']:g} B a value)", "reads and writes / lower bound"
    )
    caption = f"one sample; lower bound {summary['lower_bound']} values; dead values freed"
    style.add_legend(figure, axes.flat, caption)
    return figure


def _draw(ax: Axes, rows: Table, summary: NetworkSummary) -> None:
    """Draw the bounds and one line for each order and policy in the table."""
    lower = summary["lower_bound"]
    ax.axhline(summary["upper_bound"] / lower, color="black", linestyle="--", linewidth=1, label="upper bound (two-optimal order)")
    for column, (label, colour, marker) in LINES.items():
        if column in rows:
            is_tiled = column == "tiled_min"  # hollow: the reordered line often starts close below it
            markers = {"marker": marker, "markersize": 7 if is_tiled else 4, "markerfacecolor": "none" if is_tiled else colour}
            ax.plot(rows.memory, rows[column] / lower, color=colour, label=label, linewidth=1.2, **markers)
    ax.axhline(1.0, color="black", linewidth=1, label="lower bound (any order)")
    sufficient = summary["memory_of_lower_bound"]["two_optimal"] * summary["bytes_per_value"]
    ax.axvline(sufficient, color=style.GREY, linestyle=":", linewidth=1.2, label="two-optimal order attains the lower bound")
    _label_capacities(ax, rows)


def _label_capacities(ax: Axes, rows: Table) -> None:
    """Ticks at powers of 2, at most eight of them with a label."""
    ax.set_xscale("log", base=2)
    ticks = 2.0 ** np.arange(np.floor(np.log2(rows.memory.min())), np.ceil(np.log2(rows.memory.max())) + 1)
    labelled = ticks[:: -(-len(ticks) // 8)]
    ax.set_xticks(labelled, [format_quantity(tick, "B") for tick in labelled])
    ax.minorticks_off()
