"""Speedup against sparsity: what hardware gains from a pattern, without regard to accuracy.

Hypothetical patterns, which have no accuracy, are drawn too. A pattern of free density is a curve, one of fixed density (an N:M) a
labelled star. A light band, or the bar of a star, shows the interval of the speedup where the fidelity has one. The dotted curve is
1 / density, the speedup of a compute-bound layer on a unit that skips every zero.
"""

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.display_units import DisplayUnit
from dse.plot import style, uncertainty
from dse.plot.labels import Label, place_labels
from dse.plot.selection import Table, select_design, speedup_table
from dse.sparsity.grammar import parse
from dse.sweeping import provenance

WIDEST_INTERVAL = 2  # end of an interval, over the largest speedup, up to which it is inside the frame
LOG_SCALE_RATIO = 30  # ratio of the largest to the smallest speedup from which the axis is logarithmic


def draw_figure(dataset: xr.Dataset) -> tuple[Figure, pd.DataFrame]:
    """Panels of accelerator by workload, dtype and batch size."""
    selected, note = select_design(dataset)
    rows: Table = speedup_table(selected)
    accelerators, styles = [str(name) for name in selected.accelerator.values], style.curve_styles(rows[~_has_fixed_density(rows)])
    columns = [(w, d, b) for w in rows.workload.unique() for d in selected.dtype.values for b in selected.batch.values]
    figure, axes = style.create_panels(accelerators, [f"{workload}, {dtype}, batch {batch}" for workload, dtype, batch in columns])
    labels = []
    for name, line in zip(accelerators, axes, strict=True):
        for (workload, dtype, batch), ax in zip(columns, line, strict=True):
            panel = rows[(rows.accelerator == name) & (rows.workload == workload) & (rows.dtype == dtype) & (rows.batch == batch)]
            labels.append((ax, draw_panel(ax, panel, styles)))
    _limit_axes(axes[0, 0], rows)
    style.label_edges(axes, "sparsity", "speedup over dense")
    spec = provenance.read_spec(dataset)
    model = f"fidelity: {spec.model.fidelity}, activations: {spec.model.activations}"
    style.add_legend(figure, axes.flat, model, uncertainty.probability_note(rows), note, style.unverified_note(dataset))
    for ax, stars in labels:
        place_labels(ax, stars, size=6.5)
    return figure, rows


def _limit_axes(ax: Axes, rows: Table) -> None:
    """Limits of the axes, which all panels share."""
    largest = max(rows.speedup.max(), 1.0)
    if rows.speedup.max() > LOG_SCALE_RATIO * rows.speedup.min():
        ax.set_yscale("log")
        ax.set_ylim(rows.speedup.min() / 1.3, 1.5 * largest)
        style.set_axis_unit(ax.yaxis, "", DisplayUnit("", 1.0))
    else:
        highest = rows.speedup_high.max() if "speedup_high" in rows else largest
        ax.set_ylim(0, max(1.15 * largest, min(1.05 * highest, WIDEST_INTERVAL * largest)))
    ax.set_xlim(max(rows.sparsity.min() - 0.1, -0.03), 1.02)


def draw_panel(ax: Axes, rows: Table, styles: style.CurveStyles) -> list[Label]:
    """Draw one panel from rows with method, pattern, sparsity and speedup.

    Returns the labels of the patterns of fixed density, to be placed once the layout is settled. Curves often coincide (blocks that
    no unit lists all run as unstructured), so each is thinner and has smaller, hollow markers than the one before.
    """
    is_fixed = _has_fixed_density(rows)
    curves = list(rows[~is_fixed].groupby(["method", "pattern"], sort=False))
    for number, (pair, curve) in enumerate(curves):
        look = styles[pair] | style.nested_marker(number, len(curves))
        _draw_curve(ax, curve.sort_values("sparsity"), _curve_label(*pair), look)
    stars = rows[is_fixed].sort_values("sparsity")
    if len(stars):
        ax.plot(stars.sparsity, stars.speedup, "k*", markersize=6, label="fixed density (labelled)", zorder=3)
        if "speedup_low" in stars:
            ax.vlines(stars.sparsity, stars.speedup_low, stars.speedup_high, color="black", linewidth=0.8)
        if "faster_probability" in stars:
            uncertainty.fill_by_probability(
                ax, stars.sparsity, stars.speedup, stars.faster_probability, {"marker": "*", "color": "black"}, 6
            )
    sparsity = np.linspace(0, 0.99, 200)
    ax.plot(sparsity, 1 / (1 - sparsity), color=style.GREY, linestyle=":", linewidth=1, label="1 / density", gid=style.REFERENCE)
    ax.axhline(1.0, color=style.GREY, linewidth=0.8, label=style.DENSE_BASELINE, gid=style.REFERENCE)
    coinciding = stars.groupby(["sparsity", "speedup"]).pattern.agg(lambda patterns: ", ".join(dict.fromkeys(patterns))).reset_index()
    return [Label(star.sparsity, star.speedup, star.pattern, "black") for star in coinciding.itertuples()]


def _has_fixed_density(rows: Table) -> pd.Series:
    return rows.pattern.map(lambda text: parse(text).density is not None).astype(bool)


def _draw_curve(ax: Axes, curve: Table, label: str, curve_style: style.CurveStyle) -> None:
    ax.plot(curve.sparsity, curve.speedup, label=label, **curve_style)
    if "speedup_low" in curve:
        ax.fill_between(curve.sparsity, curve.speedup_low, curve.speedup_high, color=curve_style["color"], alpha=0.15, linewidth=0)
    if "faster_probability" in curve:
        uncertainty.fill_by_probability(ax, curve.sparsity, curve.speedup, curve.faster_probability, curve_style, curve_style["markersize"])


def _curve_label(method: str, pattern: str) -> str:
    return pattern if method == "hypothetical" else f"{pattern} ({method.replace('_', ' ')})"
