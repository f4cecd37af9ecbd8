"""A result against a number that the networks run on, such as the length of the context: where one technique overtakes another.

A panel for each accelerator, network, phase and batch size; a curve for each combination of pattern, dtype and other inputs. By default a
curve shows how many times as fast it is as the first one: the first pattern in the first dtype at the first of the other inputs. Of many
combinations, those are drawn that change one thing, and the fastest of all. Axes of the hardware are at their first value, which the figure
names.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.display_units import format_number, select_unit
from dse.base.dtype import shorten_label
from dse.base.errors import InputError, did_you_mean
from dse.plot import style
from dse.plot.selection import LABEL_DIMS, Table, select_design
from dse.schema.figures import varied_numbers
from dse.sweeping import provenance

GAIN = "gain"  # the latency of the first curve / latency
FASTEST = "fastest combination"
PANEL = ("network", "phase", "batch")  # what differs between the panels of an accelerator
MAX_CURVES = 7  # combinations that are all drawn

Inputs = Mapping[str, Mapping[str, Any]]  # what each network is run on


def draw_figure(dataset: xr.Dataset, x: str | None = None, y: str | None = None) -> tuple[Figure, pd.DataFrame]:
    """Draw the figure and return it with its table.

    `x`: an input with several numbers (default: the one with most); `y`: a result (default: `gain`). Raises InputError if there is none.
    """
    inputs: Inputs = {name: each for name, each in json.loads(dataset.attrs.get("run_on", "{}")).items() if isinstance(each, dict)}
    x, shown = _choose_input(inputs, x), y or GAIN
    selected, note = select_design(dataset)
    result = "latency" if shown == GAIN else shown
    if result not in selected:
        raise InputError(f"the dataset has no result '{result}'", did_you_mean(result, map(str, selected.data_vars)))
    rows = _rows(selected, result, inputs, x)
    first = rows.curve.iloc[0]
    if shown == GAIN:
        rows = _with_gain(rows, x, first)
    drawn, left_out = _select_curves(rows, x, shown)
    figure = _draw_panels(drawn, x, shown, str(selected[result].attrs.get("units", "1")))
    meaning = f"gain: latency of '{first}' / latency" if shown == GAIN else ""
    hidden = f"{left_out} combinations are not drawn on their own" if left_out else ""
    model = f"fidelity: {provenance.read_spec(dataset).model.fidelity}" if "spec" in dataset.attrs else ""
    style.add_legend(figure, figure.axes, meaning, hidden, model, note, style.unverified_note(dataset))
    return figure, rows.drop(columns="settings")


def _choose_input(inputs: Inputs, name: str | None) -> str:
    """The input to draw along; raises InputError."""
    numbers = varied_numbers(inputs.values())
    if name is not None and name not in numbers:
        raise InputError(f"'{name}' is not an input with several numbers", did_you_mean(name, numbers))
    if not numbers:
        raise InputError("no input of the networks has several numbers", "sweep one, as in 'inputs: {sequence: [4096, 32768]}'")
    return name or max(numbers, key=lambda each: len(numbers[each]))


def _rows(dataset: xr.Dataset, result: str, inputs: Inputs, x: str) -> Table:
    """One row for each point: panel, curve, the input and the result; without what is not finite or does not fit the memory."""
    names = [name for name in (result, "fits") if name in dataset]
    cells = xr.DataArray(np.zeros([dataset.sizes[dim] for dim in LABEL_DIMS]), {dim: dataset[dim] for dim in LABEL_DIMS}, LABEL_DIMS)
    rows: Table = dataset[names].broadcast_like(cells).drop_vars(["resource", "execution"], errors="ignore").to_dataframe().reset_index()
    rows = rows[np.isfinite(rows[result]) & np.array([x in inputs.get(name, {}) for name in rows.workload])]
    if "fits" in rows:
        rows = rows[rows.fits.astype(bool)]
    if rows.empty:
        raise InputError(f"'{result}' has no finite value of a network that fits the memory", "sweep smaller inputs or more memory")
    others = [key for key in dict.fromkeys(key for each in inputs.values() for key in each) if key not in (x, "phase")]
    varied = [key for key in others if len({str(inputs[name].get(key)) for name in rows.workload.unique()}) > 1]
    columns: dict[str, list[Any]] = {
        "network": [name.partition(" (")[0] for name in rows.workload],
        "phase": [str(inputs[name].get("phase", "")) for name in rows.workload],
        x: [inputs[name][x] for name in rows.workload],
        "settings": [_settings(row, inputs[row.workload], varied, rows.dtype.nunique() > 1) for row in rows.itertuples()],
    }
    rows = rows.assign(**columns, curve=[", ".join(filter(None, settings)) for settings in columns["settings"]])
    return rows[["accelerator", *PANEL, x, "curve", "dtype", "pattern", result, "settings"]]


def _settings(row: Any, inputs: Mapping[str, Any], varied: list[str], with_dtype: bool) -> tuple[str, ...]:
    """('2:4', 'fp8', 'topk:2048'): what distinguishes a curve from others."""
    return row.pattern, shorten_label(row.dtype) if with_dtype else "", *(str(inputs.get(key, "")) for key in varied)


def _with_gain(rows: Table, x: str, first: str) -> Table:
    """The rows with the gain over the curve `first` at the same point; those without such a point are left out."""
    keys = ["accelerator", *PANEL, x]
    reference = rows[rows.curve == first].groupby(keys).latency.min().rename("reference")
    joined = rows.join(reference, on=keys)
    return joined.assign(gain=joined.reference / joined.latency).dropna(subset=[GAIN]).drop(columns="reference")


def _select_curves(rows: Table, x: str, y: str) -> tuple[Table, int]:
    """All curves, or of many those that change one setting of the first, and the fastest of all as one more; how many are left out."""
    curves, first = dict(zip(rows.curve, rows.settings, strict=True)), rows.settings.iloc[0]
    single = [name for name, settings in curves.items() if sum(a != b for a, b in zip(settings, first, strict=True)) <= 1]
    if len(curves) <= MAX_CURVES or y != GAIN:
        return rows, 0
    fastest = rows.groupby(["accelerator", *PANEL, x], as_index=False, sort=False)[y].max().assign(curve=FASTEST)
    return pd.concat([rows[rows.curve.isin(single)], fastest]), len(curves) - len(single)


def _draw_panels(rows: Table, x: str, y: str, unit_of_result: str) -> Figure:
    panels = list(rows[list(PANEL)].drop_duplicates().itertuples(index=False, name=None))
    with_batch = rows.batch.nunique() > 1
    titles = [", ".join(filter(None, [network, phase, f"batch {batch}" if with_batch else ""])) for network, phase, batch in panels]
    accelerators = list(rows.accelerator.unique())
    figure, axes = style.create_panels(accelerators, titles, sharey=False)
    styles = style.curve_styles(rows.assign(method=rows.curve, pattern=rows.curve))
    unit = select_unit("1" if y == GAIN else unit_of_result, rows[y].to_numpy(float))
    for accelerator, line in zip(accelerators, axes, strict=True):
        for panel, ax in zip(panels, line, strict=True):
            of_panel = (rows[list(PANEL)] == list(panel)).all(axis=1) & (rows.accelerator == accelerator)
            _draw_panel(ax, rows[of_panel], x, y, styles)
            style.set_axis_unit(ax.yaxis, "", unit)
            ax.set(xlabel="", ylabel="")
    style.label_edges(axes, f"{x} [tokens]" if x == "sequence" else x, unit.label(y.replace("_", " ")))
    return figure


def _draw_panel(ax: Axes, rows: Table, x: str, y: str, styles: style.CurveStyles) -> None:
    for name, curve in rows.groupby("curve", sort=False):
        ordered = curve.sort_values(x)
        look: style.CurveStyle = {"color": style.GREY, "linestyle": ":"} if name == FASTEST else styles[name, name]
        ax.plot(ordered[x], ordered[y], markersize=3.5, linewidth=1.3, label=str(name), **look)
    if len(rows) and rows[y].min() > 0 and rows[y].max() > 30 * rows[y].min():
        ax.set_yscale("log")
    elif y != GAIN:
        ax.set_ylim(bottom=0)
    ax.set_xscale("log")
    ticks = sorted(rows[x].unique())
    ax.set_xticks(ticks, [_tick_text(value) for value in ticks])
    ax.minorticks_off()


def _tick_text(value: float) -> str:
    """'4k' of 4096 and '1M' of 1048576."""
    for size, letter in ((2**20, "M"), (2**10, "k")):
        if value >= size and value % size == 0:
            return f"{value // size:.0f}{letter}"
    return format_number(value)
