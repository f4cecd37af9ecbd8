"""The measured curve of unstructured pruning from which estimates are read."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from dse.base.errors import InputError, did_you_mean
from dse.sparsity.kinds import UNSTRUCTURED
from dse.workload.accuracy import AccuracyCurve, accuracy_curves, accuracy_loss
from dse.workload.workload import Workload


@dataclass(frozen=True, eq=False)
class ReferenceCurve:
    """An accuracy curve of unstructured pruning, interpolated in the logarithm of a metric of which lower is better.

    Perplexities grow by orders of magnitude between two measured sparsities; at measured points both interpolations agree.
    """

    measured: AccuracyCurve

    @cached_property
    def is_logarithmic(self) -> bool:
        """Whether lower is better, as for perplexities."""
        return self.measured.metric.direction == "lower" and min(point.accuracy for point in self.measured.points) > 0

    @cached_property
    def _interpolated(self) -> AccuracyCurve:
        if not self.is_logarithmic:
            return self.measured
        return replace(self.measured, points=tuple(replace(p, accuracy=float(np.log(p.accuracy))) for p in self.measured.points))

    @property
    def dense_value(self) -> float:
        """The metric of the dense network of the same source."""
        return self.measured.dense_accuracy

    @property
    def is_nonnegative(self) -> bool:
        """Whether no measured value is negative."""
        return min(point.accuracy for point in self.measured.points) >= 0

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest measured sparsity [1]."""
        low, high = self.measured.sparsities[[0, -1]]
        return float(low), float(high)

    def reaches(self, sparsity: float) -> bool:
        """Whether a sparsity is within the measured range."""
        return self.range[0] <= sparsity <= self.range[1]

    def value(self, sparsity: float) -> float:
        """The metric at a sparsity; raises InputError outside of the measured range."""
        value = float(self._interpolated.accuracy(sparsity))
        return float(np.exp(value)) if self.is_logarithmic else value

    def extended(self, sparsities: Float[np.ndarray, " sparsity"]) -> Float[np.ndarray, " sparsity"]:
        """The metric, continued beyond the measured range by the line through its last two points: only for ends of intervals."""
        x, inner = self.measured.sparsities, np.clip(sparsities, *self.range)
        values = np.asarray(self._interpolated.accuracy(inner), float)
        if len(x) > 1:
            y = np.asarray(self._interpolated.accuracy(x), float)
            first, last = (y[1] - y[0]) / (x[1] - x[0]), (y[-1] - y[-2]) / (x[-1] - x[-2])
            values = values + np.where(sparsities > inner, last, first) * (sparsities - inner)
        return np.exp(values) if self.is_logarithmic else values

    def loss(self, value: float) -> float:
        """Loss against the dense network of the same source, in the unit of the metric."""
        return accuracy_loss(value, self.measured.dense_accuracy, self.measured.metric.direction)

    def __str__(self) -> str:
        return str(self.measured)


def choose_curve(workload: Workload, method: str | None = None, metric: str | None = None) -> ReferenceCurve:
    """The measured curve of unstructured pruning with the widest range of sparsities; `method` and `metric` choose among them.

    Raises InputError if there is none. Estimated points are never on a curve.
    """
    where = workload.folder / "accuracy.csv"
    curves = [curve for curve in _unstructured_curves(workload) if metric in (None, curve.metric.name)]
    methods = sorted({curve.sparsest.method for curve in curves})
    if not curves:
        what = f"'{workload.name}' has no measured curve of unstructured pruning" + (f" with the metric '{metric}'" if metric else "")
        raise InputError(what, "add rows of one method with at least two sparsities, the dense one included", where)
    if method is not None and method not in methods:
        raise InputError(
            f"'{workload.name}' has no curve of unstructured pruning by '{method}'", did_you_mean(method, methods), key="--method"
        )
    named = [curve for curve in curves if method in (None, curve.sparsest.method)]
    own_metric = workload.description.metric.name
    return ReferenceCurve(
        max(named, key=lambda c: (c.metric.name == own_metric, not c.sparsest.combined_with, np.ptp(c.sparsities), str(c)))
    )


def _unstructured_curves(workload: Workload) -> list[AccuracyCurve]:
    """Measured curves of unstructured pruning that have a range of sparsities."""
    if not any(np.isfinite(variant.accuracy) for variant in workload.variants):
        return []
    curves = [curve for curve in accuracy_curves(workload) if curve.sparsest.pattern == UNSTRUCTURED and len(curve.points) > 1]
    return [curve for curve in curves if not any("estimated" in point.accuracy_kind for point in curve.points)]
