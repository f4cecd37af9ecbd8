"""The classical roofline, log-log: performance against operational intensity, layer by layer.

FLOPs are the dense network's, skipped ones included, so that a unit running 2:4 at gain 2 has a roof of twice
its dense peak and dense and sparse states of a layer can be compared: its way up is its speedup. A run without
a gain cap has the roof peak / density of the network state drawn. Marker area is the layer's share of the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.model.peak import executions
from dse.model.work import gathered
from dse.plot import style
from dse.plot.states import designs_of, dtype_of, layers_of, state_name
from dse.plot.style import Rows
from dse.schema.accelerator import Accelerator
from dse.sparsity.kinds import VNM_COLUMNS
from dse.sweeping import provenance
from dse.sweeping.plan import Plan
from dse.workload import Variant


@dataclass(frozen=True)
class Roof:
    """A horizontal roof: FLOP/s (dense-equivalent) that a unit cannot pass in a mode: a precision, with or without a pattern."""

    unit: str
    mode: str
    height: float
    used: bool


def figure(dataset: xr.Dataset, batch: int | None = None, variant: int | None = None) -> tuple[Figure, pd.DataFrame]:
    """Panels of accelerator by network state: dense, and one variant (by number; default: `choose`) at one batch size."""
    plan = provenance.plan_of(dataset)
    batches = [int(size) for size in np.atleast_1d(dataset.batch.values)]
    batch, dtype = batch or batches[len(batches) // 2], dtype_of(dataset, plan)
    chosen = plan.variants[choose(dataset, plan) if variant is None else variant]
    states = [plan.dense_variants[chosen.workload], chosen]
    if not chosen.layers.has_flops.any():
        raise InputError(f"'{chosen.workload}' has no layer with FLOPs", "draw 'speedup' instead")
    designs = designs_of(dataset, plan)
    rows: Rows = pd.concat([_drawn(design, state, batch, dtype, plan) for design in designs for state in states], ignore_index=True)
    columns, bounds = ["dense", state_name(chosen)], sorted(rows[rows.dense_flops > 0].bound.unique())
    drawn, axes = style.panels([design.name for design in designs], columns, width=5.4, height=3.9)
    ridges = []
    for design, line in zip(designs, axes, strict=True):
        for state, ax in zip(states, line, strict=True):
            here = rows[(rows.accelerator == design.name) & (rows.state == str(state))]
            roofs, bandwidth = _roofs(design, state, here, dtype, plan), _bandwidth(design)
            draw(ax, here, roofs, bandwidth, bounds)
            ridges += [roof.height / bandwidth for roof in roofs]
    _frame(axes[0, 0], rows[rows.dense_flops > 0], max(ridges))
    style.label_edges(axes, "operational intensity [FLOP/B]", "performance, as the dense network counts [FLOP/s]")
    model = f"{chosen.workload}, batch {batch}, {dtype.label}, fidelity {plan.spec.model.fidelity}"
    style.finish(drawn, axes, dataset, model, "marker area: share of the network's time", style.one_design(dataset)[1])
    for ax in axes.flat:
        _settle(ax)
    return drawn, rows


def choose(dataset: xr.Dataset, plan: Plan) -> int:
    """The number of the variant worth a look: the hypothetical one on which the accelerators differ most (the fastest,
    on a single accelerator), else the sparsest within the accuracy drop, else the first."""
    numbers = [int(number) for number in np.atleast_1d(dataset.variant.values)]
    made = [number for number in numbers if plan.variants[number].method == "hypothetical"]
    if made and "speedup" in dataset:
        speed = style.one_design(dataset)[0].speedup.mean(["batch", "dtype"])
        merit = speed.max("accelerator") - speed.min("accelerator") if speed.sizes["accelerator"] > 1 else speed[0]
        return max(made, key=lambda number: float(merit.sel(variant=number)))
    worse = {w.name: -1 if w.description.metric.direction == "higher" else 1 for w in plan.workloads}
    loss = {number: worse[(v := plan.variants[number]).workload] * (v.accuracy - v.dense_accuracy) for number in numbers}
    within = [number for number, lost in loss.items() if lost <= plan.spec.accuracy_drop]
    return max(within, key=lambda number: plan.variants[number].sparsity, default=numbers[0])


def _drawn(accelerator: Accelerator, state: Variant, batch: int, dtype: OperandDtypes, plan: Plan) -> Rows:
    rows = layers_of(accelerator, state, batch, dtype, plan)
    return rows.assign(
        intensity=rows.dense_flops / rows.bytes, performance=rows.dense_flops / rows.latency, share=rows.latency / rows.latency.sum()
    )


def _bandwidth(accelerator: Accelerator) -> float:
    return float(accelerator.value(f"memory.{accelerator.outermost}.bandwidth"))


def _roofs(accelerator: Accelerator, state: Variant, rows: Rows, dtype: OperandDtypes, plan: Plan) -> list[Roof]:
    """Roofs of every unit, precision and capped sparse run, and of each uncapped run that the variant takes.

    A run that gathers the columns of a V:N:M sees 4 of M, so its cap counts from these: the roof is M / 4 times as high.
    """
    found = []
    for execution in executions(accelerator, dtype, plan.spec.model.fidelity):
        here = rows[rows.execution == execution.name]
        if len(here) or execution.dense_rate or not execution.sparse:
            paths = execution.dense_rate or execution.stored_rate
            free = execution.sparse and not execution.dense_rate  # no cap: as high as the layers drawn reduce the work
            gain = here.dense_flops.sum() / here.flops.sum() if free else 1.0
            narrow = gathered(execution.pattern, state.pattern) if len(here) and not free else None
            wider = narrow.m / VNM_COLUMNS if narrow else 1.0
            height = float(gain * wider * np.prod([accelerator.value(path) for path in paths]))
            mode = dtype.compute + (f" {narrow or execution.pattern}" if execution.sparse else "") + (f" (x{gain:.3g})" if free else "")
            found.append(Roof(execution.unit, mode, height, bool(len(here[here.dense_flops > 0]))))
    others = [
        Roof(unit, precision, peak.value, False)
        for unit, described in accelerator.units.items()
        for precision, peak in described.peak.items()
        if precision != dtype.compute
    ]
    return _merged(found + others)


def _merged(roofs: list[Roof]) -> list[Roof]:
    """Roofs of one unit at one height as one, with both labels."""
    merged: dict[tuple[str, float], Roof] = {}
    for roof in roofs:
        key = (roof.unit, float(f"{roof.height:.4g}"))
        before = merged.get(key)
        merged[key] = replace(roof, mode=f"{before.mode}, {roof.mode}", used=before.used or roof.used) if before else roof
    return list(merged.values())


def _spelt(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def draw(ax: Axes, rows: Rows, roofs: Sequence[Roof], bandwidth: float, bounds: Sequence[str]) -> list[Any]:
    """One panel from rows with intensity, performance, share and bound; `bandwidth` in B/s, a colour for each of `bounds`."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    top = max(roof.height for roof in roofs)
    artists: list[Any] = ax.plot([LEFT, top / bandwidth], [LEFT * bandwidth, top], color="black", linewidth=1.2)
    artists.append(_bandwidth_label(ax, bandwidth))
    for roof, above in zip(ordered := sorted(roofs, key=lambda r: r.height), [*ordered[1:], None], strict=True):
        crowded = above is not None and above.height < 1.6 * roof.height
        artists += _draw_roof(ax, roof, bandwidth, below=crowded)
    for number, bound in enumerate(bounds):
        layers = rows[(rows.bound == bound) & (rows.dense_flops > 0)]
        colour = style.COLOURS[number % 7]
        artists.append(
            ax.scatter(layers.intensity, layers.performance, s=8 + 900 * layers.share, color=colour, alpha=0.55, linewidths=0, zorder=3)
        )
        ax.plot([], [], color=colour, marker="o", alpha=0.7, linestyle="none", label=f"bound by {_spoken(bound)}")
    return artists


LEFT, RIGHT = 1e-2, 1e7  # FLOP/B: roofs are drawn past every frame


def _frame(ax: Axes, rows: Rows, ridge: float) -> None:
    """Limits that hold every layer and ridge point, with room at the right for the labels of the roofs."""
    ax.set_xlim(rows.intensity.min() / 4, max(rows.intensity.max(), ridge) * 30)
    ax.set_ylim(rows.performance.min() / 4, None)


def _bandwidth_label(ax: Axes, bandwidth: float) -> Any:
    text = ax.text(LEFT, LEFT * bandwidth, f"{bandwidth / 1e12:.3g} TB/s", fontsize=7, rotation_mode="anchor", va="bottom", in_layout=False)
    text.set_gid("bandwidth")
    return text


def _settle(ax: Axes) -> None:
    """Once the layout is known: the bandwidth along its slope, the labels of the roofs at the right edge."""
    left, right = ax.get_xlim()
    for text in ax.texts:
        if text.get_gid() == "bandwidth":
            x, y = text.get_position()
            start = (left * 1.15, y / x * left * 1.15)
            (x0, y0), (x1, y1) = ax.transData.transform([start, (start[0] * 10, start[1] * 10)])
            text.set(position=(start[0], start[1] * 1.12), rotation=np.degrees(np.arctan2(y1 - y0, x1 - x0)), clip_on=True)
        else:
            text.set_x(right)


def _draw_roof(ax: Axes, roof: Roof, bandwidth: float, below: bool) -> list[Any]:
    """The flat part, its ridge point and its label (below the line where another roof stands close above)."""
    ridge, colour = roof.height / bandwidth, "black" if roof.used else "#a8a8a8"
    ax.plot([ridge, RIGHT], [roof.height] * 2, color=colour, linewidth=1.2 if roof.used else 0.8, linestyle="-" if roof.used else "--")
    ax.plot([ridge], [roof.height], marker="D", markersize=3.5, color=colour)
    label = f"{_spoken(roof.unit)} {roof.mode}: {_spelt(roof.height / 1e12)} TFLOP/s, ridge {ridge:,.0f} "
    y, side = (0.94, "top") if below else (1.05, "bottom")
    text = ax.text(RIGHT, roof.height * y, label, fontsize=6, color=colour, ha="right", va=side, in_layout=False)
    return [text]
