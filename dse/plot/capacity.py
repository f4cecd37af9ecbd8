"""Where on-chip capacity changes a speedup: each network at each capacity, relative to the largest capacity of the sweep.

A cell shows the range of that ratio over batch sizes and variants; its colour is the ratio that is farthest from 1. At the largest
capacity traffic is mostly compulsory, so 1 means that a model without on-chip memory gives the same speedup.
"""

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from dse.base.display_units import format_quantity
from dse.plot import style
from dse.plot.selection import Table, select_design
from dse.sweeping import provenance

TICKS, FINE_TICKS = (1, 1.2, 1.5, 2, 3, 4, 6, 8), (1, 1.02, 1.05, 1.1, 1.2)
WIDTH, NAME_WIDTH = 5.6, 1.8  # inches, of a panel and of the names of networks in it
MAX_NAME = 28  # characters on a line


def draw_figure(dataset: xr.Dataset) -> tuple[Figure, pd.DataFrame]:
    """A panel for each accelerator, a row for each network with a pruned variant, a column for each capacity."""
    (axis,) = (str(dim) for dim, size in dataset.sizes.items() if str(dim).endswith(".capacity") and size > 1)
    selected, note = select_design(dataset, axis)
    rows: Table = _ratio_table(selected, axis)
    accelerators = list(rows.accelerator.unique())
    height = max(0.6 + 0.33 * rows.workload.nunique(), 2.1)
    figure, axes = style.create_panels([""], accelerators, width=WIDTH, height=height, label_width=NAME_WIDTH)
    norm = LogNorm(1, max(rows.factor.max(), 1.01))
    meshes = [draw_panel(ax, rows[rows.accelerator == name], norm) for name, ax in zip(accelerators, axes[0], strict=True)]
    style.label_edges(axes, axis, "")
    _add_colour_bar(figure, axes, meshes[-1], norm)
    spec = provenance.read_spec(dataset)
    batches = f"batch {', '.join(map(str, np.atleast_1d(dataset.batch.values)))}"
    model = f"{batches}; fidelity: {spec.model.fidelity}, fusion: {spec.model.fusion}, activations: {spec.model.activations}"
    cells = "speedup relative to that at the largest capacity, minimum - maximum over batch sizes and variants"
    style.add_legend(figure, axes.flat, cells, model, note, style.unverified_note(dataset))
    return figure, rows


def _ratio_table(dataset: xr.Dataset, axis: str) -> pd.DataFrame:
    """For each accelerator, network and capacity: the range of the ratio, and the batch size and variant where it is farthest from 1."""
    ratio = dataset.speedup / dataset.speedup.isel({axis: int(np.argmax(dataset[axis].to_numpy()))})
    table: Table = ratio.rename("ratio").to_dataframe().reset_index()
    table = table[table.method != "dense"].assign(factor=lambda rows: np.exp(np.abs(np.log(rows.ratio))))
    keys = ["accelerator", "workload", axis]
    extremes = table.sort_values("factor", ascending=False, kind="stable").drop_duplicates(keys)
    ranges = table.groupby(keys).ratio.agg(low="min", high="max").reset_index()
    columns = [*keys, "low", "high", "factor", "batch", "dtype", "method", "pattern", "sparsity"]
    return extremes.merge(ranges, on=keys)[columns].sort_values(keys).reset_index(drop=True)


def _add_colour_bar(figure: Figure, axes: style.AxesGrid, mesh: QuadMesh, norm: LogNorm) -> None:
    bar = figure.colorbar(mesh, ax=axes, pad=0.01, fraction=0.03)
    bar.set_label("largest change of a speedup", fontsize=8)
    largest = norm.vmax or 1.0
    ticks = [tick for tick in (TICKS if largest > FINE_TICKS[-1] else FINE_TICKS) if tick <= largest]
    bar.set_ticks(ticks, labels=[f"{tick:g}x" for tick in ticks], fontsize=8)
    bar.minorticks_off()


def draw_panel(ax: Axes, rows: Table, norm: LogNorm) -> QuadMesh:
    """Draw one panel from rows with workload, a capacity, low, high and factor; returns the colour mesh."""
    axis = next(column for column in rows.columns if column.endswith(".capacity"))
    grid = rows.pivot(index="workload", columns=axis, values="factor")
    edges = np.arange(grid.shape[1] + 1), np.arange(grid.shape[0] + 1)
    mesh = ax.pcolormesh(*edges, grid.to_numpy(), norm=norm, cmap="viridis_r", linewidth=0)
    centres = {(name, size): (x + 0.5, y + 0.5) for y, name in enumerate(grid.index) for x, size in enumerate(grid.columns)}
    for row in rows.to_dict("records"):
        text = "1" if row["factor"] < 1.005 else f"{row['low']:.2f} - {row['high']:.2f}"
        colour = "white" if norm(row["factor"]) > 0.55 else "black"
        ax.text(*centres[row["workload"], row[axis]], text, ha="center", va="center", fontsize=6.5, color=colour)
    ax.set_xticks(np.arange(grid.shape[1]) + 0.5, labels=[format_quantity(size, "B") for size in grid.columns], fontsize=7)
    ax.set_yticks(np.arange(grid.shape[0]) + 0.5, labels=[style.wrap_name(name, MAX_NAME) for name in grid.index], fontsize=7)
    ax.set_ylim(grid.shape[0], 0)
    ax.grid(visible=False)
    ax.spines[["bottom", "left"]].set_visible(False)
    ax.tick_params(length=0)
    return mesh
