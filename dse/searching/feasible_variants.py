"""The feasible variants of a network in a search: dense, and whatever loses no more accuracy than is tolerated."""

import numpy as np

from dse.base.errors import InputError
from dse.schema.search import AccuracyTolerance
from dse.schema.workload_selection import WorkloadSelection
from dse.workload import Variant, Workload
from dse.workload.accuracy import ROUNDING_TOLERANCE, accuracy_curves


def tolerated(workload: Workload, selection: WorkloadSelection, drop: AccuracyTolerance) -> list[Variant]:
    """The dense network, then of each method and pattern every measured variant within the loss, and the sparsest one that interpolates
    between two of them, unless `selection` lists sparsities.

    Losses are against the dense network of the same source, in the main metric of the workload; nothing is extrapolated.
    """
    found, listed = [workload.dense], _listed(workload, selection)
    for curve in _curves(workload, selection):
        best = curve.iso(drop.max_drop, drop.relative)
        allowed = drop.max_drop * (abs(curve.dense_accuracy) / 100 if drop.relative else 1.0)
        within = [
            point for point, lost in zip(curve.points, curve.loss(curve.sparsities), strict=True) if lost <= allowed + ROUNDING_TOLERANCE
        ]
        states = [*within, *([best] if best is not None and all(best is not point for point in within) else [])]
        found += [state for state in states if state.method != "dense" and (listed is None or id(state) in listed)]
    return found


def left_out(name: str, workload: Workload, selection: WorkloadSelection) -> list[str]:
    """Variants with an accuracy that the tolerance cannot be applied to, as warnings that name them and the reason."""
    metric = workload.description.metric.name
    listed, reasons = _listed(workload, selection), dict[str, list[str]]()
    for variant in workload.variants:
        if not _chosen(variant, selection) or np.isnan(variant.accuracy) or (listed is not None and id(variant) not in listed):
            continue
        if variant.metric != metric:
            reasons.setdefault(f"measured in '{variant.metric}', and the tolerance is in '{metric}'", []).append(str(variant))
        elif np.isnan(variant.dense_accuracy):
            reasons.setdefault("no accuracy of the dense network is given beside theirs", []).append(str(variant))
    return [f"'{name}': the search leaves out {', '.join(variants)}: {reason}" for reason, variants in reasons.items()]


def _curves(workload: Workload, selection: WorkloadSelection) -> list:
    try:
        curves = accuracy_curves(workload)
    except InputError:  # no accuracies: the dense network alone
        return []
    metric = workload.description.metric.name
    chosen = [curve for curve in curves if curve.sparsest.metric == metric and _chosen(curve.sparsest, selection)]
    return [curve for curve in chosen if np.isfinite(curve.dense_accuracy)]


def _chosen(variant: Variant, selection: WorkloadSelection) -> bool:
    return selection.methods == "all" or variant.method in selection.methods


def _listed(workload: Workload, selection: WorkloadSelection) -> set[int] | None:
    """Identities of the variants whose sparsity is listed; None where all are wanted."""
    if selection.sparsities is None:
        return None
    return {
        id(variant)
        for sparsity in selection.sparsities
        for method in workload.methods
        for variant in workload.find_variants(method, sparsity)
    }
