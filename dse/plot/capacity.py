"""Where on-chip capacity changes a speedup: each network, at each capacity, against the most capacity of the sweep.

A cell holds the range over batches and network states of the speedup there over the speedup with the most capacity, where bytes mostly
are the compulsory ones. 1 means that a model without on-chip memory says the same; the colour is the largest factor between them.
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
from dse.plot.style import Rows
from dse.sweeping import provenance


def figure(dataset: xr.Dataset, **_: Any) -> tuple[Figure, pd.DataFrame]:
    """A panel for each accelerator, a row for each network that has a pruned state. Raises InputError without an axis of capacities."""
    axes = [str(dim) for dim in dataset.dims if str(dim).endswith(".capacity") and dataset.sizes[dim] > 1]
    if len(axes) != 1 or "speedup" not in dataset:
        raise InputError("the dataset has no speedup over one axis of capacities", "sweep one, as 'memory.l2.capacity: [1 MB, 40 MB]'")
    (axis,) = axes
    chosen, remark = style.one_design(dataset, axis)
    rows: Rows = _ranges(chosen, axis)
    if rows.empty:
        raise InputError("no network of the dataset is pruned", "list a method or a pattern")
    accelerators = list(rows.accelerator.unique())
    drawn, panels = style.panels([""], accelerators, width=5.6, height=max(0.6 + 0.33 * rows.workload.nunique(), 2.1), sharey=True)
    norm = LogNorm(1, max(rows.factor.max(), 1.01))
    mesh: Any = None
    for name, ax in zip(accelerators, panels[0], strict=True):
        mesh = draw(ax, rows[rows.accelerator == name], norm)
        ax.set_title(name, fontsize=9)
        ax.set_xlabel(axis, fontsize=9)
    bar = drawn.colorbar(mesh, ax=panels, pad=0.01, fraction=0.03)
    bar.set_label("most that speedups differ", fontsize=8)
    ticks = [tick for tick in (1, 1.2, 1.5, 2, 3, 4, 6, 8) if tick <= norm.vmax]  # type: ignore[operator]
    bar.set_ticks(ticks, labels=[f"{tick:g}x" for tick in ticks], fontsize=8)
    bar.minorticks_off()
    spec = provenance.specification(dataset)
    batches = f"batch {', '.join(map(str, np.atleast_1d(dataset.batch.values)))}"
    model = f"{batches}; fidelity {spec.model.fidelity}, fusion {spec.model.fusion}, activations {spec.model.activations}"
    style.finish(drawn, panels, dataset, "speedup over that with the most capacity, least to most over batches and states", model, remark)
    return drawn, rows


def _ranges(dataset: xr.Dataset, axis: str) -> pd.DataFrame:
    """For each accelerator, network and capacity: the range of the ratio, and the batch and state where it is farthest from 1."""
    ratio = dataset.speedup / dataset.speedup.isel({axis: int(np.argmax(dataset[axis].to_numpy()))})
    table: Rows = ratio.rename("ratio").to_dataframe().reset_index()
    table = table[table.method != "dense"].assign(factor=lambda rows: np.exp(np.abs(np.log(rows.ratio))))
    keys = ["accelerator", "workload", axis]
    farthest = table.sort_values("factor", ascending=False, kind="stable").drop_duplicates(keys)
    found = farthest.merge(table.groupby(keys).ratio.agg(low="min", high="max").reset_index(), on=keys)
    wanted = [*keys, "low", "high", "factor", "batch", "dtype", "method", "pattern", "sparsity"]
    return found[wanted].sort_values(keys).reset_index(drop=True)


def draw(ax: Axes, rows: Rows, norm: LogNorm) -> Any:
    """One panel from rows with workload, a capacity, low, high and factor."""
    axis = next(column for column in rows.columns if column.endswith(".capacity"))
    grid = rows.pivot(index="workload", columns=axis, values="factor")
    mesh = ax.pcolormesh(
        np.arange(grid.shape[1] + 1), np.arange(grid.shape[0] + 1), grid.to_numpy(), norm=norm, cmap="viridis_r", linewidth=0
    )
    places = {(name, size): (x + 0.5, y + 0.5) for y, name in enumerate(grid.index) for x, size in enumerate(grid.columns)}
    for row in rows.to_dict("records"):
        text = "1" if row["factor"] < 1.005 else f"{row['low']:.2f} - {row['high']:.2f}"
        colour = "white" if norm(row["factor"]) > 0.55 else "black"
        ax.text(*places[row["workload"], row[axis]], text, ha="center", va="center", fontsize=6.5, color=colour)
    ax.set_xticks(np.arange(grid.shape[1]) + 0.5, labels=[_size(size) for size in grid.columns], fontsize=7)
    ax.set_yticks(np.arange(grid.shape[0]) + 0.5, labels=list(grid.index), fontsize=7)
    ax.set_ylim(grid.shape[0], 0)
    ax.grid(visible=False)
    ax.spines[["bottom", "left"]].set_visible(False)
    ax.tick_params(length=0)
    return mesh


def _size(size: float) -> str:
    """16384 as '16 KiB', 4e7 as '40 MB'."""
    for names, step in ((("B", "KiB", "MiB", "GiB", "TiB"), 1024), (("B", "kB", "MB", "GB", "TB"), 1000)):
        power = int(np.log(size * (1 + 1e-12)) / np.log(step))
        if float(size) % step**power == 0 or step == 1000:
            return f"{size / step**power:.4g} {names[power]}"
    raise AssertionError
