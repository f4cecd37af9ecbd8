"""Speedup over the ratio E_sparse / E_dense, with the ratios of measured kernels marked.

A panel for each accelerator and run whose efficiency is swept, a curve for each variant that the run executes. A curve is flat where
memory limits the latency: there the efficiency of the kernel does not matter.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.errors import InputError
from dse.calibrate.efficiency_ratios import EfficiencyRatio, shipped_ratios
from dse.model.stored_weights import can_execute
from dse.plot import style
from dse.plot.selection import Table, select_design
from dse.sparsity.kinds import NM, UNSTRUCTURED
from dse.sparsity.pattern import Pattern
from dse.sweeping import provenance
from dse.sweeping.plan import Plan

EFFICIENCY_SUFFIX = ".efficiency"
MIN_LABEL_POSITION = 0.1  # below this ratio there is no space for a name on the left
TICKS = [0.05, 0.1, 0.2, 0.5, 1]
COLUMNS = ["accelerator", "axis", "state", "batch", "dtype", "workload", "method", "pattern", "sparsity", "ratio", "speedup"]


def efficiency_axes(dataset: xr.Dataset) -> list[str]:
    """The dimensions that are efficiencies with more than one value."""
    return [str(dim) for dim in dataset.dims if str(dim).endswith(EFFICIENCY_SUFFIX) and dataset.sizes[dim] > 1]


def draw_figure(dataset: xr.Dataset) -> tuple[Figure, pd.DataFrame]:
    """Draw panels of accelerator by run; returns the figure and its table. Raises InputError without a swept efficiency."""
    axes = efficiency_axes(dataset)
    if not axes or "speedup" not in dataset:
        fix = "sweep one under fidelity r3, as 'units.tensor_core.runs.sparse_24.efficiency: [0.5, 1]'"
        raise InputError("the dataset has no speedup over an efficiency", fix)
    design, selection_note = select_design(dataset, *axes)
    plan = provenance.rebuild_plan(dataset)
    names = [f"{v.workload}, {style.variant_label(v).removeprefix('hypothetical ')}" for v in plan.variants]
    rows: Table = _tabulate(design, axes, names, _executable_variants(plan, axes))
    devices = [accelerator for accelerator in plan.accelerators if accelerator.name in set(rows.accelerator)]
    titles = [axis.removeprefix("units.").removesuffix(EFFICIENCY_SUFFIX).replace(".runs.", ".") for axis in axes]
    figure, panels = style.create_panels([device.name for device in devices], titles, width=4.2, height=3.4)
    curves: Table = style.merge_equal_curves(rows, "state", ["accelerator", "axis", "batch", "dtype", "ratio"], "speedup")
    looks = {state: style.numbered_style(number) | {"marker": ""} for number, state in enumerate(dict.fromkeys(curves.state))}
    panels[0, 0].set_ylim(0, 1.35 * max(rows.speedup.max(), 1.0))  # with space for the measured kernels above
    for device, panel_row in zip(devices, panels, strict=True):
        for axis, ax in zip(axes, panel_row, strict=True):
            _draw_curves(ax, curves[(curves.accelerator == device.name) & (curves.axis == axis)], looks)
            _mark_measured_kernels(ax, device.at(axis.removesuffix(EFFICIENCY_SUFFIX)).pattern)
    style.label_edges(panels, "E sparse / E dense, with E dense = 1", "speedup over dense")
    note = "grey: measured kernels, mean and 90% of their launches"
    style.add_legend(figure, panels.flat, f"fidelity: {plan.spec.model.fidelity}", note, selection_note, style.unverified_note(dataset))
    return figure, rows


def _executable_variants(plan: Plan, axes: Sequence[str]) -> xr.DataArray:
    """Whether the run of each axis can execute each variant [axis, accelerator, variant]."""
    runs = [[device.at(axis.removesuffix(EFFICIENCY_SUFFIX)) for device in plan.accelerators] for axis in axes]
    executable = [[[can_execute(run, variant.pattern) for variant in plan.variants] for run in row] for row in runs]
    return xr.DataArray(executable, dims=("axis", "accelerator", "variant"))


def _tabulate(dataset: xr.Dataset, axes: Sequence[str], names: Sequence[str], executable: xr.DataArray) -> pd.DataFrame:
    """Speedups along each axis with the others at their least; a variant is on the axis of the run that can speed it up most."""
    least = {axis: int(np.argmin(dataset[axis].to_numpy())) for axis in axes}
    curves = {axis: dataset.speedup.isel({other: index for other, index in least.items() if other != axis}) for axis in axes}
    highest = xr.concat([curve.max(axis) for axis, curve in curves.items()], "axis", coords="minimal", compat="override")
    best_axis = highest.where(executable, 0).argmax("axis")
    tables = []
    for number, (axis, curve) in enumerate(curves.items()):
        table = curve.where(best_axis == number).rename("speedup").to_dataframe().reset_index().dropna(subset="speedup")
        tables.append(table.assign(axis=axis, ratio=table[axis], state=[names[variant] for variant in table.variant])[COLUMNS])
    return pd.concat(tables, ignore_index=True)


def _draw_curves(ax: Axes, rows: Table, looks: Mapping[str, style.CurveStyle]) -> None:
    for (state, batch), curve in rows.groupby(["state", "batch"], sort=False):
        label = f"{state}, batch {batch}" if rows.batch.nunique() > 1 else state
        ax.plot(curve.ratio, curve.speedup, linewidth=1.4, label=label, **looks[state])
    ax.axhline(1.0, color=style.GREY, linewidth=0.8)
    ax.set_xscale("log")
    ax.set_xticks(TICKS, labels=[f"{tick:g}" for tick in TICKS])
    ax.minorticks_off()


def _mark_measured_kernels(ax: Axes, pattern: Pattern) -> None:
    """Mark the measured kernels of a pattern one below the other at the top; their heights have no meaning."""
    ratios = [ratio for ratio in shipped_ratios() if _family_part(pattern) in ratio.kernel.family and ratio.launches > 1]
    for number, ratio in enumerate(sorted(ratios, key=lambda ratio: ratio.mean)):
        y = 0.97 - 0.045 * number
        place = {"transform": ax.get_xaxis_transform(), "color": style.GREY}
        ax.plot([ratio.low, ratio.high], [y, y], linewidth=1, **place)
        ax.plot([ratio.mean], [y], marker="|", markersize=6, **place)
        x, side = (0.92 * ratio.low, "right") if ratio.low > MIN_LABEL_POSITION else (1.08 * ratio.high, "left")
        ax.text(x, y, _kernel_label(ratio), transform=ax.get_xaxis_transform(), fontsize=6, ha=side, va="center", color=style.GREY)


def _kernel_label(ratio: EfficiencyRatio) -> str:
    kernel = ratio.kernel
    name = f"{kernel.kernel}, {kernel.device.partition('-')[0]}"
    return f"{kernel.family.removeprefix('block:')} {name}" if kernel.family.startswith("block") else name


def _family_part(pattern: Pattern) -> str:
    """Part of the family of the kernels that run a pattern: `*:M`, `unstructured`, or `block` for blocks of any size."""
    return f"*:{pattern.m}" if isinstance(pattern, NM) else "unstructured" if pattern == UNSTRUCTURED else "block"
