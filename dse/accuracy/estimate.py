"""Estimated accuracies of patterns that nobody trained: the accuracy at which unstructured pruning keeps as much saliency."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dse.accuracy.estimation_models import model_for
from dse.accuracy.interval import Interval
from dse.accuracy.reference_curve import ReferenceCurve
from dse.accuracy.retained import RetainedShares, retained_shares
from dse.accuracy.saliency import SaliencyKind, read_network_weights
from dse.accuracy.weight_distribution import sampled_layers
from dse.sparsity.pruned_pattern import PrunedPattern
from dse.workload.schema import AccuracyRow
from dse.workload.workload import Workload


@dataclass(frozen=True)
class Estimate:
    """The estimated accuracy of one pattern.

    Attributes:
        retained: share of the saliency that the best mask keeps [1].
        equivalent_sparsity: sparsity at which unstructured pruning keeps as much [1].
        value: the metric; `interval` is its 90% interval.
    """

    request: PrunedPattern
    retained: float
    equivalent_sparsity: float
    value: float
    interval: Interval


@dataclass(frozen=True)
class LeftOut:
    """A pattern without an estimate: its equivalent sparsity was not measured, or a layer is smaller than a block (both numbers NaN)."""

    request: PrunedPattern
    retained: float
    equivalent_sparsity: float
    reason: str


@dataclass(frozen=True)
class Estimates:
    """Estimates of one network from one curve; `basis` says what the saliencies were computed from."""

    curve: ReferenceCurve
    basis: str
    estimates: tuple[Estimate, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def method(self) -> str:
        """The method of the estimated rows: that of the curve, with an ending."""
        return f"{self.curve.measured.sparsest.method}_estimated"

    def rows(self) -> list[AccuracyRow]:
        """Rows of accuracy.csv."""
        point, metric = self.curve.measured.sparsest, self.curve.measured.metric.name
        dense = self.curve.measured.dense_accuracy
        return [
            AccuracyRow(
                method=self.method, pattern=estimate.request.pattern, sparsity=round(estimate.request.sparsity, 9),
                value=_round(estimate.value), dense_value=None if np.isnan(dense) else dense, low=_round(estimate.interval.low),
                high=_round(estimate.interval.high), source=self._source(estimate), kind="estimated", metric=metric,
                densities="uniform", combined_with=point.combined_with,
            )
            for estimate in self.estimates
        ]  # fmt: skip

    def _source(self, estimate: Estimate) -> str:
        return (
            f"estimated: keeps {estimate.retained:.4f} of the saliency ({self.basis}), as unstructured pruning does at sparsity "
            f"{estimate.equivalent_sparsity:.4f}; curve: {self.curve.measured.sparsest.method}"
        )


def _round(value: float) -> float:
    """Six significant digits, as a table shows them."""
    return float(f"{value:.6g}")


def measure_shares(
    workload: Workload,
    requests: Sequence[PrunedPattern],
    weights: Path | None = None,
    saliency: SaliencyKind = "l1",
    curvature: Path | None = None,
) -> tuple[RetainedShares, str]:
    """The shares that patterns keep, and what they were computed from; without `weights`, of sampled weights. Raises InputError."""
    kind = saliency.replace("_", "-")
    if weights is None:
        return retained_shares(sampled_layers(_layer_sizes(workload), saliency), requests), f"{kind} of assumed weights"
    network = read_network_weights(workload, weights, saliency, curvature)
    return retained_shares(network.saliencies(), requests), f"{kind} of {weights.name}"


def _layer_sizes(workload: Workload) -> list[tuple[float, int, int]]:
    """Weights, rows and columns of each prunable layer."""
    layers = workload.layers
    sizes = zip(layers.weights * layers.copies, layers.m, layers.k, layers.prunable, strict=True)
    return [(float(count), int(m), int(k)) for count, m, k, prunable in sizes if prunable]


def estimate_accuracies(curve: ReferenceCurve, shares: RetainedShares, basis: str) -> Estimates:
    """Estimate the metric of each request; those that fit no mask of a layer, or that the curve does not reach, are left out."""
    estimates: list[Estimate] = []
    left_out: list[LeftOut] = []
    for request, share in zip(shares.requests, map(float, shares.shares), strict=True):
        if request.pattern in shares.misfits:
            left_out.append(LeftOut(request, np.nan, np.nan, shares.misfits[request.pattern]))
            continue
        place, model = (curve, request.sparsity, shares.equivalent_sparsity(request)), model_for(curve, request.pattern)
        if model.reaches(*place):
            estimates.append(Estimate(request, share, place[2], model.value(*place), model.interval(*place)))
        else:
            low, high = curve.range
            reason = f"equivalent to unstructured sparsity {place[2]:.4g}, and the curve is measured from {low:.4g} to {high:.4g}"
            left_out.append(LeftOut(request, share, place[2], reason))
    return Estimates(curve, basis, tuple(estimates), tuple(left_out))
