"""What unequal kernels do to a speedup: over E_sparse / E_dense, with what measured kernels reach marked.

A panel for each swept efficiency of a run, a curve for each network state that runs so. Where memory sets the time a curve is flat:
there it does not matter how well kernels are made.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.errors import InputError
from dse.calibrate import ratios
from dse.plot import style
from dse.plot.selection import Table, select_design
from dse.sparsity.kinds import NM, UNSTRUCTURED
from dse.sparsity.pattern import Pattern
from dse.sweeping import provenance
from dse.sweeping.plan import Plan

ENDING = ".efficiency"
LEFT = 0.1  # further left there is no room for a name


def efficiencies(dataset: xr.Dataset) -> list[str]:
    return [str(dim) for dim in dataset.dims if str(dim).endswith(ENDING) and dataset.sizes[dim] > 1]


def figure(dataset: xr.Dataset, **_: Any) -> tuple[Figure, pd.DataFrame]:
    """Panels of accelerator by run. Raises InputError without an axis of efficiencies."""
    axes = efficiencies(dataset)
    if not axes or "speedup" not in dataset:
        fix = "sweep one under fidelity r3, as 'units.tensor_core.runs.sparse_24.efficiency: [0.5, 1]'"
        raise InputError("the dataset has no speedup over an efficiency", fix)
    chosen, remark = select_design(dataset, *axes)
    plan = provenance.rebuild_plan(dataset)
    names = [f"{v.workload}, {style.variant_label(v).removeprefix('hypothetical ')}" for v in plan.variants]
    rows: Table = _curves(chosen, axes, names, _takes(plan, axes))
    devices = [accelerator for accelerator in plan.accelerators if accelerator.name in set(rows.accelerator)]
    titles = [axis.removeprefix("units.").removesuffix(ENDING).replace(".runs.", ".") for axis in axes]
    drawn, panels = style.create_panels([device.name for device in devices], titles, width=4.2, height=3.4)
    looks = {s: {"color": style.COLOURS[n % 7], "linestyle": style.LINES[n // 7 % 3]} for n, s in enumerate(dict.fromkeys(rows.state))}
    panels[0, 0].set_ylim(0, 1.35 * max(rows.speedup.max(), 1.0))  # room for what is measured
    for device, line in zip(devices, panels, strict=True):
        for axis, ax in zip(axes, line, strict=True):
            _draw(ax, rows[(rows.accelerator == device.name) & (rows.axis == axis)], looks)
            _mark(ax, device.at(axis.removesuffix(ENDING)).pattern)
    style.label_edges(panels, "E sparse / E dense, with E dense = 1", "speedup over dense")
    note = "grey: what measured kernels reach, mean and nine tenths of their launches"
    style.add_legend(drawn, panels.flat, f"fidelity: {plan.spec.model.fidelity}", note, remark, style.unverified_note(dataset))
    return drawn, rows


def _takes(plan: Plan, axes: Sequence[str]) -> xr.DataArray:
    """Whether the run of each axis takes each state [axis, accelerator, variant]."""
    runs = [[device.at(axis.removesuffix(ENDING)).pattern for device in plan.accelerators] for axis in axes]
    taken = [[[run.storage_pattern_for(state.pattern) is not None for state in plan.variants] for run in each] for each in runs]
    return xr.DataArray(taken, dims=("axis", "accelerator", "variant"))


def _curves(dataset: xr.Dataset, axes: Sequence[str], names: Sequence[str], takes: xr.DataArray) -> pd.DataFrame:
    """Speedups along each axis, the others at their least; a state is one of the run that brings it most, of those that take it."""
    along = {
        axis: dataset.speedup.isel({other: int(np.argmin(dataset[other].to_numpy())) for other in axes if other != axis}) for axis in axes
    }
    best = (
        xr.concat([curve.max(axis) for axis, curve in along.items()], "axis", coords="minimal", compat="override")
        .where(takes, 0)
        .argmax("axis")
    )
    found = []
    for number, (axis, curve) in enumerate(along.items()):
        table = curve.where(best == number).rename("speedup").to_dataframe().reset_index().dropna(subset="speedup")
        table = table.assign(axis=axis, ratio=table[axis], state=[names[variant] for variant in table.variant])
        found.append(
            table[["accelerator", "axis", "state", "batch", "dtype", "workload", "method", "pattern", "sparsity", "ratio", "speedup"]]
        )
    return pd.concat(found, ignore_index=True)


def _draw(ax: Axes, rows: Table, looks: dict[str, Any]) -> None:
    for (state, batch), curve in rows.groupby(["state", "batch"], sort=False):
        label = f"{state}, batch {batch}" if rows.batch.nunique() > 1 else state
        ax.plot(curve.ratio, curve.speedup, linewidth=1.4, label=label, **looks[state])
    ax.axhline(1.0, color=style.GREY, linewidth=0.8)
    ax.set_xscale("log")
    ticks = [0.05, 0.1, 0.2, 0.5, 1]
    ax.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


def _mark(ax: Axes, pattern: Pattern) -> None:
    """The measured kernels of a run's kind, one below the other; heights mean nothing."""
    kernels = [found for found in ratios.shipped() if _kind(pattern) in found.kernel.family and found.launches > 1]
    for number, found in enumerate(sorted(kernels, key=lambda one: one.mean)):
        y = 0.97 - 0.045 * number
        place = {"transform": ax.get_xaxis_transform(), "color": style.GREY}
        ax.plot([found.low, found.high], [y, y], linewidth=1, **place)
        ax.plot([found.mean], [y], marker="|", markersize=6, **place)
        name = f"{found.kernel.kernel}, {found.kernel.device.partition('-')[0]}"
        if found.kernel.family.startswith("block"):
            name = f"{found.kernel.family.removeprefix('block:')} {name}"
        x, side = (0.92 * found.low, "right") if found.low > LEFT else (1.08 * found.high, "left")
        ax.text(x, y, name, transform=ax.get_xaxis_transform(), fontsize=6, ha=side, va="center", color=style.GREY)


def _kind(pattern: Pattern) -> str:
    """What the families of kernels have in their name that run such a pattern: N:4, CSR, or blocks of any size."""
    return f"*:{pattern.m}" if isinstance(pattern, NM) else "unstructured" if pattern == UNSTRUCTURED else "block"
