"""Classical roofline, log-log: performance against operational intensity, one marker for each layer.

FLOPs are counted as in the dense network, skipped ones included (dense-equivalent). So a unit that runs 2:4 at gain 2 has a roof of
twice its dense peak, and a layer's step up from the dense to the pruned panel is its speedup. A run without a gain cap has the
roof peak / density of the variant drawn. The area of a marker is the layer's share of the network's latency.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.display_units import DisplayUnit, format_number, format_quantity
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.model.executions import Execution, list_executions
from dse.model.stored_weights import gathered_pattern
from dse.plot import style
from dse.plot.labels import HALO
from dse.plot.selection import Table, first_dtype, layer_table, middle_batch, select_design, selected_accelerators, variant_indices
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import Fidelity
from dse.sparsity.kinds import VNM_COLUMNS
from dse.sweeping import provenance
from dse.sweeping.accuracy_losses import accuracy_drop
from dse.sweeping.plan import Plan
from dse.workload import Variant
from dse.workload.accuracy import ROUNDING_TOLERANCE

LEFT, RIGHT = 1e-2, 1e7  # FLOP/B: lines are drawn beyond the frame
MERGED_DIGITS = 3  # of the natural logarithm: points within 0.1% are drawn as one
UNUSED_GREY = "#a8a8a8"
CHARACTER_WIDTH = 3.2  # points, of a label at 6 points


@dataclass(frozen=True)
class Roof:
    """The performance that a unit cannot exceed in some mode: a precision, with or without a sparsity pattern."""

    unit: str
    precision: str
    pattern: str  # empty for the dense peak
    flops_per_s: float  # dense-equivalent
    used: bool  # by a layer of the panel

    @property
    def mode(self) -> str:
        return f"{self.precision} {self.pattern}".strip()


def draw_figure(dataset: xr.Dataset, batch: int | None = None, variant: int | None = None) -> tuple[Figure, pd.DataFrame]:
    """Panels of accelerator by variant: dense, and one pruned variant (an index; default: `select_variant`).

    `batch` defaults to the middle one; the dtype is the first. Raises InputError if no layer of the network has FLOPs.
    """
    plan = provenance.rebuild_plan(dataset)
    batch, dtype = batch or middle_batch(dataset), first_dtype(dataset, plan)
    pruned = plan.variants[select_variant(dataset, plan) if variant is None else variant]
    variants = [plan.dense_variants[pruned.workload], pruned]
    if not pruned.layers.has_flops.any():
        raise InputError(f"'{pruned.workload}' has no layer with FLOPs", "draw 'speedup' instead, which needs none")
    accelerators = selected_accelerators(dataset, plan)
    tables = [_layer_table(accelerator, each, batch, dtype, plan) for accelerator in accelerators for each in variants]
    rows: Table = pd.concat(tables, ignore_index=True)
    columns, bounds = ["dense", style.variant_label(pruned)], sorted(rows[rows.dense_flops > 0].bound.unique())
    figure, axes = style.create_panels([accelerator.name for accelerator in accelerators], columns, width=5.4, height=3.9)
    panels: list[tuple[Axes, Accelerator, list[Roof]]] = []
    for accelerator, line in zip(accelerators, axes, strict=True):
        for each, ax in zip(variants, line, strict=True):
            layers = rows[(rows.accelerator == accelerator.name) & (rows.state == str(each))]
            panels.append((ax, accelerator, list_roofs(accelerator, each, layers, dtype, plan.spec.model.fidelity)))
            draw_panel(ax, layers, panels[-1][2], outermost_bandwidth(accelerator), bounds)
    _limit_axes(axes[0, 0], rows[rows.dense_flops > 0], panels)
    style.label_edges(axes, "operational intensity [FLOP/B]", "dense-equivalent performance [TFLOP/s]")
    model = f"{pruned.workload}, batch {batch}, {dtype.label}, fidelity: {plan.spec.model.fidelity}"
    area = "marker area: share of the network's latency, of layers at one point together"
    style.add_legend(figure, axes.flat, model, area, select_design(dataset)[1], style.unverified_note(dataset))
    for ax, accelerator, roofs in panels:
        _label_bandwidth(ax, accelerator.outermost, outermost_bandwidth(accelerator))
        _label_roofs(ax, roofs, outermost_bandwidth(accelerator))
    return figure, rows


def select_variant(dataset: xr.Dataset, plan: Plan) -> int:
    """Index of the variant to draw.

    The hypothetical one on which the accelerators differ most (on a single accelerator: the fastest), else the sparsest one within
    the accuracy drop of the specification, else the first.
    """
    indices = variant_indices(dataset)
    if len(indices) == 1:
        return indices[0]
    hypothetical = [index for index in indices if plan.variants[index].method == "hypothetical"]
    if hypothetical and "speedup" in dataset:
        speedup = select_design(dataset)[0].speedup.mean(["batch", "dtype"])
        merit = speedup.max("accelerator") - speedup.min("accelerator") if speedup.sizes["accelerator"] > 1 else speedup[0]
        return max(hypothetical, key=lambda index: float(merit.sel(variant=index)))
    is_feasible = accuracy_drop(dataset) <= plan.spec.accuracy_drop + ROUNDING_TOLERANCE
    feasible = [index for index in indices if bool(is_feasible.sel(variant=index))]
    return max(feasible, key=lambda index: plan.variants[index].sparsity, default=indices[0])


def _layer_table(accelerator: Accelerator, variant: Variant, batch: int, dtype: OperandDtypes, plan: Plan) -> Table:
    rows = layer_table(accelerator, variant, batch, dtype, plan)
    return rows.assign(
        intensity=rows.dense_flops / rows.bytes, performance=rows.dense_flops / rows.latency, share=rows.latency / rows.latency.sum()
    )


def outermost_bandwidth(accelerator: Accelerator) -> float:
    """Bandwidth of the outermost memory [B/s]."""
    return float(accelerator.value(f"memory.{accelerator.outermost}.bandwidth"))


def list_roofs(accelerator: Accelerator, variant: Variant, rows: Table, dtype: OperandDtypes, fidelity: Fidelity) -> list[Roof]:
    """Roofs of every unit and capped sparse run in the dtype, and of each uncapped run that the variant uses."""
    roofs = []
    for execution in list_executions(accelerator, dtype, fidelity):
        layers = rows[rows.execution == execution.name]
        if len(layers) or not execution.is_sparse or (execution.capped_rate and not execution.is_expanded):
            roofs.append(_run_roof(accelerator, variant, execution, layers, dtype))
    return _merge_equal_roofs(roofs)


def _run_roof(accelerator: Accelerator, variant: Variant, execution: Execution, layers: Table, dtype: OperandDtypes) -> Roof:
    """The roof of one run for the layers that it executes.

    An uncapped or expanded sparse run is as high as its layers reduce the work. A run that gathers the columns of a V:N:M sees 4 of M, and
    its gain cap counts from these, so its roof is M / 4 times as high.
    """
    follows_layers = execution.is_sparse and (execution.is_expanded or not execution.capped_rate)
    reduction = layers.dense_flops.sum() / layers.flops.sum() if follows_layers else 1.0
    vnm = gathered_pattern(execution.pattern, variant.pattern) if len(layers) and not follows_layers else None
    rate = execution.stored_rate if follows_layers else execution.capped_rate or execution.stored_rate
    peak = np.prod([accelerator.value(path) for path in rate])
    pattern = str(vnm or execution.pattern) if execution.is_sparse else ""
    pattern += " expanded" if execution.is_expanded else ""
    if follows_layers:
        pattern += f" ({reduction:.3g}x)"
    height = float(reduction * (vnm.m / VNM_COLUMNS if vnm else 1.0) * peak)
    return Roof(execution.unit, dtype.compute, pattern, height, used=bool((layers.dense_flops > 0).any()))


def _merge_equal_roofs(roofs: list[Roof]) -> list[Roof]:
    """One roof, with all patterns, for those of one unit with the same height."""
    merged: dict[tuple[str, float], Roof] = {}
    for roof in roofs:
        key = (roof.unit, float(f"{roof.flops_per_s:.4g}"))
        if (same := merged.get(key)) is None:
            merged[key] = roof
        else:
            patterns = ", ".join(dict.fromkeys(each.pattern or "dense" for each in (same, roof)))
            merged[key] = replace(same, pattern=patterns, used=same.used or roof.used)
    return list(merged.values())


def draw_panel(ax: Axes, rows: Table, roofs: Sequence[Roof], bandwidth: float, bounds: Sequence[str]) -> None:
    """Draw one panel from rows with intensity, performance, share and bound; `bandwidth` in B/s, one colour for each of `bounds`."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    top = max(roof.flops_per_s for roof in roofs)
    ax.plot([LEFT, top / bandwidth], [LEFT * bandwidth, top], color="black", linewidth=1.2)
    for roof in roofs:
        ridge, colour = roof.flops_per_s / bandwidth, "black" if roof.used else UNUSED_GREY
        line = {"linewidth": 1.2, "linestyle": "-"} if roof.used else {"linewidth": 0.8, "linestyle": "--"}
        ax.plot([ridge, RIGHT], [roof.flops_per_s] * 2, color=colour, **line)
        ax.plot([ridge], [roof.flops_per_s], marker="D", markersize=3.5, color=colour)
    ax.plot([], [], marker="D", markersize=3.5, color="black", linestyle="none", label="ridge point [FLOP/B]")
    colours = {bound: style.numbered_style(number)["color"] for number, bound in enumerate(bounds)}
    of_bounds = [merge_equal_points(rows[(rows.bound == bound) & (rows.dense_flops > 0)]).assign(bound=bound) for bound in bounds]
    of_bounds.sort(key=lambda each: -each.share.sum())  # markers of the rarest bound are drawn on top, and small ones on top of large ones
    layers = pd.concat([each.sort_values("share", ascending=False) for each in of_bounds])
    look: style.CurveStyle = {"c": layers.bound.map(colours), "alpha": 0.65, "edgecolors": "white", "linewidths": 0.4, "zorder": 3}
    ax.scatter(layers.intensity, layers.performance, s=8 + 900 * layers.share, **look)
    for bound, colour in colours.items():
        ax.plot([], [], color=colour, marker="o", alpha=0.7, linestyle="none", label=f"bound by {bound.replace('_', ' ')}")


def merge_equal_points(rows: Table) -> Table:
    """One row, with the sum of their shares, for layers with the same intensity and performance, as repeated blocks have."""
    keys = [np.round(np.log(rows[name]), MERGED_DIGITS) for name in ("intensity", "performance")]
    return rows.groupby(keys, sort=False).agg({"intensity": "first", "performance": "first", "share": "sum"})


def _limit_axes(ax: Axes, rows: Table, panels: Sequence[tuple[Axes, Accelerator, list[Roof]]]) -> None:
    """Limits, which all panels share, that show every layer and ridge point, with room at the right for the labels of the roofs."""
    ridge = max(roof.flops_per_s / outermost_bandwidth(accelerator) for _, accelerator, roofs in panels for roof in roofs)
    ax.set_xlim(rows.intensity.min() / 4, max(rows.intensity.max(), ridge) * 30)
    ax.set_ylim(rows.performance.min() / 4, 2 * max(roof.flops_per_s for *_, roofs in panels for roof in roofs))
    style.set_axis_unit(ax.xaxis, "", DisplayUnit("", 1.0))
    style.set_axis_unit(ax.yaxis, "", DisplayUnit("", 1e12))


def _label_bandwidth(ax: Axes, memory: str, bandwidth: float) -> None:
    """Write the bandwidth along the slope, from the lower left corner of the frame."""
    x = 1.15 * max(ax.get_xlim()[0], ax.get_ylim()[0] / bandwidth)
    start, end = ax.transData.transform([(x, x * bandwidth), (10 * x, 10 * x * bandwidth)])
    angle = np.degrees(np.arctan2(*(end - start)[::-1]))
    text = f"{memory} {format_quantity(bandwidth, 'B/s')}"
    ax.text(
        x, 1.12 * x * bandwidth, text, fontsize=7, rotation=angle, rotation_mode="anchor", va="bottom", in_layout=False, clip_on=True
    )  # fmt: skip


def _label_roofs(ax: Axes, roofs: Sequence[Roof], bandwidth: float) -> None:
    """Label each roof at the right edge, or left of its ridge point, above the slope, where only that side has room.

    Two roofs close above each other would have overlapping labels: the lower one's is written below its line.
    """
    bottom, top = ax.get_ylim()
    ordered = sorted((roof for roof in roofs if bottom < roof.flops_per_s < top), key=lambda roof: roof.flops_per_s)
    for roof, above in zip(ordered, [*ordered[1:], None], strict=True):
        ridge = roof.flops_per_s / bandwidth
        height = format_number(roof.flops_per_s / 1e12)
        text = f"{roof.unit.replace('_', ' ')} {roof.mode}: {height} TFLOP/s, ridge {format_number(ridge, 3)}"
        is_crowded = above is not None and above.flops_per_s < 1.6 * roof.flops_per_s
        left_room, right_room = _room(ax, ridge)
        is_left = not is_crowded and right_room < CHARACTER_WIDTH * len(text) < left_room
        x, y = (ridge / 1.15, 1.0) if is_left else (ax.get_xlim()[1] / 1.05, 0.94 if is_crowded else 1.06)
        label = ax.text(
            x, roof.flops_per_s * y, text, fontsize=6, color="black" if roof.used else UNUSED_GREY, ha="right",
            va="center" if is_left else "top" if is_crowded else "bottom", in_layout=False, zorder=5,
        )  # fmt: skip
        label.set_path_effects([HALO])


def _room(ax: Axes, x: float) -> tuple[float, float]:
    """Distances from x to the left and to the right end of the axis, in points."""
    y = ax.get_ylim()[0]
    left, here, right = ax.transData.transform([(value, y) for value in (ax.get_xlim()[0], x, ax.get_xlim()[1])])[:, 0]
    points_per_pixel = 72 / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    return points_per_pixel * (here - left), points_per_pixel * (right - here)
