"""Results of a search: its best designs over each constrained cost, and its progress next to random search.

An exhaustive search, which makes no progress, has no such panel.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.display_units import DisplayUnit, select_unit
from dse.base.expression import split_brackets
from dse.plot import style
from dse.plot.labels import Label, place_labels
from dse.plot.selection import Table
from dse.searching.analysis import hypervolume_histories
from dse.searching.archive import Archive
from dse.searching.report import UNITS

LOG_SCALE_RATIO = 10  # ratio of the best to the worst device from which the objective is on a logarithmic axis
RELATIVE_TO = " relative to the dense networks on the accelerator as described"
MAX_DEVICE_COST = 3.0  # times that of the costliest design: devices beyond would leave no room to see the designs


def draw_figure(archive: Archive, random: Archive, devices: Table) -> tuple[Figure, pd.DataFrame]:
    """A panel for each of the next two columns of the archive after the first objective, and one for the progress of a search by samples.

    `random` is the archive of a random search with as many designs; `devices` are existing ones (see `report`). The table has the
    front of the archive, then the devices, which are named in the column `device`.
    """
    costs = archive.value_names[1:3]
    shows_progress = archive.evaluator.problem.search.sampler != "exhaustive"
    widths = [4.8] * len(costs) + [3.8] * shows_progress
    figure = Figure(figsize=(sum(widths) or 3.8, 5.4), layout="constrained")
    axes = figure.subplots(1, max(len(widths), 1), squeeze=False, width_ratios=widths or None)[0]
    for ax in axes:
        style.set_panel_style(ax)
    labels = [_draw_cost_panel(ax, archive, random, devices, cost) for ax, cost in zip(axes, costs, strict=False)]
    if shows_progress or not costs:
        _draw_progress_panel(axes[-1], archive, random)
    evaluator, search = archive.evaluator, archive.evaluator.problem.search
    run = f"{evaluator.space.accelerator.name}, {search.sampler}, {archive.evaluated_count} designs evaluated"
    notes = [run, *map(str, search.constraints), _assumption_note(archive)]
    style.add_legend(figure, axes, *notes, _device_note(archive) if any(labels) else "")
    for ax, device_labels in zip(axes, labels, strict=False):
        place_labels(ax, device_labels)
    front = archive.designs[archive.front_indices()]
    table = pd.DataFrame(evaluator.space.decode(front) | evaluator.evaluate(front))
    return figure, pd.concat([table, devices], ignore_index=True) if len(devices) else table


def _assumption_note(archive: Archive) -> str:
    """That the best design runs a pattern whose accuracy is assumed; empty otherwise."""
    variants = archive.evaluator.chosen_variants(archive.designs[archive.best_index()])
    return "the accuracy of the best pattern is assumed" if any(variant.is_assumed for variant in variants.values()) else ""


def _device_note(archive: Archive) -> str:
    """In which dtype and batch size the existing devices are evaluated."""
    problem = archive.evaluator.problem_at(archive.designs[archive.best_index()])
    return f"existing devices: {problem.dtype.label}, batch {problem.batch}, as the best design, named where there is room"


def _objective_label(objective: str) -> str:
    """Label of the axis of the first objective, with what a performance is relative to."""
    text = f"{objective.replace('_', ' ')}{RELATIVE_TO if objective == 'performance' else ''}"
    return style.wrap_name(text, style.MAX_AXIS_CHARACTERS)


def _draw_cost_panel(ax: Axes, archive: Archive, random: Archive, devices: Table, cost: str) -> list[Label]:
    """Draw the first objective against one column of the archive; returns the labels of the devices, those nearest the front first."""
    unit = select_unit(UNITS.get(split_brackets(cost)[0], "1"), archive.values[:, archive.value_names.index(cost)])
    scale = 1 / unit.size
    objective, column = archive.value_names[0], archive.value_names.index(cost)
    cloud = random.values * random.value_signs
    ax.scatter(cloud[:, column] * scale, cloud[:, 0], s=4, color=style.GREY, alpha=0.4, linewidths=0, label="random designs (feasible)")
    x, y = archive.value_signs[column] * archive.values[:, column] * scale, archive.value_signs[0] * archive.values[:, 0]
    order = np.argsort(x, kind="stable")
    best = np.maximum.accumulate(y[order]) if archive.value_signs[0] < 0 else np.minimum.accumulate(y[order])
    ax.step(x[order], best, where="post", color=style.COLOURS[0], linewidth=1.4, label="best design at most as costly")
    ax.plot(
        x[archive.best_index()],
        y[archive.best_index()],
        marker="*",
        markersize=12,
        color=style.COLOURS[1],
        linestyle="none",
        label="best design",
    )
    if objective == "performance":
        ax.axhline(1.0, color=style.GREY, linewidth=0.8, label=style.DENSE_BASELINE)
    for bound in archive.evaluator.problem.search.bounds:
        if str(bound.expression) == cost:
            ax.axvline(bound.bound * scale, color="black", linewidth=0.8, linestyle=":", label="constraint")
    ax.set_xlabel(unit.label(cost.replace("_", " ")), fontsize=9)
    ax.set_ylabel(_objective_label(objective), fontsize=9)
    if not {cost, objective} <= set(devices.columns):
        return []
    shown = devices[devices[cost] * scale <= MAX_DEVICE_COST * x.max()].to_dict("records")
    if shown:
        xs, ys = [row[cost] * scale for row in shown], [row[objective] for row in shown]
        if min(ys) > 0 and max(ys) > LOG_SCALE_RATIO * min(ys):
            ax.set_yscale("log")
            style.set_axis_unit(ax.yaxis, "", DisplayUnit("", 1.0))
            ax.set_ylabel(_objective_label(objective), fontsize=9)
        ax.plot(xs, ys, marker="D", markersize=3.5, color="black", linestyle="none", label="existing devices")
    behind = [abs(row[objective] / best[max(np.searchsorted(x[order], row[cost] * scale, side="right") - 1, 0)] - 1) for row in shown]
    return [Label(shown[n][cost] * scale, shown[n][objective], shown[n]["device"], "black") for n in np.argsort(behind, kind="stable")]


def _draw_progress_panel(ax: Axes, archive: Archive, random: Archive) -> None:
    """The best value so far of a single objective, or the hypervolume of several."""
    is_single = len(archive.evaluator.problem.search.objectives) == 1
    lines = (("search", style.COLOURS[0], "-"), ("random search", style.COLOURS[1], "--"))
    volumes = hypervolume_histories(archive, random)
    for each, volume, (name, colour, line) in zip((archive, random), volumes, lines, strict=True):
        counts = [count for count, _ in each.history]
        best = [each.value_signs[0] * values[:, 0].min() if len(values) else np.nan for _, values in each.history]
        look = {
            "color": colour,
            "linestyle": line,
            "linewidth": 1.4,
            "marker": "o" if len(counts) == 1 else None,
        }  # one: an exhaustive search
        ax.step(counts, best if is_single else volume, where="post", label=name, **look)
    ax.set_xlabel("designs evaluated", fontsize=9)
    ax.set_ylabel(f"best {archive.value_names[0]}" if is_single else "hypervolume", fontsize=9)
