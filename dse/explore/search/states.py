"""The states of a network that a search may run: dense, and whatever loses no more accuracy than is tolerated."""

import numpy as np

from dse.accuracy import EXACT, accuracy_curves
from dse.errors import BadInput
from dse.goal import Drop
from dse.spec import Selection
from dse.workload import Variant, Workload


def tolerated(workload: Workload, selection: Selection, drop: Drop) -> list[Variant]:
    """The dense network, then of each method and pattern the sparsest state within the loss and every measured one within it.

    Losses are against the dense network of the same source, in the main metric of the workload; nothing is extrapolated.
    """
    found = [workload.dense]
    for curve in _curves(workload, selection):
        best = curve.iso(drop.drop, drop.relative)
        allowed = drop.drop * (abs(curve.pruned.dense_accuracy) / 100 if drop.relative else 1.0)
        within = [point for point, lost in zip(curve.points, curve.loss(curve.sparsities), strict=True) if lost <= allowed + EXACT]
        states = [*within, *([best] if best is not None and all(best is not point for point in within) else [])]
        found += [state for state in states if state.method != "dense"]
    return found


def _curves(workload: Workload, selection: Selection) -> list:
    try:
        curves = accuracy_curves(workload)
    except BadInput:  # no accuracies: the dense network alone
        return []
    metric, methods = workload.description.metric.name, selection.methods
    chosen = [c for c in curves if c.pruned.metric == metric and (methods == "all" or c.pruned.method in methods)]
    return [curve for curve in chosen if np.isfinite(curve.pruned.dense_accuracy)]
