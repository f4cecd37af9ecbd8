"""A result against a swept axis: how latency, speedup or energy change with a bandwidth, a peak or a capacity.

A panel for each accelerator, network and batch size; a curve for each variant, with a light band for its interval. Other axes are at
their first value, which the figure names.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.display_units import select_unit
from dse.base.errors import InputError, did_you_mean
from dse.plot import style
from dse.plot.selection import LABEL_DIMS, Table, select_design
from dse.schema.stored_results import EXTRA_DIMS
from dse.sweeping import provenance

MAX_CURVES = 14  # variants of a panel
LOG_SCALE_RATIO = 30  # ratio of the largest to the smallest value from which an axis is logarithmic
LABELS = ("accelerator", "workload", "batch", "dtype", "method", "pattern", "sparsity", "nominal_sparsity")


def draw_figure(dataset: xr.Dataset, x: str | None = None, y: str | None = None) -> tuple[Figure, pd.DataFrame]:
    """Draw the figure and return it with its table.

    `x`: a swept axis of numbers, or batch (default: the axis with most values); `y`: a result (default: speedup, else latency).
    Raises InputError if the dataset has none.
    """
    x, y = _choose_axis(dataset, x), _choose_result(dataset, y)
    selected, note = select_design(dataset, x)
    names = [name for name in (y, f"{y}_low", f"{y}_high") if name in selected]
    shape = [dim for dim in dict.fromkeys((*LABEL_DIMS, x)) if dim in selected.dims]
    full = selected[names].broadcast_like(_cells(selected, shape))
    columns = [name for name in dict.fromkeys([*LABELS, x]) if name in full.coords]
    rows: Table = full.to_dataframe().reset_index()[[*columns, "variant", *names]]
    rows = rows[np.isfinite(rows[y])]
    if rows.empty:
        raise InputError(f"'{y}' has no finite value", "choose another result, as in '--y latency'")
    batches = [None] if x == "batch" else rows.batch.unique()
    panels = [(w, d, b) for w in rows.workload.unique() for d in rows.dtype.unique() for b in batches]
    accelerators = [str(name) for name in rows.accelerator.unique()]
    titles = [", ".join(filter(None, [workload, dtype, "" if batch is None else f"batch {batch}"])) for workload, dtype, batch in panels]
    figure, axes = style.create_panels(accelerators, titles, sharey="none")
    styles = style.curve_styles(rows.assign(pattern=[_curve_name(row) for row in rows.itertuples()]))
    left_out = 0
    for name, line in zip(accelerators, axes, strict=True):
        for (workload, dtype, batch), ax in zip(panels, line, strict=True):
            panel = rows[(rows.accelerator == name) & (rows.workload == workload) & (rows.dtype == dtype)]
            left_out += _draw_panel(ax, panel if batch is None else panel[panel.batch == batch], x, y, styles)
    units = {name: select_unit(str(selected[name].attrs.get("units", "1")), rows[name].to_numpy(float)) for name in (x, y)}
    for ax in axes.flat:
        _set_scales(ax, rows, x, y)
        style.set_axis_unit(ax.xaxis, "", units[x])
        style.set_axis_unit(ax.yaxis, "", units[y])
        ax.set(xlabel="", ylabel="")
    style.label_edges(axes, units[x].label(x), units[y].label(y.replace("_", " ")))
    model = f"fidelity: {provenance.read_spec(dataset).model.fidelity}" if "spec" in dataset.attrs else ""
    hidden = f"{left_out} curves are left out: at most {MAX_CURVES} in a panel, evenly spaced" if left_out else ""
    style.add_legend(figure, axes.flat, model, note, hidden, style.unverified_note(dataset))
    return figure, rows


def _cells(dataset: xr.Dataset, dims: list[str]) -> xr.DataArray:
    return xr.DataArray(np.zeros([dataset.sizes[dim] for dim in dims]), {dim: dataset[dim] for dim in dims}, dims)


def _choose_axis(dataset: xr.Dataset, name: str | None) -> str:
    """The axis to draw along; raises InputError."""
    numeric = {str(dim): dataset.sizes[dim] for dim in dataset.dims if dim in dataset.coords and dataset[dim].dtype.kind in "if"}
    axes = {dim: size for dim, size in numeric.items() if "." in dim or dim == "batch"}
    if name is not None and name not in axes:
        raise InputError(f"'{name}' is not an axis of numbers", did_you_mean(name, axes))
    swept = {dim: size for dim, size in axes.items() if "." in dim and size > 1}
    if name is None and not swept:
        raise InputError("no axis has several numbers", "sweep one, or draw against the batch size: '--x batch'")
    return name or max(swept, key=lambda dim: swept[dim])


def _choose_result(dataset: xr.Dataset, name: str | None) -> str:
    """The result to draw; raises InputError."""
    results = [str(key) for key, variable in dataset.data_vars.items() if variable.dtype.kind in "if" and key not in EXTRA_DIMS]
    if name is not None and name not in results:
        raise InputError(f"the dataset has no result '{name}'", did_you_mean(name, results))
    if not results:
        raise InputError("the dataset has no result that is a number", "store one, as in 'store: {variables: [latency]}'")
    return name or next((each for each in ("speedup", "latency") if each in results), results[0])


def _curve_name(row: Any) -> str:
    """Pattern, and sparsity where variants of one pattern differ in it."""
    return row.pattern if row.method == "dense" else f"{row.pattern} {style.percent(row.nominal_sparsity)}"


def _draw_panel(ax: Axes, rows: Table, x: str, y: str, styles: style.CurveStyles) -> int:
    """Draw the curves of one panel; returns how many are left out."""
    curves = [curve.sort_values(x) for _, curve in rows.groupby("variant", sort=False)]
    order = np.argsort([curve[y].median() for curve in curves])
    drawn = order[np.unique(np.linspace(0, len(order) - 1, min(MAX_CURVES, len(order))).round().astype(int))] if curves else []
    for index in drawn:
        curve = curves[index]
        first = next(curve.itertuples())
        name = _curve_name(first)
        look = styles[first.method, name]
        ax.plot(curve[x], curve[y], markersize=3.5, linewidth=1.3, label=style.curve_label(first.method, name), **look)
        if f"{y}_low" in curve:
            ax.fill_between(curve[x], curve[f"{y}_low"], curve[f"{y}_high"], color=look["color"], alpha=0.15, linewidth=0)
    if y == "speedup":
        ax.axhline(1.0, color=style.GREY, linewidth=0.8, label=style.DENSE_BASELINE, gid=style.REFERENCE)
    return len(curves) - len(drawn)


def _set_scales(ax: Axes, rows: Table, x: str, y: str) -> None:
    """Logarithmic scales for wide ranges of positive values; a speedup starts at 0 otherwise."""
    for name, set_scale in ((x, ax.set_xscale), (y, ax.set_yscale)):
        values = rows[name]
        if values.min() > 0 and values.max() > (4 if name == x else LOG_SCALE_RATIO) * values.min():
            set_scale("log")
    if ax.get_yscale() == "linear":
        ax.set_ylim(bottom=0)
