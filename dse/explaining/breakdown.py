"""Layer groups and resources of two sides: where the time of each goes, and which factor matters most there."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from dse.explaining.chosen_layers import PerLayer
from dse.explaining.parts import GroupRow, ResourceRow
from dse.explaining.settings import SHAPE

Bounds = tuple[np.ndarray, np.ndarray]  # names of the resources that bound each layer, on both sides

_NUMBER = re.compile(r"(?<![a-zA-Z\d])\d+|(?<=[a-zA-Z_])\d+(?=[_.]|$)")


def group_name(layer: str) -> str:
    """The name of a layer with its numbers replaced: 'model.layers.*.mlp.up_proj'; that of a shape as it is."""
    return layer if SHAPE.fullmatch(layer) else _NUMBER.sub("*", layer)


def group_rows(
    names: Sequence[str],
    a: PerLayer,
    b: PerLayer,
    bounds: Bounds,
    parts: Float[np.ndarray, "factor layer"] | None,
    labels: Sequence[str],
) -> list[GroupRow]:
    """Rows of layers with the same group name; `parts` of the factors in b - a decide which one is the main one."""
    groups = np.array([group_name(name) for name in names], object)
    rows = []
    for group in dict.fromkeys(groups):
        mask = groups == group
        label, value = "", 0.0
        if parts is not None and len(labels):
            totals = parts[:, mask].sum(axis=1)
            largest = int(np.argmax(np.abs(totals)))
            label, value = (labels[largest], float(totals[largest])) if totals[largest] else ("", 0.0)
        bound_a, bound_b = (_main_bound(bound[mask], times[mask]) for bound, times in zip(bounds, (a, b), strict=True))
        rows.append(GroupRow(group, int(mask.sum()), float(a[mask].sum()), float(b[mask].sum()), bound_a, bound_b, label, value))
    return sorted(rows, key=lambda row: -max(abs(row.b - row.a), 1e-3 * row.b))


def separate_group_rows(names: tuple[Sequence[str], Sequence[str]], times: tuple[PerLayer, PerLayer], bounds: Bounds) -> list[GroupRow]:
    """Rows of two networks with different layers: a group that only one of them has takes no time in the other."""
    of_a, of_b = (
        {row.group: row for row in group_rows(*each, each[1], (bound, bound), None, ())}
        for each, bound in zip(zip(names, times, strict=True), bounds, strict=True)
    )
    rows = []
    for group in dict.fromkeys([*of_a, *of_b]):
        x, y = of_a.get(group, GroupRow(group, 0, 0.0, 0.0, "", "", "", 0.0)), of_b.get(group)
        rows.append(replace(x, b=0.0, bound_b="") if y is None else replace(y, a=x.a, bound_a=x.bound_a))
    return sorted(rows, key=lambda row: -abs(row.b - row.a))


def _main_bound(bounds: np.ndarray, times: PerLayer) -> str:
    """The resource that bounds most of the time of some layers."""
    totals = {str(bound): float(times[bounds == bound].sum()) for bound in dict.fromkeys(bounds)}
    return max(totals, key=lambda name: totals[name]) if totals else ""


def resource_rows(bounds: Bounds, times: tuple[PerLayer, PerLayer]) -> list[ResourceRow]:
    """Time by what bounds it; the rows of a side add up to its latency."""
    names = dict.fromkeys(str(bound) for side in bounds for bound in side)
    totals = {name: [float(time[bound == name].sum()) for bound, time in zip(bounds, times, strict=True)] for name in names}
    return sorted((ResourceRow(name, *pair) for name, pair in totals.items() if any(pair)), key=lambda row: -max(row.a, row.b))
