"""The sparsity roofline: accuracy against speedup at the speed of light (Shinn et al. 2023, arXiv 2310.00496).

One curve for each method and pattern, one point for each sparsity. Up and to the right is better; a point left
of 1 is slower than the dense network, a point below the line loses more accuracy than allowed. A light band says how far on-chip
schedules may move a speedup, or how far measured kernels leave it open, where the model knows.
"""

import json
from typing import Any, cast

import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.errors import InputError
from dse.plot import style
from dse.plot.style import Looks, Rows
from dse.sparsity.grammar import parse
from dse.sweeping import provenance


def figure(dataset: xr.Dataset, **_: Any) -> tuple[Figure, pd.DataFrame]:
    """Panels of accelerator by batch; variants without an accuracy have no place here. Raises InputError if none has one."""
    chosen, remark = style.one_design(dataset)
    rows: Rows = style.speedups(chosen).dropna(subset="accuracy")
    if rows.empty:
        raise InputError("no variant of the dataset has an accuracy", "draw 'speedup' instead, which needs none")
    spec, metrics = provenance.specification(dataset), json.loads(dataset.attrs["metrics"])
    scales = list(dict.fromkeys(zip(rows.workload, rows.metric, strict=True)))
    points, relative = _comparable(rows, scales)
    dtypes = rows.dtype.unique()
    accelerators, looks = [str(name) for name in chosen.accelerator.values], style.looks(rows)
    columns = [(scale, d, b) for scale in scales for d in dtypes for b in chosen.batch.values]
    titles = [_title(workload, d, b, len(scales), len(dtypes)) for (workload, _), d, b in columns]
    drawn, axes = style.panels(accelerators, titles, sharey=len(scales) == 1)
    labels = []
    for name, line in zip(accelerators, axes, strict=True):
        for ((workload, metric), dtype, batch), ax in zip(columns, line, strict=True):
            here = (points.accelerator == name) & (points.workload == workload) & (points.metric == metric)
            here &= (points.dtype == dtype) & (points.batch == batch)
            labels.append((ax, draw(ax, points[here], looks, spec.accuracy_drop, metrics[workload][metric])))
    style.label_edges(axes, f"speedup over dense ({MODELS[spec.model.fidelity]})", "")
    for number, (scale, _, _) in enumerate(columns if len(scales) > 1 else columns[:1]):
        for ax in axes[:, number]:
            ax.set_ylabel(_metric(metrics[scale[0]][scale[1]], scale in relative), fontsize=9)
    style.finish(drawn, axes, dataset, f"points: sparsity; {', '.join(dtypes)}, activations {spec.model.activations}", remark)
    for ax, points in labels:
        style.place_labels(ax, points)
    return drawn, rows


MODELS = {
    "sol": "at the speed of light",
    "r3": "with constant efficiencies",
    "capacity": "with on-chip capacity",
    "calibrated": "by measured kernels",
}


def _comparable(rows: Rows, scales: list[tuple[str, str]]) -> tuple[Rows, set[tuple[str, str]]]:
    """Rows to draw, and the scales on which sources start from different dense networks: there, the change against each is drawn.

    A point whose source names no dense network has no place on such a scale.
    """
    points, relative = rows.copy(), set()
    for workload, metric in scales:
        here = (points.workload == workload) & (points.metric == metric)
        if points[here].dense_accuracy.nunique() > 1:
            relative.add((workload, metric))
            points.loc[here, "accuracy"] -= points[here].dense_accuracy
            points.loc[here, "dense_accuracy"] = 0.0
    return points.dropna(subset="accuracy"), relative


def _metric(metric: dict[str, str], relative: bool) -> str:
    unit = "points" if relative and metric["unit"] == "%" else metric["unit"]
    name = f"change of {metric['name']}" if relative else metric["name"]
    return f"{name} [{unit}]" if unit else name


def _title(workload: str, dtype: str, batch: int, workloads: int, dtypes: int) -> str:
    parts = [workload if workloads > 1 else "", dtype if dtypes > 1 else "", f"batch {batch}"]
    return ", ".join(part for part in parts if part)


def draw(ax: Axes, rows: Rows, looks: Looks, accuracy_drop: float, metric: dict[str, str]) -> list[style.Label]:
    """One panel from rows with method, pattern, nominal_sparsity, accuracy, dense_accuracy and speedup.

    Returns the labels of its points, for `style.place_labels` once the layout is settled.
    """
    labels = []
    for pair, curve in rows.groupby(["method", "pattern"], sort=False):
        look, ordered, (method, pattern) = looks[pair], curve.sort_values("sparsity"), cast(tuple[str, str], pair)
        if parse(pattern).density is not None:
            look = look | {"linestyle": "none"}  # an N:M is a point: nothing lies between two of them
        ax.plot(ordered.speedup, ordered.accuracy, markersize=4, linewidth=1.2, label=style.kind_name(method, pattern), **look)
        if "speedup_low" in ordered:
            band = ordered.accuracy, ordered.speedup_low, ordered.speedup_high
            ax.fill_betweenx(*band, color=look["color"], alpha=0.15, linewidth=0)
            if look["linestyle"] == "none":
                ax.hlines(*band, color=look["color"], linewidth=0.8)
        labels += [style.Label(p.speedup, p.accuracy, _label(p), look["color"]) for p in ordered.itertuples()]
    _baselines(ax, rows, accuracy_drop, metric)
    return labels


def _label(point: Any) -> str:
    return ("~" if "estimated" in point.accuracy_kind else "") + style.percent(point.nominal_sparsity)


def _baselines(ax: Axes, rows: Rows, accuracy_drop: float, metric: dict[str, str]) -> None:
    """The dense network, where the sources agree on one, the least accuracy allowed, and the range worth looking at."""
    ax.axvline(1.0, color=style.GREY, linewidth=0.8, linestyle=":")
    dense = rows.dense_accuracy.dropna().unique()
    if len(dense) != 1:
        return
    worse = -1 if metric["direction"] == "higher" else 1
    ax.plot([1.0], [dense[0]], marker="*", markersize=9, color="black", linestyle="none", label="dense", zorder=3)
    label = f"iso-accuracy: dense {worse * accuracy_drop:+g}"
    ax.axhline(dense[0] + worse * accuracy_drop, color=style.GREY, linewidth=0.8, linestyle="--", label=label)
    _limit(ax, rows.accuracy, dense[0], worse, RANGE * accuracy_drop)


RANGE = 15  # accuracy drops shown: beyond, a network is of no use, and the curves that matter would be squeezed


def _limit(ax: Axes, accuracy: Any, dense: float, worse: int, depth: float) -> None:
    """Put better on top; cut off what is far worse than dense, and say how much that is."""
    loss = worse * (accuracy - dense)
    shown = float(min(loss.max(), depth))
    best = float(min(loss.min(), 0.0))
    margin = 0.08 * (shown - best)
    ax.set_ylim(dense + worse * (shown + margin), dense + worse * (best - margin))
    if hidden := int((loss > shown + margin).sum()):
        ax.text(0.02, 0.02, f"{hidden} more far below", transform=ax.transAxes, fontsize=6, color=style.GREY)
