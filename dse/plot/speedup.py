"""Speedup against sparsity: what hardware makes of a pattern, whatever the accuracy.

The place for hypothetical patterns, which have no accuracy. A pattern of free density is a curve, a fixed N:M
is a point. A light band, or the bar of a point, says how far on-chip schedules may move a speedup, or how far measured
kernels leave it open, where the model knows. The dotted line is 1 / density, which a compute-bound layer reaches on a unit
that skips every zero.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.plot import style
from dse.plot.style import Looks, Rows
from dse.sparsity.grammar import parse
from dse.sweeping import provenance

WIDE = 30  # between the least and the largest speedup: more is drawn on a logarithmic scale


def figure(dataset: xr.Dataset, **_: Any) -> tuple[Figure, pd.DataFrame]:
    """Panels of accelerator by workload, dtype and batch."""
    chosen, remark = style.one_design(dataset)
    rows: Rows = style.speedups(chosen)
    accelerators, looks = [str(name) for name in chosen.accelerator.values], style.looks(rows)
    columns = [(w, d, b) for w in rows.workload.unique() for d in chosen.dtype.values for b in chosen.batch.values]
    drawn, axes = style.panels(accelerators, [f"{w} {d}, batch {b}" for w, d, b in columns])
    labels = []
    for name, line in zip(accelerators, axes, strict=True):
        for (workload, dtype, batch), ax in zip(columns, line, strict=True):
            here = (rows.accelerator == name) & (rows.workload == workload) & (rows.dtype == dtype) & (rows.batch == batch)
            labels.append((ax, draw(ax, rows[here], looks)))
    most = 1.15 * max(rows.speedup.max(), 1.0)
    if rows.speedup.max() > WIDE * rows.speedup.min():
        axes[0, 0].set_yscale("log")
        axes[0, 0].set_ylim(rows.speedup.min() / 1.3, 1.3 * most)
    else:
        axes[0, 0].set_ylim(0, most)
    axes[0, 0].set_xlim(max(rows.sparsity.min() - 0.1, 0), 1.02)
    style.label_edges(axes, "sparsity", "speedup over dense")
    spec = provenance.specification(dataset)
    style.finish(drawn, axes, dataset, f"fidelity {spec.model.fidelity}, activations {spec.model.activations}", remark)
    for ax, points in labels:
        style.place_labels(ax, points, size=6.5)
    return drawn, rows


def draw(ax: Axes, rows: Rows, looks: Looks) -> list[style.Label]:
    """One panel from rows with method, pattern, sparsity and speedup; returns the labels of the fixed patterns.

    Curves often coincide (blocks that no unit lists all run as unstructured), so each is drawn thinner and with
    smaller, hollow markers than the one before.
    """
    fixed = rows.pattern.map(lambda text: parse(text).density is not None)
    curves = list(rows[~fixed].groupby(["method", "pattern"], sort=False))
    for number, (pair, curve) in enumerate(curves):
        ordered, size = curve.sort_values("sparsity"), min(2.5 + 1.1 * (len(curves) - number), 9)
        ax.plot(
            ordered.sparsity,
            ordered.speedup,
            markersize=size,
            markerfacecolor="none",
            linewidth=size / 5,
            label=_name(*pair),
            **looks[pair],
        )
        if "speedup_low" in ordered:
            ax.fill_between(
                ordered.sparsity, ordered.speedup_low, ordered.speedup_high, color=looks[pair]["color"], alpha=0.15, linewidth=0
            )
    points = rows[fixed].sort_values("sparsity")
    if len(points):
        ax.plot(points.sparsity, points.speedup, "k*", markersize=6, label="fixed density, each a point", zorder=3)
        if "speedup_low" in points:
            ax.vlines(points.sparsity, points.speedup_low, points.speedup_high, color="black", linewidth=0.8)
    shares = np.linspace(0, 0.99, 200)
    ax.plot(shares, 1 / (1 - shares), color=style.GREY, linestyle=":", linewidth=1, label="1 / density")
    ax.axhline(1.0, color=style.GREY, linewidth=0.8)
    grouped = points.groupby(["sparsity", "speedup"]).pattern.agg(", ".join).reset_index()
    return [style.Label(p.sparsity, p.speedup, p.pattern, "black") for p in grouped.itertuples()]


def _name(method: str, pattern: str) -> str:
    return pattern if method == "hypothetical" else f"{pattern} ({method.replace('_', ' ')})"
