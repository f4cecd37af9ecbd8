"""Samples of uncertain accuracies, from their 90% intervals.

An accuracy is distributed as a normal distribution that is split at its median: `value` is the median, `low` the 5% and `high` the 95%
quantile, and each half is as wide as its side of the interval. An accuracy without an interval is exact.

Estimates of one network share their error, since an estimator that is too optimistic about a network is so for all of its patterns: they
are sampled at the same quantile (comonotone). Published and measured accuracies are independent: their intervals are those of seeds. How
often the fastest variant is feasible does not depend on this choice; how often the others replace it does.

The quantiles of each variant are stratified: all of 0.5/n, 1.5/n, ..., in an order that depends on the seed and on what the variant is.
So its samples are the same in any dataset and in any order of the variants, and shares of a single variant have no sampling error.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from dse.workload.accuracy import AccuracyCurve
from dse.workload.variant import Variant

SAMPLES = 1000
NORMAL_95 = NormalDist().inv_cdf(0.95)  # 1.645 standard deviations from the median to the 95% quantile


@dataclass(frozen=True)
class UncertainAccuracy:
    """An accuracy with its 90% interval (NaN: exact), its kind, and what it is of."""

    value: float
    low: float
    high: float
    kind: str
    network: str
    variant: str  # method, pattern, sparsity and metric: distinguishes the variants of a network

    @classmethod
    def of_variant(cls, variant: Variant) -> "UncertainAccuracy":
        key = describe_variant(variant.method, str(variant.pattern), variant.nominal_sparsity, variant.metric)
        ends = variant.accuracy_low, variant.accuracy_high
        return cls(variant.accuracy, *ends, variant.accuracy_kind, network_name(variant.workload), key)

    @property
    def error_source(self) -> str:
        """Accuracies of the same source of errors are sampled at the same quantile."""
        return f"{self.network}: estimates" if "estimated" in self.kind else f"{self.network}: {self.variant}"


def describe_variant(method: str, pattern: str, nominal_sparsity: float, metric: str) -> str:
    """What distinguishes a variant of a network."""
    return f"{method} {pattern} {nominal_sparsity:.9g} {metric}"


def network_name(workload: str) -> str:
    """The name of a network without its inputs, on which its accuracy does not depend."""
    return workload.partition(" (")[0]


def sample_accuracies(
    accuracies: Sequence[UncertainAccuracy], samples: int = SAMPLES, seed: int = 0
) -> Float[np.ndarray, "accuracy sample"]:
    """Sample some accuracies, in the unit of their metric; those of an exact accuracy are all equal."""
    sampled = np.array([[each.value] for each in accuracies]) * np.ones(samples)
    for row, each in enumerate(accuracies):
        if np.isfinite(each.low):
            deviates = _normal_deviates(each.error_source, samples, seed)
            sampled[row] += deviates / NORMAL_95 * np.where(deviates < 0, each.value - each.low, each.high - each.value)
    return sampled


def sample_curve(
    curve: AccuracyCurve, sparsities: Sequence[float], samples: int = SAMPLES, seed: int = 0
) -> Float[np.ndarray, "sparsity sample"]:
    """Samples of the accuracy at some sparsities of a curve: each sample of its points is interpolated like the points themselves."""
    from scipy.interpolate import PchipInterpolator

    points = sample_accuracies([UncertainAccuracy.of_variant(point) for point in curve.points], samples, seed)
    if not curve.is_continuous or len(points) == 1:
        return points[[int(np.abs(curve.sparsities - sparsity).argmin()) for sparsity in sparsities]]
    return PchipInterpolator(curve.sparsities, points)(sparsities)


def curve_at_quantile(curve: AccuracyCurve, quantile: float) -> AccuracyCurve:
    """The curve through the same quantile of the accuracy of every point."""
    deviate = NormalDist().inv_cdf(quantile) / NORMAL_95
    return AccuracyCurve(tuple(_at_deviate(curve.points, deviate)), curve.metric)


def _at_deviate(points: Iterable[Variant], deviate: float) -> Iterable[Variant]:
    """The points with accuracies that are so many widths of their intervals from the median."""
    for point in points:
        below, above = point.accuracy - point.accuracy_low, point.accuracy_high - point.accuracy
        shift = deviate * (below if deviate < 0 else above)
        yield replace(point, accuracy=point.accuracy + shift) if np.isfinite(shift) else point


def _normal_deviates(error_source: str, samples: int, seed: int) -> Float[np.ndarray, " sample"]:
    """Stratified samples of a standard normal distribution, in an order of their own for each source of errors."""
    from scipy.special import ndtri

    digest = hashlib.sha256(error_source.encode()).digest()
    order = np.random.default_rng([seed, *np.frombuffer(digest, np.uint32).tolist()]).permutation(samples)
    return ndtri((order + 0.5) / samples)
