"""Pareto fronts over the cloud of all points: a panel for each network, batch size and pair of objectives.

With two objectives the steps bound the region that some point dominates. With more, each panel is a projection, in which points of
the front may lie behind others.
"""

import itertools
import json

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from dse.base.display_units import DisplayUnit, format_quantity, select_unit
from dse.base.errors import InputError, did_you_mean
from dse.plot import style, uncertainty
from dse.plot.cloud import is_wide, visible_points
from dse.plot.labels import Label, place_labels
from dse.plot.selection import Table
from dse.report.result_kind import result_kind
from dse.report.show_results import front_objectives, front_objectives_of_search
from dse.sweeping.pareto import GROUP_NAMES, FrontRecord, front_records, objective_directions
from dse.sweeping.pareto import pareto as find_fronts

MAX_LABELS = 60  # in a panel
MAX_MARKERS = 5000  # points of a cloud that are drawn as dots, not as pixels
MAX_PANELS = 24
PANELS_ACROSS = 3
BETTER = {"minimize": "lower", "maximize": "higher"}
DENSE_VALUES = {"speedup": 1.0, "accuracy_drop": 0.0}
HIGHER_IS_BETTER = ("speedup", "performance", "accuracy", "faster", "throughput", "tokens_per_s", "largest_batch")  # starts of names
MAX_PRUNINGS = 7  # pairs of method and pattern in a panel up to which each has its own colour


def front_table(front: xr.Dataset) -> pd.DataFrame:
    """One row for each point: the objectives, the other coordinates and variables of its design, and whether it is a knee."""
    names = dict.fromkeys([*objective_directions(front), *front.coords, *front.data_vars])
    columns = {str(name): front[name].values for name in names if front[name].dims == ("point",)}
    knees = [record["knee"] for record in front_records(front)]
    return pd.DataFrame(columns | {"knee": np.isin(np.arange(front.sizes["point"]), knees)})


def draw_default_figure(dataset: xr.Dataset, x: str | None = None, y: str | None = None) -> tuple[Figure, pd.DataFrame]:
    """The fronts of two results (default: of a sweep latency and area or power, else speedup and loss of accuracy; of a front or a search
    its own objectives), and their table.

    Of results that are not objectives, speedups, performance, throughput and accuracies are maximised unless their metric is better
    lower; all others are minimised. Raises InputError.
    """
    maximize, minimize = default_objectives(dataset)
    if x is not None or y is not None:
        names = x or ("latency" if y != "latency" else "speedup"), y or ("latency" if x != "latency" else "speedup")
        maximize = [name for name in names if name in maximize or (name not in minimize and _is_better_higher(dataset, name))]
        minimize = [name for name in names if name not in maximize]
        pair = names
    else:
        pair = (*maximize, *minimize)
    front = find_fronts(dataset, maximize, minimize)
    return draw_figure(dataset, front, pair), front_table(front)


def draw_axis_figure(points: xr.Dataset, x: str | None = None, y: str | None = None) -> tuple[Figure, pd.DataFrame]:
    """A result of single points against a number of their designs, and the table of the points.

    `x`: an axis of numbers (default: the one with most values); `y`: a result (default: the first objective). Raises InputError.
    """
    maximize, minimize = default_objectives(points)
    axes = {str(name): len(np.unique(axis)) for name, axis in points.coords.items() if _is_axis(str(name), axis)}
    if not axes:
        raise InputError("no axis has several numbers", "draw the figure 'pareto' instead")
    results = [str(name) for name, variable in points.data_vars.items() if variable.dtype.kind in "if"]
    for name, known in ((x, axes), (y, results)):
        if name is not None and name not in known:
            raise InputError(f"the points have no number '{name}'", did_you_mean(name, known))
    front = find_fronts(points, maximize, minimize)
    pair = x or max(axes, key=lambda name: axes[name]), y or next(name for name in (*maximize, *minimize, *results) if name in results)
    return draw_figure(points, front, pair), front_table(front)


def _is_axis(name: str, values: xr.DataArray) -> bool:
    """Whether a coordinate of points is an axis with several numbers."""
    return values.dims == ("point",) and values.dtype.kind in "if" and ("." in name or name == "batch") and len(np.unique(values)) > 1


def default_objectives(dataset: xr.Dataset) -> tuple[list[str], list[str]]:
    """Objectives to maximise and to minimise: those of a front or a search that are numbers of it, else those that suit a sweep."""
    directions: dict[str, str] = {}
    if "point" in dataset.dims and (kind := result_kind(dataset)) != "top":
        texts = (text.partition(" ") for text in front_objectives_of_search(dataset)) if kind == "search" else ()
        directions = objective_directions(dataset) if kind == "front" else {name: way for way, _, name in texts if name in dataset}
    if len(directions) < 2:
        maximize, minimize = front_objectives(dataset)
        directions |= dict.fromkeys(maximize, "maximize") | dict.fromkeys(minimize, "minimize")
    return [name for name in directions if directions[name] == "maximize"], [name for name in directions if directions[name] == "minimize"]


def _is_better_higher(dataset: xr.Dataset, name: str) -> bool:
    if name == "accuracy" and "metrics" in dataset.attrs:
        metrics = [metric for each in json.loads(dataset.attrs["metrics"]).values() for metric in each.values()]
        return all(metric["direction"] == "higher" for metric in metrics)
    return name.startswith(HIGHER_IS_BETTER) and name != "accuracy_drop"


def draw_figure(dataset: xr.Dataset, front: xr.Dataset, pair: tuple[str, ...] | None = None) -> Figure:
    """Panels of the Pareto fronts of a dataset (`dse.sweeping.pareto.pareto`): a front for each, and a pair of objectives.

    `pair`: the results on the x and y axes (default: each pair of objectives, in their order).
    """
    directions, rows, records = objective_directions(front), front_table(front), front_records(front)
    pairs = [pair] if pair and len(pair) == 2 else list(itertools.combinations(directions, 2)) or [(name, name) for name in directions]
    ends = np.cumsum([record["size"] for record in records])
    fronts = [(record, rows[end - record["size"] : end]) for record, end in zip(records, ends, strict=True)]
    shown = [(*each, pair) for each in fronts for pair in pairs][: max(MAX_PANELS // len(pairs), 1) * len(pairs)]
    figure, axes = _create_panels(len(shown), len(pairs))
    styles = style.curve_styles(rows) if {"method", "pattern"} <= set(rows) else {}
    for ax, (record, front_rows, (x, y)) in zip(axes, shown, strict=True):
        group = {name: record[name] for name in GROUP_NAMES if name in record}
        cloud = visible_points(dataset, group, list(dict.fromkeys([*directions, x, y])), (x, y))
        draw_panel(ax, cloud, front_rows, x, y, styles, directions if directions.keys() == {x, y} else None)
        _set_axes(ax, front, cloud, x, y)
        ax.set_title(style.wrap_name(_group_name(record), 44), fontsize=9)
    better = f"better: {', '.join(f'{BETTER[way]} {_spaced(name)}' for name, way in directions.items())}"
    notes = [_common_coordinates(dataset), better, _size_note(front, records)]
    if {"accuracy", "accuracy_drop"} & set(directions):
        notes.append(uncertainty.accuracy_note(rows))
    if left_out := len(fronts) - len(shown) // len(pairs):
        notes.append(f"{left_out} more fronts are in the table")
    style.add_legend(figure, axes, *notes, style.unverified_note(dataset))
    for ax, (_, front_rows, (x, y)) in zip(axes, shown, strict=True):
        place_labels(ax, _labels(front_rows, x, y))
    return figure


def _create_panels(count: int, pairs: int) -> tuple[Figure, list[Axes]]:
    across = pairs if pairs > 1 else min(PANELS_ACROSS, count)
    down = -(-count // across)
    figure = Figure(figsize=(max(4.4 * across, 6.2), 4.0 if down == 1 else 3.5 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False)
    for ax in axes.flat[count:]:
        ax.remove()
    for ax in axes.flat[:count]:
        style.set_panel_style(ax)
    return figure, list(axes.flat[:count])


def _group_name(record: FrontRecord) -> str:
    """The network and batch size of a front, where the dataset has several."""
    return ", ".join(f"batch {record[name]}" if name == "batch" else str(record[name]) for name in GROUP_NAMES if name in record)


def summary_line(record: FrontRecord) -> str:
    """One line about a front: its network and batch size, and how many points it has."""
    return f"  {_group_name(record)}: {record['size']:,} of {record['points']:,} points"


def _size_note(front: xr.Dataset, records: list[FrontRecord]) -> str:
    """Number of points and hypervolume of a single front; empty for several."""
    if len(records) > 1:
        return ""
    (record,) = records
    share = record["hypervolume_share"]
    corner = ", ".join(
        f"{_spaced(name)} {format_quantity(value, str(front[name].attrs.get('units', '1')))}"
        for name, value in record["reference_point"].items()
    )
    volume = "" if share is None else f"; hypervolume {share:.1%} of the box up to {corner}"
    return f"front: {record['size']:,} of {record['points']:,} points{volume}"


def draw_panel(ax: Axes, cloud: Table, front: Table, x: str, y: str, styles: style.CurveStyles, directions: dict[str, str] | None) -> None:
    """Draw the cloud, the front (rows of `front_table`) with the intervals of its accuracies, and its knee.

    `styles` are those of each (method, pattern). Steps are drawn only with `directions`, as a projection has none.
    """
    size: style.CurveStyle = {"marker": "o", "markersize": 2.5} if len(cloud) < MAX_MARKERS else {"marker": ","}
    label = "all points" if len(cloud) > len(front) else None
    ax.plot(cloud[x], cloud[y], linestyle="none", color="#bbbbbb", markeredgewidth=0, label=label, zorder=1, **size)
    if directions is not None:
        best_last = front if directions[x] == "maximize" else front[::-1]
        ax.plot(*_corners(best_last[x], best_last[y]), color="black", linewidth=0.8, label="Pareto front", zorder=2)
    for name, rows, curve_style in _by_pruning(front, styles):
        look = curve_style | style.NO_LINE | uncertainty.legend_marker(rows, x, y)
        ax.plot(rows[x], rows[y], markersize=4.5, label=name, zorder=3, **look)
        uncertainty.mark_uncertain_accuracies(ax, rows, x, y, curve_style, 4.5)
    knee = front[front.knee]
    ring: style.CurveStyle = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgecolor": "black"}
    ax.plot(knee[x], knee[y], linestyle="none", label="knee", zorder=4, **ring)
    if "best" in front:
        best = front[front.best.astype(bool)]
        ax.plot(best[x], best[y], marker="*", markersize=12, color=style.COLOURS[1], linestyle="none", label="best design", zorder=5)
    for name, draw_line in ((x, ax.axvline), (y, ax.axhline)):
        if name in DENSE_VALUES:
            draw_line(
                DENSE_VALUES[name],
                color=style.GREY,
                linewidth=0.8,
                linestyle=":",
                zorder=0,
                label=style.DENSE_BASELINE,
                gid=style.REFERENCE,
            )


def _corners(x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Corners of the staircase through points with the best x last: between two points, the worse x and the worse y."""
    x, y = np.asarray(x), np.asarray(y)
    return np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]


def _by_pruning(front: Table, styles: style.CurveStyles) -> list[tuple[str, Table, style.CurveStyle]]:
    """The points by pruning method and pattern with label and style, where these are known and not too many; else all together."""
    groups = list(front.groupby(["method", "pattern"], sort=False)) if styles else []
    if not 0 < len(groups) <= MAX_PRUNINGS:
        return [("Pareto front", front, {"color": style.COLOURS[0], "marker": "o"})]
    return [(style.curve_label(*pair), rows, styles[pair]) for pair, rows in groups]


def _labels(front: Table, x: str, y: str) -> list[Label]:
    """The sparsity of each point, unless an axis shows it or there are too many points."""
    if "nominal_sparsity" not in front or {"sparsity", "nominal_sparsity"} & {x, y}:
        return []
    pruned = front[front.method != "dense"] if "method" in front else front
    distinct = pruned.drop_duplicates([x, y, "nominal_sparsity"])
    if len(distinct) > MAX_LABELS:
        return []
    return [Label(row[x], row[y], style.percent(row["nominal_sparsity"]), "black") for _, row in distinct.iterrows()]


def _set_axes(ax: Axes, front: xr.Dataset, cloud: Table, x: str, y: str) -> None:
    """Label the axes in units that people use; a wide range of positive values is on a logarithmic scale."""
    ax.margins(0.07)
    for name, axis in ((x, "x"), (y, "y")):
        wide = name not in DENSE_VALUES and is_wide(cloud[name].min(), cloud[name].max())
        ax.set(**{f"{axis}scale": "log" if wide else "linear"})
        style.set_axis_unit(ax.xaxis if axis == "x" else ax.yaxis, *_axis_label(front, cloud, name))


def _axis_label(front: xr.Dataset, cloud: Table, name: str) -> tuple[str, DisplayUnit]:
    """Name and unit of an axis."""
    metrics = np.unique(front["metric"].values) if "metric" in front else []
    if name == "accuracy" and len(metrics) == 1:
        return str(metrics[0]), DisplayUnit(_metric_unit(front, str(metrics[0])), 1.0)
    label = {"speedup": "speedup over dense"}.get(name, _spaced(name))
    return label, select_unit(str(front[name].attrs.get("units", "1")), cloud[name].to_numpy(float))


def _metric_unit(front: xr.Dataset, metric: str) -> str:
    """The unit of a metric, where all workloads agree on it."""
    described = [metrics[metric]["unit"] for metrics in json.loads(front.attrs["metrics"]).values() if metric in metrics]
    return described[0] if len(set(described)) == 1 else ""


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _common_coordinates(dataset: xr.Dataset) -> str:
    """The workload, accelerator, batch size and dtype, each where the dataset has only one."""
    values = {name: np.unique(dataset[name].values) for name in ("workload", "accelerator", "batch", "dtype") if name in dataset.coords}
    return ", ".join(f"batch {v[0]}" if name == "batch" else str(v[0]) for name, v in values.items() if len(v) == 1)
