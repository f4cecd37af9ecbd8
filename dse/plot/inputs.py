"""A result against a number that the networks run on, such as the length of the context: where one technique overtakes another.

A panel for each accelerator, network that is run on several numbers, phase and batch size; a curve for each combination of pattern, dtype
and other inputs, named by what it changes of the baseline: the first pattern in the first dtype at the first of the other inputs. By
default a curve shows how many times as fast as the baseline it is. Of many combinations, those are drawn that change one thing, and the
fastest of all. Axes of the hardware are at their first value, which the figure names.
"""

import json
from collections.abc import Mapping, Sequence
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
from dse.sparsity.attention.grammar import parse_attention
from dse.sweeping import provenance
from dse.workload.accuracy_samples import network_name

GAIN = "gain"  # the latency of the baseline / latency
FASTEST = "fastest combination"
ROW, COLUMN = ("accelerator", "phase"), ("network", "batch")  # of panels
MAX_CURVES = 7  # combinations that are all drawn
MAX_BASELINE = 20  # characters of a baseline in the label of an axis
WIDE = 10  # ratio of the largest to the smallest value from which y is logarithmic

Inputs = Mapping[str, Mapping[str, object]]  # what each network is run on


def draw_figure(dataset: xr.Dataset, x: str | None = None, y: str | None = None) -> tuple[Figure, pd.DataFrame]:
    """Draw the figure and return it with its table.

    `x`: an input with several numbers (default: the one with most); `y`: a result (default: `gain`). Raises InputError if there is none.
    """
    inputs = read_inputs(dataset)
    (x, networks), shown = _choose_input(inputs, x), y or GAIN
    inputs = {name: each for name, each in inputs.items() if network_name(name) in networks}
    selected, note = select_design(dataset)
    result = "latency" if shown == GAIN else shown
    if result not in selected:
        raise InputError(f"the dataset has no result '{result}'", did_you_mean(result, map(str, selected.data_vars)))
    rows = _rows(selected, result, inputs, x)
    label, meaning = result.replace("_", " "), ""
    if shown == GAIN:
        rows, (label, meaning) = _with_gain(rows, x), _gain_label(list(rows.curve[rows.changes == 0].unique()))
    rows = rows[rows.fits].drop(columns="fits")
    if rows.empty:
        raise InputError(f"'{result}' has no finite value of a network that fits the memory", "sweep smaller inputs or more memory")
    drawn, left_out = _select_curves(rows, x, shown)
    drawn = style.merge_equal_curves(drawn, "curve", [*ROW, *COLUMN, x], shown)
    figure = _draw_panels(drawn, x, shown, label, str(selected[result].attrs.get("units", "1")))
    hidden = f"{left_out} combinations are not drawn on their own" if left_out else ""
    model = f"fidelity: {provenance.read_spec(dataset).model.fidelity}" if "spec" in dataset.attrs else ""
    style.add_legend(figure, figure.axes, meaning, hidden, model, note, style.unverified_note(dataset))
    return figure, rows.drop(columns="changes")


def _gain_label(baselines: Sequence[str]) -> tuple[str, str]:
    """What a gain is relative to, such as 'speedup over causal attention', and a note where that is long."""
    if len(baselines) > 1 or len(baselines[0]) > MAX_BASELINE:
        return "speedup over the baseline", f"baseline: {' or '.join(baselines)}"
    try:
        parse_attention(baselines[0])
    except InputError:
        return f"speedup over {baselines[0]}", ""
    return f"speedup over {baselines[0]} attention", ""


def read_inputs(dataset: xr.Dataset) -> Inputs:
    """What each workload of a dataset is run on, those without inputs aside."""
    run_on, workloads = json.loads(dataset.attrs.get("run_on", "{}")), set(dataset.workload.values)
    return {name: each for name, each in run_on.items() if isinstance(each, dict) and name in workloads}


def _choose_input(inputs: Inputs, name: str | None) -> tuple[str, set[str]]:
    """The input to draw along, and the networks that are run on several numbers of it; raises InputError."""
    numbers = varied_numbers((network_name(workload), each) for workload, each in inputs.items())
    if name is not None and name not in numbers:
        raise InputError(f"'{name}' is not an input with several numbers", did_you_mean(name, numbers))
    if not numbers:
        raise InputError("no input of the networks has several numbers", "sweep one, as in 'inputs: {sequence: [4096, 32768]}'")
    name = name or max(numbers, key=lambda each: len(set().union(*numbers[each].values())))
    return name, set(numbers[name])


def _rows(dataset: xr.Dataset, result: str, inputs: Inputs, x: str) -> Table:
    """One row for each finite point: panel, curve, the input, the result, and whether the network fits the memory."""
    names = [name for name in (result, "fits") if name in dataset]
    cells = xr.DataArray(np.zeros([dataset.sizes[dim] for dim in LABEL_DIMS]), {dim: dataset[dim] for dim in LABEL_DIMS}, LABEL_DIMS)
    rows: Table = dataset[names].broadcast_like(cells).drop_vars(["resource", "execution"], errors="ignore").to_dataframe().reset_index()
    rows = rows[np.isfinite(rows[result]) & np.array([x in inputs.get(name, {}) for name in rows.workload])]
    settings = {row.Index: _settings(row, inputs[row.workload], rows.dtype.nunique() > 1, x) for row in rows.itertuples()}
    networks = [network_name(name) for name in rows.workload]
    baselines = {network: settings[index] for network, index in reversed(list(zip(networks, rows.index, strict=True)))}
    changes = [_changes(settings[index], baselines[network]) for network, index in zip(networks, rows.index, strict=True)]
    varied = {key for changed in changes for key in changed}
    columns: dict[str, Sequence[object]] = {
        "network": networks,
        "phase": [str(inputs[name].get("phase", "")) for name in rows.workload],
        x: [inputs[name][x] for name in rows.workload],
        "curve": [_curve_name(changed, baselines[network], varied) for changed, network in zip(changes, networks, strict=True)],
        "changes": [len(changed) for changed in changes],
    }
    fits = rows.fits.astype(bool) if "fits" in rows else True
    return rows.assign(**columns, fits=fits)[[*ROW, *COLUMN, x, "curve", "dtype", "pattern", result, "changes", "fits"]]


def _settings(row: Any, inputs: Mapping[str, object], with_dtype: bool, x: str) -> dict[str, str]:
    """What distinguishes curves, as text by name: pattern, dtype and the inputs but `x` and the phase."""
    others = {key: value for key, value in inputs.items() if key not in (x, "phase") and value is not None}
    texts = {key: str(value) if isinstance(value, str) else f"{key.replace('_', ' ')} {value:g}" for key, value in others.items()}
    return {"pattern": row.pattern, **({"dtype": shorten_label(row.dtype)} if with_dtype else {}), **texts}


def _changes(settings: Mapping[str, str], baseline: Mapping[str, str]) -> dict[str, str]:
    """The settings that differ from those of the baseline."""
    return {key: text for key, text in settings.items() if text != baseline.get(key)}


def _curve_name(changed: Mapping[str, str], baseline: Mapping[str, str], varied: set[str]) -> str:
    """'2:4, topk:2048': what a curve changes; of the baseline, all that other curves change."""
    return ", ".join(changed.values() or [text for key, text in baseline.items() if key in varied]) or "baseline"


def _with_gain(rows: Table, x: str) -> Table:
    """The rows with the gain over the baseline at the same point, whether or not that fits the memory; those without one are left out."""
    keys = [*ROW, *COLUMN, x]
    reference = rows[rows.changes == 0].groupby(keys).latency.min().rename("reference")
    joined = rows.join(reference, on=keys)
    return joined.assign(gain=joined.reference / joined.latency).dropna(subset=[GAIN]).drop(columns="reference")


def _select_curves(rows: Table, x: str, y: str) -> tuple[Table, int]:
    """All curves, or of many those that change one setting, and the fastest of all as one more; how many are left out."""
    combinations = rows[rows.changes > 1].curve.nunique()
    if rows.curve.nunique() <= MAX_CURVES or y != GAIN:
        return rows, 0
    fastest = rows.groupby([*ROW, *COLUMN, x], as_index=False, sort=False)[y].max().assign(curve=FASTEST)
    return pd.concat([rows[rows.changes <= 1], fastest]), combinations


def _draw_panels(rows: Table, x: str, y: str, label: str, unit_of_result: str) -> Figure:
    """A row of panels for each accelerator and phase, a column for each network and batch size; of one network, a column for each phase."""
    row_keys, column_keys = (ROW, COLUMN) if len(rows[list(COLUMN)].drop_duplicates()) > 1 else (ROW[:1], (*ROW[1:], *COLUMN))
    down, across = (list(rows[list(keys)].drop_duplicates().itertuples(index=False, name=None)) for keys in (row_keys, column_keys))
    named = [key != "batch" or rows.batch.nunique() > 1 for key in column_keys]
    texts = [
        [f"batch {label}" if key == "batch" else str(label) for key, label in zip(column_keys, labels, strict=True)] for labels in across
    ]
    titles = [", ".join(text for text, shown in zip(labels, named, strict=True) if shown and text) for labels in texts]
    figure, axes = style.create_panels([", ".join(filter(None, names)) for names in down], titles, sharey="row")
    styles = style.curve_styles(rows.assign(method=rows.curve, pattern=rows.curve))
    is_wide = rows[y].min() > 0 and rows[y].max() > WIDE * rows[y].min()
    unit = select_unit("1" if y == GAIN else unit_of_result, rows[y].to_numpy(float))
    for row, line in zip(down, axes, strict=True):
        for column, ax in zip(across, line, strict=True):
            of_panel = (rows[[*row_keys, *column_keys]] == [*row, *column]).all(axis=1)
            _draw_panel(ax, rows[of_panel], x, y, styles)
            _set_scales(ax, sorted(rows[x].unique()), is_wide, y)
    for ax in axes.flat:  # after the scales of all panels are set, which share the ticks
        style.set_axis_unit(ax.yaxis, "", unit)
        ax.set(xlabel="", ylabel="")
    style.label_edges(axes, f"{x} [tokens]" if x == "sequence" else x, style.wrap_name(unit.label(label), style.MAX_AXIS_CHARACTERS))
    return figure


def _draw_panel(ax: Axes, rows: Table, x: str, y: str, styles: style.CurveStyles) -> None:
    if y == GAIN:
        ax.axhline(1.0, color=style.GREY, linewidth=0.8)
    names = list(styles)
    for name, curve in rows.groupby("curve", sort=False):
        ordered = curve.sort_values(x)
        nested = styles[name, name] | style.nested_marker(names.index((name, name)), len(names))
        look: style.CurveStyle = {"color": style.GREY, "linestyle": ":", "linewidth": 1.3} if name == FASTEST else nested
        ax.plot(ordered[x], ordered[y], label=str(name), **look)


def _set_scales(ax: Axes, ticks: Sequence[float], is_wide: bool, y: str) -> None:
    """Logarithmic x, marked at the values; y is logarithmic in all panels or in none."""
    ax.set_xscale("log")
    ax.set_xticks(ticks, [_tick_text(value) for value in ticks])
    ax.minorticks_off()
    if is_wide:
        ax.set_yscale("log")
    elif y != GAIN:
        ax.set_ylim(bottom=0)


def _tick_text(value: float) -> str:
    """'4k' of 4096 and '1M' of 1048576."""
    for size, letter in ((2**20, "M"), (2**10, "k")):
        if value >= size and value % size == 0:
            return f"{value // size:.0f}{letter}"
    return format_number(value)
