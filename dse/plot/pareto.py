"""The Pareto front over the cloud of all points, its knee marked: a panel for each network, batch and pair of objectives.

Two objectives: the steps are the border of what some point reaches. More: each panel is a projection, in which points of the
front may lie behind others.
"""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.plot import style
from dse.plot.style import Looks, Rows
from dse.sweeping.pareto import GROUPS, cloud, directions, fronts_of, groups, prepared

WIDE = 30  # a range that a linear scale would squeeze
READABLE = 60  # labels of a panel
FEW = 5000  # points of a cloud that are drawn as dots, not as pixels


def table(front: xr.Dataset) -> pd.DataFrame:
    """One row for each point: the objectives first, then what the design is, and whether it is the knee."""
    names = dict.fromkeys([*directions(front), *front.coords, *front.data_vars])
    columns = {str(name): front[name].values for name in names if front[name].dims == ("point",)}
    knees = [one["knee"] for one in fronts_of(front)]
    return pd.DataFrame(columns | {"knee": np.isin(np.arange(front.sizes["point"]), knees)})


MOST_PANELS = 24
ACROSS = 3  # panels side by side


def figure(dataset: xr.Dataset, front: xr.Dataset) -> Figure:
    """Panels of the fronts of a dataset: one for each network and batch, where these are apart, and pair of objectives."""
    names, rows = list(directions(front)), table(front)
    pairs = list(itertools.combinations(names, 2)) or [(names[0], names[0])]
    ends = np.cumsum([one["size"] for one in fronts_of(front)])
    panels = [(one, rows[end - one["size"] : end], pair) for one, end in zip(fronts_of(front), ends, strict=True) for pair in pairs]
    shown = panels[: max(MOST_PANELS // len(pairs), 1) * len(pairs)]
    across = len(pairs) if len(pairs) > 1 else min(ACROSS, len(shown))
    down = -(-len(shown) // across)
    drawn = Figure(figsize=(max(4.4 * across, 6.2), 4.0 if down == 1 else 3.5 * down), layout="constrained")
    axes = drawn.subplots(down, across, squeeze=False)
    for ax in axes.flat[len(shown) :]:
        ax.remove()
    for ax, (one, here, (x, y)) in zip(axes.flat, shown, strict=False):
        points = _cloud(dataset, one, names)
        style.plain(ax)
        draw(ax, points, here, x, y, directions(front) if len(names) == 2 else None)
        _better_up_and_right(ax, front, points, x, y)
        if title := _named(one):
            ax.set_title(style.wrapped(title, 44), fontsize=9)
    notes = [_constants(dataset), "better is up and to the right", *_measured(fronts_of(front))]
    notes += [f"{len(ends) - len(shown) // len(pairs)} more fronts in the table"] if len(shown) < len(panels) else []
    style.finish(drawn, axes.flat[: len(shown)], dataset, *notes)
    for ax, (_, here, (x, y)) in zip(axes.flat, shown, strict=False):
        style.place_labels(ax, _labels(here, x, y))
    return drawn


def _cloud(dataset: xr.Dataset, one: dict[str, Any], names: list[str]) -> Rows:
    """All points that a front was taken of."""
    (shape, dims), points = cloud(prepared(dataset, names), names)
    numbers = np.arange(len(points)).reshape(shape)
    for group, places in groups(dataset, dims, pool=not _named(one)):
        if all(group[name] == one[name] for name in group):
            numbers = numbers[np.ix_(*(places.get(dim, np.arange(size)) for dim, size in zip(dims, shape, strict=True)))]
            break
    found = points[numbers.ravel()]
    return pd.DataFrame(found[np.isfinite(found).all(axis=1)], columns=names)


def _named(one: dict[str, Any]) -> str:
    """Which network and batch a front is of, where there are several."""
    return ", ".join(f"batch {one[name]}" if name == "batch" else str(one[name]) for name in GROUPS if name in one)


def summary(one: dict[str, Any]) -> str:
    """A front in a line: which network and batch it is of, and how many points it has."""
    return f"  {_named(one)}: {one['size']:,} of {one['points']:,} points"


def _measured(fronts: list[dict[str, Any]]) -> list[str]:
    """Points and hypervolume of a single front."""
    if len(fronts) > 1:
        return []
    (one,) = fronts
    box = ", ".join(f"{_spoken(name)} {value:.4g}" for name, value in one["reference_point"].items())
    share = "" if one["hypervolume_share"] is None else f"; hypervolume {one['hypervolume_share']:.1%} of the box up to {box}"
    return [f"{one['size']:,} of {one['points']:,} points{share}"]


def draw(ax: Axes, points: Rows, front: Rows, x: str, y: str, steps: dict[str, str] | None) -> list[Any]:
    """One panel: the cloud, the front of a `table` (with steps where directions say that it is no projection), its knee."""
    size: Looks = {"marker": "o", "markersize": 2.5} if len(points) < FEW else {"marker": ","}
    artists = ax.plot(
        points[x],
        points[y],
        linestyle="none",
        color="#bbbbbb",
        markeredgewidth=0,
        label="all points" if len(points) > len(front) else None,
        zorder=1,
        **size,
    )
    if steps is not None:
        best_last = front if steps[x] == "maximize" else front[::-1]
        artists += ax.plot(*_corners(best_last[x], best_last[y]), color=style.COLOURS[0], linewidth=1, zorder=2)
    for (name, rows), look in zip(_kinds(front), itertools.cycle(_LOOKS), strict=False):
        artists += ax.plot(rows[x], rows[y], linestyle="none", markersize=4.5, label=name, zorder=3, **look)
    best = front[front.knee]
    ring: Looks = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgecolor": "black"}
    artists += ax.plot(best[x], best[y], linestyle="none", label="knee", zorder=4, **ring)
    for name, line in ((x, ax.axvline), (y, ax.axhline)):
        if name in DENSE:
            artists.append(line(DENSE[name], color=style.GREY, linewidth=0.8, linestyle=":", zorder=0, label="dense network"))
    return artists


DENSE = {"speedup": 1.0, "accuracy_drop": 0.0}
_LOOKS: list[Looks] = [{"color": colour, "marker": marker} for marker, colour in zip(style.MARKERS, style.COLOURS, strict=True)]


def _corners(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The border of what some point reaches, the best x last: between two points lies the corner with the worse of each."""
    x, y = np.asarray(x), np.asarray(y)
    return np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]


def _kinds(front: Rows) -> list[tuple[str, Rows]]:
    """The points of the front by how their network was pruned, where that is known and told apart by a few colours."""
    if not {"method", "pattern"} <= set(front) or len(groups := list(front.groupby(["method", "pattern"], sort=False))) > len(_LOOKS):
        return [("front", front)]
    return [(style.kind_name(method, pattern), rows) for (method, pattern), rows in groups]


def _labels(front: Rows, x: str, y: str) -> list[style.Label]:
    """The sparsity at each point, unless an axis shows it or there are too many to be read."""
    if "nominal_sparsity" not in front or {"sparsity", "nominal_sparsity"} & {x, y}:
        return []
    distinct = front.drop_duplicates([x, y, "nominal_sparsity"])
    if len(distinct) > READABLE:
        return []
    return [style.Label(row[x], row[y], style.percent(row["nominal_sparsity"]), "black") for _, row in distinct.iterrows()]


def _better_up_and_right(ax: Axes, front: xr.Dataset, points: Rows, x: str, y: str) -> None:
    """Labels; what is minimised runs backwards, what spans a wide range is on a logarithmic scale."""
    ax.margins(0.07)
    for name, axis in ((x, "x"), (y, "y")):
        wide = name not in DENSE and points[name].min() > 0 and points[name].max() > WIDE * points[name].min()
        ax.set(**{f"{axis}label": _label(front, name), f"{axis}scale": "log" if wide else "linear"})
    ax.xaxis.label.set_fontsize(9)
    ax.yaxis.label.set_fontsize(9)
    ax.xaxis.set_inverted(directions(front)[x] == "minimize")
    ax.yaxis.set_inverted(directions(front)[y] == "minimize")


def _label(front: xr.Dataset, name: str) -> str:
    metrics = np.unique(front["metric"].values) if "metric" in front else []
    spoken = str(metrics[0]) if name == "accuracy" and len(metrics) == 1 else _spoken(name)
    unit = front[name].attrs.get("units", "1")
    return spoken if unit == "1" else f"{spoken} [{unit}]"


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _constants(dataset: xr.Dataset) -> str:
    """What all points have in common."""
    single = {name: np.unique(dataset[name].values) for name in ("workload", "accelerator", "batch", "dtype") if name in dataset.coords}
    return ", ".join(f"batch {v[0]}" if name == "batch" else str(v[0]) for name, v in single.items() if len(v) == 1)
