"""Accuracy against sparsity, as measured, and the sparsity that a tolerated loss allows.

A curve holds what may be compared: one method, pattern, metric and dense network. Between its points runs a monotone cubic
(PCHIP; Fritsch and Butland 1984, SIAM J. Sci. Stat. Comput. 5(2)): it meets every point and turns at none but them. So no isotonic
pass is made: where a measured accuracy rises with sparsity, the curve does too. Outside its points it says nothing.

The dense network is the first point of a curve, unless the pattern has a fixed density (an N:M is a point, nothing lies between
two of them) or the accuracies include something else that the dense one lacks (`combined_with`: quantisation, longer training).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dse.base.errors import InputError, did_you_mean
from dse.sparsity.grammar import parse
from dse.workload import Variant, Workload
from dse.workload.schema import Metric


def loss(accuracy: Any, dense: Any, direction: str) -> Any:
    """What is lost against the dense network, in the metric's own points: positive is worse, whichever way the metric points."""
    return dense - accuracy if direction == "higher" else accuracy - dense


def check_tolerance(drop: float) -> None:
    if not drop >= 0:
        raise InputError(f"a drop of {drop:g} cannot be tolerated", "write a number from 0 up")


@dataclass(frozen=True, eq=False)
class Curve:
    """Measured states of one method and pattern by ascending sparsity (as realised), no two of one sparsity."""

    points: tuple[Variant, ...]
    metric: Metric

    @property
    def pruned(self) -> Variant:
        """The sparsest point: never the dense network, so that it knows the method and the pattern."""
        return self.points[-1]

    @property
    def continuous(self) -> bool:
        """Whether there is something between the points."""
        return self.pruned.pattern.density is None

    def __str__(self) -> str:
        return f"{self.pruned.workload}: {self.pruned.method} {self.pruned.pattern}, {self.metric.name}"

    @cached_property
    def sparsities(self) -> np.ndarray:
        return np.array([point.sparsity for point in self.points])

    @cached_property
    def _accuracies(self) -> np.ndarray:
        return np.array([point.accuracy for point in self.points])

    @cached_property
    def _interpolant(self) -> Any:
        from scipy.interpolate import PchipInterpolator

        if len(self.points) == 1:
            return partial(np.interp, xp=self.sparsities, fp=self._accuracies)
        return PchipInterpolator(self.sparsities, self._accuracies)

    def accuracy(self, sparsity: Any) -> Any:
        """The metric at one sparsity or an array of them; raises InputError outside the range that was measured."""
        self._check_measured(np.asarray(sparsity, float))
        return self._interpolant(sparsity)[()]

    def loss(self, sparsity: Any) -> Any:
        """What is lost against the dense network of the same source, in the metric's own points (see `accuracy`)."""
        return loss(self.accuracy(sparsity), self.pruned.dense_accuracy, self.metric.direction)

    def _check_measured(self, sparsity: np.ndarray) -> None:
        low, high = self.sparsities[[0, -1]]
        if self.continuous:
            outside = ~((sparsity >= low) & (sparsity <= high))
        else:
            outside = ~(np.abs(sparsity[..., None] - self.sparsities).min(axis=-1) <= POINT)
        if not outside.any():
            return
        listed = ", ".join(f"{point:.6g}" for point in self.sparsities)
        fix = f"ask from {low:.6g} to {high:.6g}" if self.continuous else f"ask for {listed}: nothing lies between points of an N:M"
        raise InputError(f"{self} was not measured at sparsity {sparsity[outside][0]:.6g}", fix)

    def variant(self, sparsity: float) -> Variant:
        """The network state at a sparsity (as realised): a point, or a mixture of the two beside it, layer by layer.

        The densities of each layer are interpolated linearly, so the total is the one asked for and each layer stays between
        its neighbours. Raises InputError outside the range that was measured.
        """
        self._check_measured(np.asarray(sparsity, float))
        nearest = int(np.abs(self.sparsities - sparsity).argmin())
        if self.sparsities[nearest] == sparsity or not self.continuous:
            return self.points[nearest]
        right = int(np.searchsorted(self.sparsities, sparsity))
        mixture = _mixture(self.points[right - 1], self.points[right], sparsity)
        return replace(mixture, accuracy=float(self.accuracy(sparsity)))

    def iso(self, drop: float = 1.0, relative: bool = False) -> Variant | None:
        """The sparsest state that loses at most `drop`, in the metric's own points (`relative`: in % of the dense network's).

        None where every point loses more. Never sparser than the last point: what lies beyond may lose no more, but nobody
        has measured it. Raises InputError if the source names no dense network.
        """
        allowed = self._allowed(drop, relative)
        losses = self.loss(self.sparsities)
        within = np.flatnonzero(losses <= allowed + EXACT)
        if not len(within):
            return None
        last = int(within[-1])
        if last == len(self.points) - 1 or losses[last] >= allowed - EXACT or not self.continuous:
            return self.points[last]
        return self.variant(self._crossing(self.points[last].sparsity, self.points[last + 1].sparsity, allowed))

    def _allowed(self, drop: float, relative: bool) -> float:
        check_tolerance(drop)
        dense = self.pruned.dense_accuracy
        if np.isnan(dense):
            raise InputError(f"the dense network of {self} is not known", "add its 'dense_value' to accuracy.csv")
        return drop * abs(dense) / 100 if relative else drop

    def _crossing(self, low: float, high: float, allowed: float) -> float:
        """The last number in [low, high) that loses at most `allowed`, which `low` does, on a stretch where losses only grow."""
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if self.loss(middle) <= allowed else (low, middle)
        return low


EXACT = 1e-9  # published figures are decimals: 76.69 - 76.38 in floats is not quite 0.31
POINT = 1e-6  # how near one must ask to mean a point, where there is nothing else


def _mixture(left: Variant, right: Variant, sparsity: float) -> Variant:
    """Between two states of one network, layer by layer; what was counted of their masks (`stored`) holds for neither mixture."""
    share = (sparsity - left.sparsity) / (right.sparsity - left.sparsity)
    return replace(
        right, nominal_sparsity=sparsity, density=_between(left.density, right.density, share), stored={},
        activation_density=_between(left.activations, right.activations, share), densities_from=_origin(left, right),
        accuracy_kind="interpolated, " + _joined(", ", [left.accuracy_kind, right.accuracy_kind]),
        accuracy_source=_joined("; ", [left.accuracy_source, right.accuracy_source]),
    )  # fmt: skip


def _between(left: np.ndarray, right: np.ndarray, share: float) -> np.ndarray:
    return left + share * (right - left)


def _origin(left: Variant, right: Variant) -> str:
    """Where the densities of a mixture are from: 'a mixture of 0.8 and 0.9 (uniform)'."""
    kinds = _joined(", ", filter(None, (left.densities_from, right.densities_from)))
    return f"a mixture of {left.nominal_sparsity:g} and {right.nominal_sparsity:g}" + (f" ({kinds})" if kinds else "")


def _joined(separator: str, texts: Iterable[str]) -> str:
    """Every part of every text, once."""
    return separator.join(dict.fromkeys(part for text in texts for part in text.split(separator)))


def accuracy_curves(workload: Workload, method: str | None = None, pattern: str | None = None) -> tuple[Curve, ...]:
    """The accuracy curves of a workload, of one of its methods, of one pattern; raises InputError where there is none."""
    measured = [v for v in workload.variants if np.isfinite(v.accuracy)]
    if not measured:
        raise InputError(f"no variant of '{workload.name}' has an accuracy", "add some to its accuracy.csv, or take another workload")
    wanted = None if pattern is None else parse(pattern)
    chosen = [v for v in measured if method in (None, v.method) and wanted in (None, v.pattern)]
    if not chosen:
        asked = " ".join(str(part) for part in (method, wanted) if part is not None)
        known = {" ".join([v.method] * (method is not None) + [str(v.pattern)] * (wanted is not None)) for v in measured}
        raise InputError(f"'{workload.name}' has no accuracies of '{asked}'", did_you_mean(asked, known))
    grouped: dict[Any, list[Variant]] = {}
    for v in chosen:
        grouped.setdefault((v.method, v.pattern, v.metric, v.combined_with, repr(v.dense_accuracy)), []).append(v)
    return tuple(_curve(workload, states) for states in grouped.values())


def _curve(workload: Workload, states: list[Variant]) -> Curve:
    first, metric = states[0], workload.description.metrics[states[0].metric]
    comparable = not first.combined_with and np.isfinite(first.dense_accuracy)
    anchored = comparable and first.pattern.density is None and min(v.sparsity for v in states) > 0
    every = [_anchor(workload.dense, states), *states] if anchored else states
    # Of two states of one sparsity the worse counts: an answer must hold for both.
    ordered = sorted(every, key=lambda v: (v.sparsity, loss(v.accuracy, 0.0, metric.direction)))
    return Curve(tuple({round(v.sparsity, 9): v for v in ordered}.values()), metric)


def _anchor(dense: Variant, states: list[Variant]) -> Variant:
    """The dense network as the source of the states has it."""
    return replace(
        dense, accuracy=states[0].dense_accuracy, dense_accuracy=states[0].dense_accuracy, metric=states[0].metric,
        accuracy_kind=_joined(", ", (v.accuracy_kind for v in states)), accuracy_source=_joined("; ", (v.accuracy_source for v in states)),
    )  # fmt: skip
