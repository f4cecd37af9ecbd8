"""Values moved against on-chip memory: each order and policy between the bounds of I/O theory, as multiples of the lower one."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.plot import style
from dse.plot.style import Rows

LINES = {
    "two_optimal_fifo": ("two-optimal, FIFO", style.COLOURS[4], "v"),
    "two_optimal_lru": ("two-optimal, LRU", style.COLOURS[5], "^"),
    "two_optimal_min": ("two-optimal, MIN", style.COLOURS[0], "o"),
    "given_fifo": ("given, FIFO", style.GREY, "v"),
    "given_lru": ("given, LRU", style.GREY, "^"),
    "given_min": ("given, MIN", "black", "o"),
    "tiled_min": ("tiled, MIN", style.COLOURS[2], "s"),
    "reordered_min": ("reordered, MIN", style.COLOURS[1], "D"),
}


def figure(rows: Rows, name: str, about: dict[str, Any]) -> Figure:
    """One panel from the table of `dse io` and what it says of the network."""
    drawn, axes = style.panels([name], [f"{about['connections']} connections, {about['neurons']} neurons"], width=6.0, height=3.6)
    draw(axes[0, 0], rows, about)
    style.label_edges(axes, f"fast memory [byte], values of {about['dtype']}", "values moved / lower bound")
    remark = f"one sample; lower bound {about['lower_bound']} values, dead values freed"
    style.finish(drawn, axes, xr.Dataset(), remark)
    return drawn


def draw(ax: Axes, rows: Rows, about: dict[str, Any]) -> None:
    least = about["lower_bound"]
    ax.axhline(about["upper_bound"] / least, color="black", linestyle="--", linewidth=1, label="upper bound (two-optimal)")
    for column, (label, colour, marker) in LINES.items():
        if column in rows:
            size = 7 if column == "tiled_min" else 4  # what reordering starts from is often close below
            face = "none" if column == "tiled_min" else colour
            look = {"marker": marker, "markersize": size, "markerfacecolor": face, "linewidth": 1.2}
            ax.plot(rows.memory, rows[column] / least, color=colour, label=label, **look)
    ax.axhline(1.0, color="black", linewidth=1, label="lower bound (any order)")
    reached = about["memory_of_lower_bound"]["two_optimal"] * about["bytes_per_value"]
    ax.axvline(reached, color=style.GREY, linestyle=":", linewidth=1.2, label="lower bound reached (two-optimal)")
    ax.set_xscale("log", base=2)
    ticks = 2.0 ** np.arange(np.floor(np.log2(rows.memory.min())), np.ceil(np.log2(rows.memory.max())) + 1)
    ax.set_xticks(ticks[:: -(-len(ticks) // 8)], [_size(tick) for tick in ticks[:: -(-len(ticks) // 8)]])
    ax.minorticks_off()


def _size(size: float) -> str:
    return f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size / 2**10:g} KiB" if size >= 2**10 else f"{size:g}"
