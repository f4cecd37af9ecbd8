"""Which layers gain from pruning: speedup of every layer under every variant, and whether memory bounds it.

A column is a variant. A row is a layer, or a group of layers with the same results, as high as its share of the dense network's
latency, so that areas show what the whole network gains. A dot marks layers that are bound by memory: more compute does not help them.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dse.base.dtype import OperandDtypes
from dse.plot import style
from dse.plot.selection import Table, first_dtype, layer_table, middle_batch, select_design, selected_accelerators, variant_indices
from dse.schema.accelerator import Accelerator
from dse.sweeping import provenance
from dse.sweeping.plan import Plan
from dse.workload import Variant

COLUMN_WIDTH, MIN_WIDTH, NAME_WIDTH, HEIGHT = 0.42, 3.4, 2.2, 4.1  # inches
CHARACTER_HEIGHT = 0.035  # inches, of a slanted column label
MAX_COLUMNS = 20  # variants of a panel
MAX_NAME = 36  # characters
MIN_LABELLED_SHARE = 0.025  # of the height: lower rows have no room for text
MIN_NAME_DISTANCE = 0.03  # of the height, between the names of two rows
NARROW = 4.0  # ratio of the largest to the smallest speedup up to which the colour bar has ticks between powers of two
DOT: style.CurveStyle = {  # visible on every colour
    "linestyle": "none", "marker": "o", "markersize": 3.6, "markerfacecolor": "white", "markeredgecolor": "black", "markeredgewidth": 0.7
}  # fmt: skip
TICKS = (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32)


def draw_figure(dataset: xr.Dataset, batch: int | None = None) -> tuple[Figure, pd.DataFrame]:
    """Panels of accelerator by workload, at one batch size (default: the middle one) and the first dtype.

    A workload with more than `MAX_COLUMNS` variants has several panels.
    """
    plan = provenance.rebuild_plan(dataset)
    batch, dtype = batch or middle_batch(dataset), first_dtype(dataset, plan)
    variants = {index: plan.variants[index] for index in variant_indices(dataset)}
    accelerators, workloads = selected_accelerators(dataset, plan), list(dict.fromkeys(v.workload for v in variants.values()))
    tables = [
        _speedup_table(accelerator, variant, plan, batch, dtype).assign(variant=index)
        for accelerator in accelerators
        for index, variant in variants.items()
    ]
    rows: Table = pd.concat(tables, ignore_index=True)
    names, parts = [accelerator.name for accelerator in accelerators], _split_variants(variants, workloads)
    width = max(COLUMN_WIDTH * max(len(indices) for _, indices in parts), MIN_WIDTH) + NAME_WIDTH
    height = HEIGHT + CHARACTER_HEIGHT * max(map(len, rows.state))
    titles = [title for title, _ in parts]
    figure, axes = style.create_panels(names, titles, width, height, sharex="none", sharey="none", label_width=NAME_WIDTH)
    norm = LogNorm(min(rows.speedup.min(), 0.99), max(rows.speedup.max(), 1.01))
    meshes = [
        draw_panel(ax, rows[(rows.accelerator == name) & rows.variant.isin(indices)], norm)
        for name, line in zip(names, axes, strict=True)
        for (_, indices), ax in zip(parts, line, strict=True)
    ]
    style.label_edges(axes, "", "layers (height: share of the dense latency)")
    _add_colour_bar(figure, axes, meshes[-1], norm)
    model = f"batch {batch}, {dtype.label}, fidelity: {plan.spec.model.fidelity}"
    bold = "above each column: speedup of the network"
    style.add_legend(figure, axes.flat, model, bold, select_design(dataset)[1], style.unverified_note(dataset))
    return figure, rows


def _split_variants(variants: dict[int, Variant], workloads: list[str]) -> list[tuple[str, list[int]]]:
    """Title and variants of each column of panels: of each workload, at most `MAX_COLUMNS` variants in one."""
    parts = []
    for workload in workloads:
        indices = [index for index, variant in variants.items() if variant.workload == workload]
        count = -(-len(indices) // MAX_COLUMNS)
        chunks = [chunk.tolist() for chunk in np.array_split(indices, count)]
        parts += [(workload if count == 1 else f"{workload} ({n} of {count})", chunk) for n, chunk in enumerate(chunks, 1)]
    return parts


def _speedup_table(accelerator: Accelerator, variant: Variant, plan: Plan, batch: int, dtype: OperandDtypes) -> Table:
    """One row for each layer of a variant: its speedup over the dense layer, and whether memory bounds it."""
    sparse, dense = (layer_table(accelerator, each, batch, dtype, plan) for each in (variant, plan.dense_variants[variant.workload]))
    return sparse.assign(
        workload=variant.workload, state=style.variant_label(variant).removeprefix("hypothetical "), dense_latency=dense.latency,
        share=dense.latency / dense.latency.sum(), speedup=(dense.latency / sparse.latency).where(dense.latency > 0, 1.0),
        memory=sparse.bound.isin(list(accelerator.memory)),
    )  # fmt: skip


def _add_colour_bar(figure: Figure, axes: style.AxesGrid, mesh: QuadMesh, norm: LogNorm) -> None:
    bar = figure.colorbar(mesh, ax=axes, pad=0.01, fraction=0.03)
    bar.set_label("speedup of the layer over dense", fontsize=8)
    low, high = float(norm.vmin or 1.0), float(norm.vmax or 1.0)
    candidates = TICKS if high > NARROW * low else {1.0, *MaxNLocator(5).tick_values(low, high)}
    ticks = sorted(tick for tick in candidates if low <= tick <= high)
    bar.set_ticks(ticks, labels=[f"{tick:g}x" for tick in ticks], fontsize=8)
    bar.minorticks_off()


def _group_equal_layers(rows: Table, variants: list[int]) -> Table:
    """Merge layers that have the same results under every variant, named after the first of them; the longest group comes first."""
    tables = [rows[rows.variant == index].reset_index() for index in variants]
    results = pd.concat([table[["speedup", "memory"]].round(6) for table in tables], axis=1).T.reset_index(drop=True).T
    length = (tables[0].share / tables[0]["count"]).round(12)
    group = results.assign(length=length).groupby([*results.columns, "length"], sort=False).ngroup()
    sums = {name: (name, "sum") for name in ("share", "latency", "dense_latency")}
    firsts = {name: (name, "first") for name in ("layer", "variant", "state", "speedup", "memory")}
    merged = [table.assign(group=group).groupby("group").agg(**sums, **firsts, layers=("layer", "size")) for table in tables]
    return pd.concat([table.sort_values("share", ascending=False, kind="stable") for table in merged])


def draw_panel(ax: Axes, rows: Table, norm: LogNorm) -> QuadMesh:
    """Draw one panel from rows with variant, layer, state, share, speedup, memory and latencies; returns the colour mesh.

    Each variant is a column, with the speedup of the network above it.
    """
    variants = list(dict.fromkeys(rows.variant))
    groups = _group_equal_layers(rows, variants)
    columns = [groups[groups.variant == index] for index in variants]
    edges = np.concatenate([[0.0], columns[0].share.cumsum()])
    speedups = np.stack([column.speedup for column in columns], axis=1)
    mesh = ax.pcolormesh(np.arange(len(variants) + 1), edges, speedups, norm=norm, cmap="viridis", linewidth=0)
    ax.hlines(edges[np.concatenate([[True], columns[0].share >= MIN_LABELLED_SHARE])], 0, len(variants), color="white", linewidth=0.8)
    ax.vlines(np.arange(1, len(variants)), 0, edges[-1], color="white", linewidth=0.8)
    for number, column in enumerate(columns):
        for top, bottom, row in zip(edges[:-1], edges[1:], column.itertuples(), strict=True):
            if bottom - top >= MIN_LABELLED_SHARE:
                _write_cell(ax, number + 0.5, (top + bottom) / 2, row, norm)
        speedup = column.dense_latency.sum() / column.latency.sum()
        ax.text(number + 0.5, -0.015, f"{speedup:.2f}x", ha="center", va="bottom", fontsize=7, fontweight="bold")
    ax.plot([], [], label="bound by memory", **DOT)
    _label_rows_and_columns(ax, [column.state.iloc[0] for column in columns], columns[0], edges)
    return mesh


def _write_cell(ax: Axes, x: float, y: float, row: Any, norm: LogNorm) -> None:
    """Write the speedup, and a dot where memory is the bound."""
    colour = "black" if norm(row.speedup) > 0.6 else "white"
    ax.text(x - (0.08 if row.memory else 0), y, f"{row.speedup:.2g}", ha="center", va="center", fontsize=6.5, color=colour)
    if row.memory:
        ax.plot([x + 0.25], [y], **DOT)


def _shorten(name: str) -> str:
    """The name without its middle, if it is long."""
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME // 2 - 2]}...{name[-MAX_NAME // 2 + 1 :]}"


def _named_rows(middles: np.ndarray, heights: np.ndarray) -> Bool[np.ndarray, " row"]:
    """Whether there is room for the name of each row: of two that are close to each other, the higher one has it."""
    named = np.zeros(len(middles), bool)
    for row in np.argsort(-heights, kind="stable"):
        named[row] = not named.any() or np.abs(middles[named] - middles[row]).min() >= MIN_NAME_DISTANCE
    return named


def _label_rows_and_columns(ax: Axes, variants: list[str], groups: Table, edges: np.ndarray) -> None:
    middles = (edges[:-1] + edges[1:]) / 2
    labelled = _named_rows(middles, np.diff(edges))
    names = [_shorten(row.layer) + (f" and {row.layers - 1} equal" if row.layers > 1 else "") for row in groups.itertuples()]
    ax.set_yticks(middles[labelled], labels=np.array(names)[labelled], fontsize=6.5)
    ax.set_xticks(np.arange(len(variants)) + 0.5, labels=variants, rotation=40, ha="right", rotation_mode="anchor", fontsize=7)
    ax.set_ylim(1, -0.06)
    ax.grid(visible=False)
    ax.spines[["bottom", "left"]].set_visible(False)
    ax.tick_params(length=0)
