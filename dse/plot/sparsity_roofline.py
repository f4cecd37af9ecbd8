"""Sparsity roofline: accuracy against modelled speedup (Shinn et al. 2023, arXiv 2310.00496).

One curve for each pruning method and pattern, one marker for each sparsity; to the right is faster. Left of 1 a variant is
slower than the dense baseline; beyond the dashed line it loses more accuracy than allowed. Vertical bars are 90% intervals of the
accuracy, and hollow markers estimated and assumed accuracies. A light band shows the interval of the speedup where the fidelity has
one: between lower bound and attainable traffic (`capacity`), or of the fitted kernels (`calibrated`).
"""

import json
from typing import Any, cast

import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.plot import style, uncertainty
from dse.plot.labels import Label, place_labels, share_labels
from dse.plot.selection import Table, select_design, speedup_table
from dse.schema.model_options import Fidelity
from dse.sparsity.grammar import parse
from dse.sweeping import provenance
from dse.sweeping.accuracy_losses import ASSUMED_DROP

SPEEDUP_AXIS: dict[Fidelity, str] = {
    "sol": "speedup over dense (speed of light)",
    "r3": "speedup over dense (constant efficiencies)",
    "capacity": "speedup over dense (with on-chip capacity)",
    "calibrated": "speedup over dense (calibrated kernels)",
}
MAX_DROPS = 15  # allowed accuracy drops that the y axis shows: below, a network is useless and the curves that matter would be squeezed
MAX_AXIS_CHARACTERS = 36  # on one line of the y label
CROWDED = 40  # points of a panel, above which near points with the same sparsity share a label

Scale = tuple[str, str]  # workload and metric: accuracies on different scales have separate panels
Metric = dict[str, str]  # name, unit and direction


def draw_figure(dataset: xr.Dataset) -> tuple[Figure, pd.DataFrame]:
    """Panels of accelerator by scale, dtype and batch size; variants without an accuracy or an assumed drop are left out."""
    selected, note = select_design(dataset)
    rows: Table = speedup_table(selected).dropna(subset=[name for name in ("accuracy", ASSUMED_DROP) if name in selected.coords], how="all")
    spec, metrics = provenance.read_spec(dataset), json.loads(dataset.attrs["metrics"])
    scales: list[Scale] = list(dict.fromkeys(zip(rows.workload, rows.metric, strict=True)))
    points, relative = _on_common_baselines(rows, scales, metrics)
    accelerators, dtypes = [str(name) for name in selected.accelerator.values], list(rows.dtype.unique())
    columns = [(scale, dtype, batch) for scale in scales for dtype in dtypes for batch in selected.batch.values]
    titles = [_title(scale if len(scales) > 1 else None, dtype if len(dtypes) > 1 else "", batch) for scale, dtype, batch in columns]
    figure, axes = style.create_panels(accelerators, titles, sharey="all" if len(scales) == 1 else "none")
    styles, labels = style.curve_styles(rows), list[tuple[Axes, list[Label]]]()
    for name, line in zip(accelerators, axes, strict=True):
        for (scale, dtype, batch), ax in zip(columns, line, strict=True):
            panel = points[(points.accelerator == name) & (points.dtype == dtype) & (points.batch == batch) & _is_on(points, scale)]
            labels.append((ax, draw_panel(ax, panel, styles, spec.accuracy_drop, metrics[scale[0]][scale[1]])))
    style.label_edges(axes, SPEEDUP_AXIS[spec.model.fidelity], "")
    for (scale, _, _), column in zip(columns, axes.T, strict=True):
        for ax in column:
            if len(scales) > 1 or ax.get_subplotspec().is_first_col():
                ax.set_ylabel(_accuracy_axis(metrics[scale[0]][scale[1]], scale in relative), fontsize=9)
    model = f"{', '.join(dtypes)}, activations: {spec.model.activations}"
    notes = model, uncertainty.probability_note(rows), uncertainty.accuracy_note(rows), note, style.unverified_note(dataset)
    style.add_legend(figure, axes.flat, "labels: sparsity", *notes)
    for ax, points in labels:
        place_labels(ax, share_labels(points) if len(points) > CROWDED else points, leaders=True)
    return figure, rows


def _is_on(rows: Table, scale: Scale) -> pd.Series:
    return (rows.workload == scale[0]) & (rows.metric == scale[1])


def _on_common_baselines(rows: Table, scales: list[Scale], metrics: dict[str, dict[str, Metric]]) -> tuple[Table, set[Scale]]:
    """The points to draw, and the scales on which no single dense accuracy is known, as where sources disagree about it.

    On such a scale accuracies are replaced by their change against the dense network of the same source. An assumed drop is below the dense
    network of its scale; points without accuracy and drop are left out.
    """
    points, relative = rows.copy(), set[Scale]()
    for scale in scales:
        on_scale = _is_on(points, scale)
        if points[on_scale].dense_accuracy.nunique() > 1 or points[on_scale].accuracy.isna().all():
            relative.add(scale)
            for name in [name for name in ("accuracy", "accuracy_low", "accuracy_high") if name in points]:
                points.loc[on_scale, name] -= points[on_scale].dense_accuracy
            points.loc[on_scale, "dense_accuracy"] = 0.0
        if ASSUMED_DROP in points:
            worse = -1 if metrics[scale[0]][scale[1]]["direction"] == "higher" else 1
            assumed = points[on_scale].dense_accuracy.max() + worse * points[ASSUMED_DROP]
            points.loc[on_scale, "accuracy"] = points.accuracy.fillna(assumed)
    return points.dropna(subset="accuracy"), relative


def _title(scale: Scale | None, dtype: str, batch: int) -> str:
    return ", ".join(filter(None, [scale[0] if scale else "", dtype, f"batch {batch}"]))


def _accuracy_axis(metric: Metric, relative: bool) -> str:
    unit = "points" if relative and metric["unit"] == "%" else metric["unit"]
    name = f"change of {metric['name']} against dense" if relative else metric["name"]
    better = "" if metric["direction"] == "higher" else " (lower is better)"
    return style.wrap_name(f"{name} [{unit}]{better}" if unit else f"{name}{better}", MAX_AXIS_CHARACTERS)


def draw_panel(ax: Axes, rows: Table, styles: style.CurveStyles, accuracy_drop: float, metric: Metric) -> list[Label]:
    """Draw one panel from rows with method, pattern, sparsity, nominal_sparsity, accuracy, dense_accuracy, accuracy_kind and speedup.

    Returns the labels of the points, to be placed once the layout is settled.
    """
    labels = []
    for pair, curve in rows.groupby(["method", "pattern"], sort=False):
        curve_style, ordered, (method, pattern) = styles[pair], curve.sort_values("sparsity"), cast(tuple[str, str], pair)
        if parse(pattern).density is not None:
            curve_style = curve_style | style.NO_LINE  # nothing lies between two variants of an N:M pattern
        look = {"markersize": 4, "linewidth": 1.2} | curve_style | uncertainty.legend_marker(ordered, "speedup", "accuracy")
        ax.plot(ordered.speedup, ordered.accuracy, label=style.curve_label(method, pattern), **look)
        if "speedup_low" in ordered:
            interval = ordered.accuracy, ordered.speedup_low, ordered.speedup_high
            ax.fill_betweenx(*interval, color=curve_style["color"], alpha=0.15, linewidth=0)
            if curve_style["linestyle"] == "none":
                ax.hlines(*interval, color=curve_style["color"], linewidth=0.8)
        if "faster_probability" in ordered:
            uncertainty.fill_by_probability(ax, ordered.speedup, ordered.accuracy, ordered.faster_probability, curve_style, 4)
        uncertainty.mark_uncertain_accuracies(ax, ordered, "speedup", "accuracy", curve_style, 4)
        labels += [Label(point.speedup, point.accuracy, _label(point), curve_style["color"]) for point in ordered.itertuples()]
    _draw_baselines(ax, rows, accuracy_drop, metric)
    return labels


def _label(point: Any) -> str:
    """The sparsity, after a tilde where the accuracy is estimated or assumed."""
    return ("~" if any(kind in point.accuracy_kind for kind in ("estimated", "assumed")) else "") + style.percent(point.nominal_sparsity)


def _draw_baselines(ax: Axes, rows: Table, accuracy_drop: float, metric: Metric) -> None:
    """Draw the dense baseline and the lowest accuracy allowed, where all sources agree on the dense accuracy; limit the y axis."""
    ax.axvline(1.0, color=style.GREY, linewidth=0.8, linestyle=":")
    dense = rows.dense_accuracy.dropna().unique()
    if len(dense) != 1:
        return
    worse = -1 if metric["direction"] == "higher" else 1
    star: style.CurveStyle = {"marker": "*", "markersize": 9, "color": "black", "linestyle": "none", "zorder": 3}
    ax.plot([1.0], [dense[0]], label=style.DENSE_BASELINE, gid=style.REFERENCE, **star)
    line: style.CurveStyle = {"color": style.GREY, "linewidth": 0.8, "linestyle": "--", "gid": style.REFERENCE}
    ax.axhline(dense[0] + worse * accuracy_drop, label=f"iso-accuracy: dense {worse * accuracy_drop:+g}", **line)
    ends = pd.concat([rows[name] for name in ("accuracy", "accuracy_low", "accuracy_high") if name in rows]).dropna()
    _limit_accuracy_axis(ax, rows.accuracy, ends, dense[0], worse, MAX_DROPS * accuracy_drop)


def _limit_accuracy_axis(ax: Axes, accuracy: Table, ends: Table, dense: float, worse: int, max_loss: float) -> None:
    """Cut the y axis at `max_loss` and write how many points are beyond; `ends`: the accuracies and the ends of their intervals."""
    loss, losses = worse * (accuracy - dense), worse * (ends - dense)
    largest = float(max(min(losses.max(), max_loss), 0.0))
    smallest = float(min(losses.min(), 0.0))
    margin = 0.08 * (largest - smallest or 1.0)  # of all points at the dense accuracy, too
    ax.set_ylim(*sorted((dense + worse * (largest + margin), dense + worse * (smallest - margin))))
    if hidden := int((loss > largest + margin).sum()):
        ax.text(
            0.02,
            0.02 if worse < 0 else 0.95,
            f"{hidden} {'point' if hidden == 1 else 'points'} {'below' if worse < 0 else 'above'} the axis",
            transform=ax.transAxes,
            fontsize=6,
            color=style.GREY,
        )
