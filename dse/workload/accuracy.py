"""Accuracy as a function of sparsity, as measured, and the sparsity at which a tolerated loss of accuracy is reached.

A curve holds comparable measurements: one method, pattern, metric and dense network. It is interpolated by a monotone cubic
(PCHIP; Fritsch and Butland 1984, SIAM J. Sci. Stat. Comput. 5(2)), which passes through every point and has extrema only at
points. There is no isotonic regression: where a measured accuracy rises with sparsity, the curve rises too. Outside of the
measured range a curve raises an error. The ends of 90% intervals are interpolated in the same way; a point without an interval is exact.

The dense network is the first point of a curve, with two exceptions: a pattern of fixed density (an N:M is a single point,
nothing is measured between two of them), and accuracies that include more than pruning (`combined_with`: quantisation, longer
training), which the dense accuracy does not.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from dse.base.errors import InputError, did_you_mean
from dse.sparsity.grammar import parse
from dse.sparsity.pattern import Pattern
from dse.workload.schema import Metric
from dse.workload.variant import Variant
from dse.workload.workload import Workload

ROUNDING_TOLERANCE = 1e-9  # published accuracies are decimals: 76.69 - 76.38 in floats is not quite 0.31
SPARSITY_TOLERANCE = 1e-6  # within which a sparsity means a measured point of a pattern of fixed density

Interpolant = Callable[[Any], Any]  # from sparsity to a value
Values = TypeVar("Values", float, np.ndarray)


def accuracy_loss(accuracy: Values, dense_accuracy: float, direction: str) -> Values:
    """Loss against the dense network, in the unit of the metric: positive is worse, whichever direction of the metric is better."""
    return dense_accuracy - accuracy if direction == "higher" else accuracy - dense_accuracy


def check_drop(drop: float) -> None:
    """Raise InputError for a tolerated loss of accuracy that is negative or NaN."""
    if not drop >= 0:
        raise InputError(f"an accuracy drop of {drop:g} is out of range", "write a number of at least 0")


@dataclass(frozen=True, eq=False)
class AccuracyCurve:
    """Measured variants of one method and pattern, sorted by realised sparsity, at most one for each sparsity.

    Attributes:
        points: the variants.
        metric: name, unit and direction of the accuracy.
    """

    points: tuple[Variant, ...]
    metric: Metric

    @property
    def sparsest(self) -> Variant:
        """The point of the highest sparsity. It is never the dense network, so its method and pattern are those of the curve."""
        return self.points[-1]

    @property
    def dense_accuracy(self) -> float:
        """Accuracy of the dense network of the same source; NaN if the source gives none."""
        return self.sparsest.dense_accuracy

    @property
    def is_continuous(self) -> bool:
        """Whether the curve is defined between its points: not for a pattern of fixed density."""
        return self.sparsest.pattern.density is None

    def __str__(self) -> str:
        return f"{self.sparsest.workload}: {self.sparsest.method} {self.sparsest.pattern}, {self.metric.name}"

    @cached_property
    def sparsities(self) -> Float[np.ndarray, " point"]:
        """Realised sparsity of each point [1], ascending."""
        return np.array([point.sparsity for point in self.points])

    @cached_property
    def _accuracies(self) -> Float[np.ndarray, " point"]:
        return np.array([point.accuracy for point in self.points])

    @cached_property
    def _interval_ends(self) -> Float[np.ndarray, "end=2 point"]:
        """Low and high end of the 90% interval of each point, both its accuracy where it has none."""
        ends = np.array([[point.accuracy_low for point in self.points], [point.accuracy_high for point in self.points]])
        return np.where(np.isnan(ends), self._accuracies, ends)

    @cached_property
    def _interpolant(self) -> Interpolant:
        return self._interpolate_points(self._accuracies)

    @cached_property
    def _interval_interpolants(self) -> tuple[Interpolant, Interpolant]:
        low, high = self._interval_ends
        return self._interpolate_points(low), self._interpolate_points(high)

    def _interpolate_points(self, values: Float[np.ndarray, " point"]) -> Interpolant:
        from scipy.interpolate import PchipInterpolator

        if len(self.points) == 1:
            return partial(np.interp, xp=self.sparsities, fp=values)
        return PchipInterpolator(self.sparsities, values)

    def accuracy(self, sparsity: Values) -> Values:
        """The metric at one sparsity or an array of them; raises InputError outside of the measured range."""
        self._check_measured(np.asarray(sparsity, float))
        return self._interpolant(sparsity)[()]

    @cached_property
    def has_intervals(self) -> bool:
        """Whether any point has a 90% interval."""
        return any(np.isfinite(point.accuracy_low) for point in self.points)

    def interval(self, sparsity: float | np.ndarray) -> tuple[Any, Any]:
        """Low and high end of the 90% interval of the metric, around `accuracy`; NaN if no point has one.

        Raises InputError outside of the measured range.
        """
        accuracy = self.accuracy(np.asarray(sparsity, float))
        if not self.has_intervals:
            return accuracy * np.nan, accuracy * np.nan
        low, high = (interpolate(sparsity)[()] for interpolate in self._interval_interpolants)
        return np.minimum(low, accuracy), np.maximum(high, accuracy)  # the curves of the ends may cross it between points

    def loss(self, sparsity: Values) -> Values:
        """Loss against the dense network of the same source, in the unit of the metric (see `accuracy`)."""
        return accuracy_loss(self.accuracy(sparsity), self.dense_accuracy, self.metric.direction)

    def _check_measured(self, sparsity: Float[np.ndarray, "..."]) -> None:
        low, high = self.sparsities[[0, -1]]
        if self.is_continuous:
            outside = ~((sparsity >= low) & (sparsity <= high))
        else:
            outside = ~(np.abs(sparsity[..., None] - self.sparsities).min(axis=-1) <= SPARSITY_TOLERANCE)
        if not outside.any():
            return
        fix = f"choose a sparsity from {low:.6g} to {high:.6g}"
        if not self.is_continuous:
            points = ", ".join(f"{point:.6g}" for point in self.sparsities)
            fix = f"choose one of {points}: between them, {self.sparsest.pattern} has no sparsity"
        raise InputError(f"{self} was not measured at sparsity {sparsity[outside][0]:.6g}", fix)

    def variant(self, sparsity: float) -> Variant:
        """The variant at a realised sparsity: a measured one, otherwise interpolated between its two neighbours.

        The density of each layer is interpolated linearly, so the sparsity is exact and each density is between those of the
        neighbours. Raises InputError outside of the measured range.
        """
        self._check_measured(np.asarray(sparsity, float))
        nearest = int(np.abs(self.sparsities - sparsity).argmin())
        if self.sparsities[nearest] == sparsity or not self.is_continuous:
            return self.points[nearest]
        right = int(np.searchsorted(self.sparsities, sparsity))
        between = _interpolate_variants(self.points[right - 1], self.points[right], sparsity)
        low, high = self.interval(sparsity)
        return replace(between, accuracy=float(self.accuracy(sparsity)), accuracy_low=float(low), accuracy_high=float(high))

    def iso(self, drop: float = 1.0, relative: bool = False) -> Variant | None:
        """The sparsest variant that loses at most `drop`, in the unit of the metric (`relative`: in % of the dense accuracy).

        None if every point loses more. The variant is never sparser than the last point, since nothing is measured beyond it.
        Raises InputError if the source gives no accuracy of the dense network.
        """
        max_loss = self._max_loss(drop, relative)
        losses = self.loss(self.sparsities)
        within = np.flatnonzero(losses <= max_loss + ROUNDING_TOLERANCE)
        if not len(within):
            return None
        last = int(within[-1])
        if last == len(self.points) - 1 or losses[last] >= max_loss - ROUNDING_TOLERANCE or not self.is_continuous:
            return self.points[last]
        return self.variant(self._sparsity_at_loss(self.points[last].sparsity, self.points[last + 1].sparsity, max_loss))

    def _max_loss(self, drop: float, relative: bool) -> float:
        check_drop(drop)
        if np.isnan(self.dense_accuracy):
            raise InputError(f"the dense accuracy of {self} is not known", "add its 'dense_value' to accuracy.csv")
        return drop * abs(self.dense_accuracy) / 100 if relative else drop

    def _sparsity_at_loss(self, low: float, high: float, max_loss: float) -> float:
        """Bisect for the last float in [low, high) that loses at most `max_loss`; the loss grows from `low`, which is within it."""
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if self.loss(middle) <= max_loss else (low, middle)
        return low


def accuracy_curves(workload: Workload, method: str | None = None, pattern: str | None = None) -> tuple[AccuracyCurve, ...]:
    """Return the measured curves of accuracy against sparsity of a workload.

    A curve connects what may be compared: one method, pattern, metric and dense network.

    Args:
        workload: the network whose variants have accuracies.
        method: only curves of this pruning method. Default: all.
        pattern: only curves of this pattern, as in `"2:4"`. Default: all.

    Returns:
        One curve for each method, pattern, metric and dense network.

    Raises:
        InputError: no variant that matches has an accuracy.

    Examples:
        >>> import dse
        >>> (curve,) = dse.accuracy_curves(dse.load_workload("resnet50"), "magnitude_pruning")
        >>> curve.sparsities.round(3)
        array([0.  , 0.5 , 0.7 , 0.8 , 0.9 , 0.95, 0.98])
        >>> sparsest = curve.iso(drop=1.0)  # the sparsest network that loses at most one point of top-1 accuracy
        >>> round(sparsest.sparsity, 3)
        0.79
    """
    measured = [v for v in workload.variants if np.isfinite(v.accuracy)]
    if not measured:
        raise InputError(f"no variant of '{workload.name}' has an accuracy", "add some to its accuracy.csv, or take another workload")
    parsed = None if pattern is None else parse(pattern)
    selected = [v for v in measured if method in (None, v.method) and parsed in (None, v.pattern)]
    if not selected:
        query = " ".join(str(part) for part in (method, parsed) if part is not None)
        options = {" ".join([v.method] * (method is not None) + [str(v.pattern)] * (parsed is not None)) for v in measured}
        raise InputError(f"'{workload.name}' has no accuracies of '{query}'", did_you_mean(query, options))
    return tuple(_make_curve(workload, group) for group in _group_comparable(selected))


def _group_comparable(variants: Iterable[Variant]) -> Iterable[list[Variant]]:
    """Group variants of the same method, pattern, metric and dense network."""
    groups: dict[tuple[str, Pattern, str, str, str], list[Variant]] = {}
    for v in variants:
        key = (v.method, v.pattern, v.metric, v.combined_with, repr(v.dense_accuracy))  # as text, since NaN equals no NaN
        groups.setdefault(key, []).append(v)
    return groups.values()


def _make_curve(workload: Workload, variants: list[Variant]) -> AccuracyCurve:
    first, metric = variants[0], workload.description.metrics[variants[0].metric]
    dense_is_comparable = not first.combined_with and np.isfinite(first.dense_accuracy)
    starts_dense = dense_is_comparable and first.pattern.density is None and min(v.sparsity for v in variants) > 0
    points = [_dense_point(workload.dense, variants), *variants] if starts_dense else variants
    # Of two variants of one sparsity the worse one is kept (it comes later and replaces the other), so that the curve holds for both.
    ordered = sorted(points, key=lambda v: (v.sparsity, accuracy_loss(v.accuracy, 0.0, metric.direction)))
    return AccuracyCurve(tuple({round(v.sparsity, 9): v for v in ordered}.values()), metric)


def _dense_point(dense: Variant, variants: list[Variant]) -> Variant:
    """The dense network with the accuracy that the source of the variants gives for it."""
    return replace(
        dense, accuracy=variants[0].dense_accuracy, dense_accuracy=variants[0].dense_accuracy, metric=variants[0].metric,
        accuracy_kind=_join_unique(", ", (v.accuracy_kind for v in variants)),
        accuracy_source=_join_unique("; ", (v.accuracy_source for v in variants)),
    )  # fmt: skip


def _interpolate_variants(left: Variant, right: Variant, sparsity: float) -> Variant:
    """Interpolate two variants of one network layer by layer; element counts of their masks hold for neither, so they are dropped."""
    share = (sparsity - left.sparsity) / (right.sparsity - left.sparsity)
    kinds = _join_unique(", ", [left.accuracy_kind, right.accuracy_kind])
    return replace(
        right, nominal_sparsity=sparsity, density=_interpolate(left.density, right.density, share), stored_elements={},
        activation_density=_interpolate(left.input_density, right.input_density, share),
        union_densities=_interpolate_unions(left, right, share), densities_from=_mixture_origin(left, right),
        accuracy_kind=f"interpolated, {kinds}", accuracy_source=_join_unique("; ", [left.accuracy_source, right.accuracy_source]),
    )  # fmt: skip


def _interpolate(left: Float[np.ndarray, " layer"], right: Float[np.ndarray, " layer"], share: float) -> Float[np.ndarray, " layer"]:
    return left + share * (right - left)


def _interpolate_unions(left: Variant, right: Variant, share: float) -> dict[int, Float[np.ndarray, " layer"]]:
    """What groups of tokens need, of the numbers of tokens that were counted on both variants."""
    common = left.union_densities.keys() & right.union_densities.keys()
    return {tokens: _interpolate(left.union_densities[tokens], right.union_densities[tokens], share) for tokens in sorted(common)}


def _mixture_origin(left: Variant, right: Variant) -> str:
    """Origin of interpolated densities, as in 'a mixture of 0.8 and 0.9 (uniform)'."""
    origins = _join_unique(", ", filter(None, (left.densities_from, right.densities_from)))
    return f"a mixture of {left.nominal_sparsity:g} and {right.nominal_sparsity:g}" + (f" ({origins})" if origins else "")


def _join_unique(separator: str, texts: Iterable[str]) -> str:
    """Join the parts of several lists, each part once."""
    return separator.join(dict.fromkeys(part for text in texts for part in text.split(separator)))
