"""The feasible variants of a network in a search: the dense network, pruned ones within the accuracy tolerance, and hypothetical ones."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from dse.base.errors import InputError
from dse.schema.search import AccuracyTolerance
from dse.schema.workload_selection import WorkloadSelection
from dse.searching.assumed_variants import select_assumed
from dse.workload import Variant, Workload
from dse.workload.accuracy import ROUNDING_TOLERANCE, AccuracyCurve, accuracy_curves, accuracy_loss
from dse.workload.accuracy_samples import SAMPLES, curve_at_quantile, sample_curve

QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95)  # of the accuracies of a curve, at which it reaches the tolerance too


@dataclass(frozen=True, eq=False)
class SampledVariants:
    """Variants of a network, the dense one first, and in which samples of the accuracies each is feasible [variant, sample].

    `has_intervals`: whether any of the accuracies has an interval.
    """

    variants: list[Variant]
    feasible: Bool[np.ndarray, "variant sample"]
    has_intervals: bool


def select_feasible(workload: Workload, selection: WorkloadSelection, tolerance: AccuracyTolerance) -> list[Variant]:
    """The dense network, then the feasible variants of each method and pattern, then the hypothetical ones.

    These are all measured variants within the tolerance and, unless the selection lists sparsities, the sparsest interpolated one.
    Losses are against the dense network of the same source, in the main metric of the workload. Nothing is extrapolated.
    """
    variants, listed = [workload.dense], _listed_variants(workload, selection)
    for curve in _usable_curves(workload, selection):
        feasible = _within_tolerance(curve, tolerance)
        variants += [variant for variant in feasible if variant.method != "dense" and (listed is None or id(variant) in listed)]
    return variants + select_assumed(workload, selection, tolerance)


def _within_tolerance(curve: AccuracyCurve, tolerance: AccuracyTolerance) -> list[Variant]:
    """The points of a curve within the tolerance, and the sparsest interpolated variant."""
    losses = curve.loss(curve.sparsities)
    feasible = [point for point, loss in zip(curve.points, losses, strict=True) if loss <= _largest_loss(curve, tolerance)]
    sparsest = curve.iso(tolerance.max_drop, tolerance.relative)
    if sparsest is not None and all(sparsest is not point for point in feasible):
        feasible.append(sparsest)
    return feasible


def _largest_loss(curve: AccuracyCurve, tolerance: AccuracyTolerance) -> float:
    """The tolerance in the unit of the metric, with a margin for rounding."""
    return tolerance.max_drop * (abs(curve.dense_accuracy) / 100 if tolerance.relative else 1.0) + ROUNDING_TOLERANCE


def sample_feasible(
    workload: Workload, selection: WorkloadSelection, tolerance: AccuracyTolerance, samples: int = SAMPLES, seed: int = 0
) -> SampledVariants:
    """The variants that are feasible in any sample of the accuracies.

    Besides those of `select_feasible`, these are measured variants that the best estimate refuses and, of a curve with intervals, the
    variants at the sparsities at which quantiles of it reach the tolerance.
    """
    listed, curves = _listed_variants(workload, selection), _usable_curves(workload, selection)
    variants, feasible = [workload.dense], [np.ones((1, samples), bool)]
    for curve in curves:
        candidates = _candidates(curve, tolerance)
        candidates = [variant for variant in candidates if variant.method != "dense" and (listed is None or id(variant) in listed)]
        if not candidates:
            continue
        accuracies = sample_curve(curve, [variant.sparsity for variant in candidates], samples, seed)
        losses = accuracy_loss(accuracies, curve.dense_accuracy, curve.metric.direction)
        within = losses <= _largest_loss(curve, tolerance)
        variants += [variant for variant, row in zip(candidates, within, strict=True) if row.any()]
        feasible.append(within[within.any(axis=1)])
    assumed = select_assumed(workload, selection, tolerance)  # without intervals
    variants += assumed
    feasible.append(np.ones((len(assumed), samples), bool))
    return SampledVariants(variants, np.concatenate(feasible), any(curve.has_intervals for curve in curves))


def _candidates(curve: AccuracyCurve, tolerance: AccuracyTolerance) -> list[Variant]:
    """The variants of a curve that some sample may choose, each sparsity once."""
    if not curve.has_intervals:
        return _within_tolerance(curve, tolerance)
    candidates = {point.sparsity: point for point in (*_within_tolerance(curve, tolerance), *curve.points)}
    for quantile in QUANTILES if curve.is_continuous else ():
        sparsest = curve_at_quantile(curve, quantile).iso(tolerance.max_drop, tolerance.relative)
        if sparsest is not None and sparsest.sparsity not in candidates:
            candidates[sparsest.sparsity] = curve.variant(sparsest.sparsity)
    return list(candidates.values())


def list_excluded(name: str, workload: Workload, selection: WorkloadSelection) -> list[str]:
    """Warnings about variants that have an accuracy which cannot be compared with the tolerance, with the reason."""
    metric = workload.description.metric.name
    listed, excluded = _listed_variants(workload, selection), dict[str, list[Variant]]()
    for variant in workload.variants:
        if not _is_selected(variant, selection) or np.isnan(variant.accuracy) or (listed is not None and id(variant) not in listed):
            continue
        if variant.metric != metric:
            excluded.setdefault(f"they are not measured in '{metric}', which the tolerance is in", []).append(variant)
        elif np.isnan(variant.dense_accuracy):
            excluded.setdefault("their source gives no accuracy of the dense network", []).append(variant)
    return [f"'{name}': the search leaves out {_list_by_method(variants)}: {reason}" for reason, variants in excluded.items()]


def _list_by_method(variants: Iterable[Variant]) -> str:
    """Variants with the sparsities of each method and pattern together, as in 'wanda unstructured 0.3 0.5, sparsegpt 2:4 0.5'."""
    sparsities: dict[str, list[str]] = {}
    for variant in variants:
        sparsities.setdefault(f"{variant.method} {variant.pattern}", []).append(f"{variant.nominal_sparsity:g}")
    return ", ".join(f"{name} {' '.join(listed)}" for name, listed in sparsities.items())


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
