"""The feasible variants of a network in a search: the dense network, and pruned ones within the accuracy tolerance."""

import numpy as np

from dse.base.errors import InputError
from dse.schema.search import AccuracyTolerance
from dse.schema.workload_selection import WorkloadSelection
from dse.workload import Variant, Workload
from dse.workload.accuracy import ROUNDING_TOLERANCE, AccuracyCurve, accuracy_curves


def select_feasible(workload: Workload, selection: WorkloadSelection, tolerance: AccuracyTolerance) -> list[Variant]:
    """The dense network, then the feasible variants of each method and pattern.

    These are all measured variants within the tolerance and, unless the selection lists sparsities, the sparsest interpolated one.
    Losses are against the dense network of the same source, in the main metric of the workload. Nothing is extrapolated.
    """
    variants, listed = [workload.dense], _listed_variants(workload, selection)
    for curve in _usable_curves(workload, selection):
        max_loss = tolerance.max_drop * (abs(curve.dense_accuracy) / 100 if tolerance.relative else 1.0)
        losses = curve.loss(curve.sparsities)
        feasible = [point for point, loss in zip(curve.points, losses, strict=True) if loss <= max_loss + ROUNDING_TOLERANCE]
        sparsest = curve.iso(tolerance.max_drop, tolerance.relative)
        if sparsest is not None and all(sparsest is not point for point in feasible):
            feasible.append(sparsest)
        variants += [variant for variant in feasible if variant.method != "dense" and (listed is None or id(variant) in listed)]
    return variants


def list_excluded(name: str, workload: Workload, selection: WorkloadSelection) -> list[str]:
    """Warnings about variants that have an accuracy which cannot be compared with the tolerance, with the reason."""
    metric = workload.description.metric.name
    listed, excluded = _listed_variants(workload, selection), dict[str, list[str]]()
    for variant in workload.variants:
        if not _is_selected(variant, selection) or np.isnan(variant.accuracy) or (listed is not None and id(variant) not in listed):
            continue
        if variant.metric != metric:
            excluded.setdefault(f"measured in '{variant.metric}', and the tolerance is in '{metric}'", []).append(str(variant))
        elif np.isnan(variant.dense_accuracy):
            excluded.setdefault("their source gives no accuracy of the dense network", []).append(str(variant))
    return [f"'{name}': the search leaves out {', '.join(variants)}: {reason}" for reason, variants in excluded.items()]


def _usable_curves(workload: Workload, selection: WorkloadSelection) -> list[AccuracyCurve]:
    """Accuracy curves of the selected methods in the main metric, with a known dense accuracy."""
    try:
        curves = accuracy_curves(workload)
    except InputError:  # the workload has no accuracies
        return []
    metric = workload.description.metric.name
    selected = [curve for curve in curves if curve.sparsest.metric == metric and _is_selected(curve.sparsest, selection)]
    return [curve for curve in selected if np.isfinite(curve.dense_accuracy)]


def _is_selected(variant: Variant, selection: WorkloadSelection) -> bool:
    return selection.methods == "all" or variant.method in selection.methods


def _listed_variants(workload: Workload, selection: WorkloadSelection) -> set[int] | None:
    """Identities of the variants whose sparsity the selection lists; None if it lists no sparsities."""
    if selection.sparsities is None:
        return None
    pairs = [(method, sparsity) for sparsity in selection.sparsities for method in workload.methods]
    return {id(variant) for method, sparsity in pairs for variant in workload.find_variants(method, sparsity)}
