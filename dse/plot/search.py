"""What a search found: what more of a constrained cost would buy, and how fast the search got there beside chance."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.plot import style
from dse.plot.style import Rows
from dse.searching import report
from dse.searching.archive import Archive

SCALES = {"area": (1e6, "area [mm^2]"), "power": (1.0, "power [W]"), "latency": (1e3, "latency [ms]"), "energy": (1e3, "energy [mJ]")}

REACH = 3.0  # devices that take more than so many times what any design does would leave no room to see the designs


def figure(archive: Archive, random: Archive, devices: Rows) -> tuple[Figure, pd.DataFrame]:
    """A panel of the front for each of the next two columns, and one of the progress; the table is the front."""
    others = archive.columns[1:3]
    drawn = Figure(figsize=(4.4 * (len(others) + 1), 4.2), layout="constrained")
    axes = drawn.subplots(1, len(others) + 1, squeeze=False)[0]
    labels = [_front(ax, archive, random, devices, name) for ax, name in zip(axes, others, strict=False)]
    _progress(axes[-1], archive, random)
    for ax in axes:
        style.plain(ax)
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    search = archive.evaluator.problem.search
    told = "; ".join(
        [f"{archive.evaluator.space.accelerator.name}, {search.sampler}, {archive.evaluated} designs", *map(str, search.constraints)]
    )
    drawn.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8, frameon=False, title=told, title_fontsize=7
    )
    drawn.draw_without_rendering()  # settles the layout, on which the labels depend
    for ax, beside in zip(axes, labels, strict=False):
        style.place_labels(ax, beside)
    front = archive.points[archive.front()]
    return drawn, pd.DataFrame(archive.evaluator.space.described(front) | archive.evaluator.results(front))


def _front(ax: Axes, archive: Archive, random: Archive, devices: Rows, name: str) -> list[style.Label]:
    """One panel; returns the labels of the devices."""
    scale, label = SCALES.get(name, (1.0, name))
    first, column = archive.columns[0], archive.columns.index(name)
    x, y = (archive.signs[n] * archive.values[:, n] * (scale if n else 1.0) for n in (column, 0))
    cloud = random.values * random.signs
    ax.scatter(cloud[:, column] * scale, cloud[:, 0], s=4, color=style.GREY, alpha=0.4, linewidths=0, label="random designs, feasible")
    order = np.argsort(x, kind="stable")
    steps = np.maximum.accumulate(y[order]) if archive.signs[0] < 0 else np.minimum.accumulate(y[order])
    ax.step(x[order], steps, where="post", color=style.COLOURS[0], linewidth=1.4, label="best found up to here")
    ax.plot(x[archive.best()], y[archive.best()], marker="*", markersize=12, color=style.COLOURS[1], linestyle="none", label="best design")
    if first == "performance":
        ax.axhline(1.0, color=style.GREY, linewidth=0.8, label="dense networks, accelerator as described")
    for limit in archive.evaluator.problem.search.bounds:
        if str(limit.expression) == name:
            ax.axvline(limit.bound * scale, color="black", linewidth=0.8, linestyle=":", label="limit")
    ax.set_xlabel(label, fontsize=9)
    ax.set_ylabel(first, fontsize=9)
    if not {name, first} <= set(devices.columns):
        return []
    near = devices[devices[name] * scale <= REACH * x.max()]
    if near.empty:
        return []
    marked = {"marker": "D", "markersize": 4, "color": "black", "linestyle": "none", "label": "devices that exist"}
    ax.plot(near[name] * scale, near[first], **marked)
    return [style.Label(row[name] * scale, row[first], row["device"], "black") for row in near.to_dict("records")]


def _progress(ax: Axes, archive: Archive, random: Archive) -> None:
    """Of one objective the best so far, of several the hypervolume."""
    single = len(archive.evaluator.problem.search.objectives) == 1
    volumes = report.volumes(archive, random)
    for found, volume, colour, name in zip((archive, random), volumes, style.COLOURS, ("search", "random search"), strict=False):
        best = [found.signs[0] * values[:, 0].min() if len(values) else np.nan for _, values in found.history]
        ax.plot([count for count, _ in found.history], best if single else volume, color=colour, linewidth=1.4, label=name)
    ax.set_xlabel("designs judged", fontsize=9)
    ax.set_ylabel(f"best {archive.columns[0]}" if single else "hypervolume", fontsize=9)
