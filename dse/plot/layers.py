"""Where each layer's gain ends: speedup of every layer under every network state, and which of them are bound by memory.

A row is a layer, or all that are alike, as high as its share of the dense network's time; a column is a network state. So what the
whole network gains can be seen from the areas, and where a column brings little more, the marks say why: those layers move bytes.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from dse.base.errors import InputError
from dse.plot import style
from dse.plot.states import designs_of, dtype_of, layers_of, state_name
from dse.plot.style import Rows
from dse.sweeping import provenance
from dse.sweeping.plan import MAX_VARIANTS_IN_LAYERS_PLOT

LABELLED = 0.025  # of the height: lower rows have no room for a text


def figure(dataset: xr.Dataset, batch: int | None = None, **_: Any) -> tuple[Figure, pd.DataFrame]:
    """Panels of accelerator by workload, at one batch size (default: the middle one) and one dtype."""
    plan = provenance.plan_of(dataset)
    batches = [int(size) for size in np.atleast_1d(dataset.batch.values)]
    batch, dtype = batch or batches[len(batches) // 2], dtype_of(dataset, plan)
    numbers = [int(number) for number in np.atleast_1d(dataset.variant.values)]
    if len(numbers) > MAX_VARIANTS_IN_LAYERS_PLOT:
        what = f"{len(numbers)} network states are too many for one figure of layers"
        raise InputError(
            what, f"select at most {MAX_VARIANTS_IN_LAYERS_PLOT}, as in dataset.isel(variant=slice({MAX_VARIANTS_IN_LAYERS_PLOT}))"
        )
    states = [plan.variants[number] for number in numbers]
    workloads, designs = list(dict.fromkeys(state.workload for state in states)), designs_of(dataset, plan)
    parts = [_gains(design, plan.variants[number], plan, batch, dtype).assign(variant=number) for design in designs for number in numbers]
    rows: Rows = pd.concat(parts, ignore_index=True)
    mesh: Any = None
    drawn, axes = style.panels([design.name for design in designs], workloads, width=5.6, height=4.4, sharex="col", sharey=False)
    norm = LogNorm(min(rows.speedup.min(), 0.99), max(rows.speedup.max(), 1.01))
    for design, line in zip(designs, axes, strict=True):
        for workload, ax in zip(workloads, line, strict=True):
            mesh = draw(ax, rows[(rows.accelerator == design.name) & (rows.workload == workload)], norm)
    bar = drawn.colorbar(mesh, ax=axes, pad=0.01, fraction=0.03)
    bar.set_label("speedup of the layer over dense", fontsize=8)
    ticks = [tick for tick in (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32) if norm.vmin <= tick <= norm.vmax]  # type: ignore[operator]
    bar.set_ticks(ticks, labels=[f"{tick:g}x" for tick in ticks], fontsize=8)
    bar.minorticks_off()
    model = f"batch {batch}, {dtype.label}, fidelity {plan.spec.model.fidelity}"
    style.finish(drawn, axes, dataset, model, "height: the layer's share of the dense network's time", style.one_design(dataset)[1])
    return drawn, rows


def _gains(design: Any, state: Any, plan: Any, batch: int, dtype: Any) -> Rows:
    """Each layer's speedup over its dense state."""
    sparse, dense = (layers_of(design, each, batch, dtype, plan) for each in (state, plan.dense_variants[state.workload]))
    return sparse.assign(
        workload=state.workload, state=state_name(state).removeprefix("hypothetical "), dense_latency=dense.latency,
        share=dense.latency / dense.latency.sum(), speedup=(dense.latency / sparse.latency).where(dense.latency > 0, 1.0),
        memory=sparse.bound.isin(list(design.memory)),
    )  # fmt: skip


def _together(rows: Rows, variants: list[int]) -> Rows:
    """Layers that every variant treats alike as one, named after the first of them; the longest first."""
    figures = [rows[rows.variant == number].reset_index() for number in variants]
    alike = pd.concat([part[["speedup", "memory"]].round(6) for part in figures], axis=1).T.reset_index(drop=True).T
    group = alike.assign(length=(figures[0].share / figures[0]["count"]).round(12)).groupby([*alike.columns, "length"], sort=False).ngroup()
    merged = []
    for part in figures:
        part = part.assign(group=group)
        sums = {name: (name, "sum") for name in ("share", "latency", "dense_latency")}
        firsts = {name: (name, "first") for name in ("layer", "variant", "state", "speedup", "memory")}
        row = part.groupby("group").agg(**sums, **firsts, alike=("layer", "size"))
        merged.append(row.sort_values("share", ascending=False, kind="stable"))
    return pd.concat(merged)


def draw(ax: Axes, rows: Rows, norm: LogNorm) -> Any:
    """One panel from rows with variant, layer, state, share, speedup, memory and latencies: a column for each variant, above it the
    speedup of the network."""
    variants = list(dict.fromkeys(rows.variant))
    rows = _together(rows, variants)
    first = rows[rows.variant == variants[0]]
    edges = np.concatenate([[0.0], first.share.cumsum()])
    grid = np.stack([rows[rows.variant == number].speedup for number in variants], axis=1)
    mesh = ax.pcolormesh(np.arange(len(variants) + 1), edges, grid, norm=norm, cmap="viridis", linewidth=0)
    ax.hlines(edges[np.concatenate([[True], first.share >= LABELLED])], 0, len(variants), color="white", linewidth=0.8)
    for column, number in enumerate(variants):
        here = rows[rows.variant == number]
        for top, bottom, row in zip(edges[:-1], edges[1:], here.itertuples(), strict=True):
            _mark(ax, column, (top + bottom) / 2, bottom - top, row, norm)
        whole = here.dense_latency.sum() / here.latency.sum()
        ax.text(column + 0.5, -0.015, f"{whole:.2f}x", ha="center", va="bottom", fontsize=7, fontweight="bold")
    ax.plot([], [], linestyle="none", marker="o", color="black", markersize=4, label="bound by memory")
    _label(ax, [rows[rows.variant == number].state.iloc[0] for number in variants], first, edges)
    return mesh


def _mark(ax: Axes, column: int, middle: float, height: float, row: Any, norm: LogNorm) -> None:
    if height < LABELLED:
        return
    colour = "black" if norm(row.speedup) > 0.6 else "white"
    ax.text(column + 0.42, middle, f"{row.speedup:.2g}", ha="center", va="center", fontsize=6.5, color=colour)
    if row.memory:
        ax.plot([column + 0.75], [middle], marker="o", markersize=3, color=colour)


def _label(ax: Axes, states: list[str], layers: Rows, edges: np.ndarray) -> None:
    middles, tall = (edges[:-1] + edges[1:]) / 2, np.diff(edges) >= LABELLED
    names = [row.layer if row.alike == 1 else f"{row.layer}\nand {row.alike - 1} alike" for row in layers.itertuples()]
    ax.set_yticks(middles[tall], labels=np.array(names)[tall], fontsize=6.5)
    ax.set_xticks(np.arange(len(states)) + 0.5, labels=states, rotation=40, ha="right", fontsize=7)
    ax.set_ylim(1, -0.06)
    ax.grid(visible=False)
    ax.spines[["bottom", "left"]].set_visible(False)
    ax.tick_params(length=0)
