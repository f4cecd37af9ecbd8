"""Predicted against measured, a point a launch: the diagonal, the band of 10% about it, and how far the speed of light is off."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dse.plot import style
from dse.plot.selection import Table

TITLES = {"shapes": "shapes left out", "devices": "devices left out", "networks": "whole networks"}
BAND = 0.1
FAR = 4  # times the measured range: the speed of light is shown that far off


def figure(points: Sequence[Any]) -> tuple[Figure, pd.DataFrame]:
    """Panels: times and speedups down, left-out shapes and left-out devices across; `points` are of one set of `dse.calibrate.validate`."""
    shown = [p for p in points if p.split in TITLES]
    rows = pd.DataFrame([{**{k: v for k, v in vars(p).items() if k != "predicted"}, **p.predicted} for p in shown])
    rows["shape"] = ["x".join(map(str, shape)) for shape in rows["shape"]]
    splits = [split for split in TITLES if split in set(rows.split)]
    quantities = [quantity for quantity in ("time", "speedup") if quantity in set(rows.quantity)]
    down, across = (1, len(quantities)) if len(splits) == 1 else (len(quantities), len(splits))
    drawn = Figure(figsize=(max(3.4 * across, 5.0), 3.2 * down), layout="constrained")
    axes = drawn.subplots(down, across, squeeze=False)
    names = list(dict.fromkeys(zip(rows.device, rows.kernel, rows.family, rows.dtype, strict=True)))
    looks = {name: (style.COLOURS[n % 7], style.MARKERS[(n + n // 7) % 7]) for n, name in enumerate(names)}
    for quantity, line in zip(quantities, axes.reshape(len(quantities), len(splits)), strict=True):
        for split, ax in zip(splits, line, strict=True):
            style.set_panel_style(ax)
            _draw(ax, rows[(rows.quantity == quantity) & (rows.split == split)], looks)
            ax.set_title(f"{quantity}, {TITLES[split]}", fontsize=9)
            unit = " [s]" if quantity == "time" else ""
            ax.set_ylabel(f"predicted {quantity}{unit}", fontsize=9)
            ax.set_xlabel(f"measured {quantity}{unit}", fontsize=9)
    style.add_legend(drawn, axes.flat, "coloured: calibrated; grey: at the speed of light; band: 10%")
    return drawn, rows


def _draw(ax: Axes, rows: Table, looks: dict[Any, tuple[str, str]]) -> None:
    if rows.empty:
        ax.set_visible(False)
        return
    least, most = rows.measured.min(), rows.measured.max()
    low = 0.7 * min(least, rows.calibrated.min(), max(rows.sol.min(), least / FAR))
    high = 1.4 * max(most, rows.calibrated.max(), min(rows.sol.max(), most * FAR))
    ends = np.array([low, high])
    ax.fill_between(ends, (1 - BAND) * ends, (1 + BAND) * ends, color=style.GREY, alpha=0.2, linewidth=0)
    ax.plot(ends, ends, color="black", linewidth=0.8)
    ax.plot(rows.measured, rows.sol, ".", color=style.GREY, markersize=2, alpha=0.35, zorder=1)
    for name, (colour, marker) in looks.items():
        part = rows[[found == name for found in zip(rows.device, rows.kernel, rows.family, rows.dtype, strict=True)]]
        if len(part):
            label = " ".join(dict.fromkeys(name)).replace("pytorch/pytorch ", "")
            ax.plot(part.measured, part.calibrated, marker, color=colour, markersize=3, alpha=0.7, markeredgewidth=0, label=label)
    for scaled, axis in ((ax.set_xscale, ax.xaxis), (ax.set_yscale, ax.yaxis)):
        scaled("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
