"""Compare estimated accuracies with published ones, the network of each left out.

Errors are relative: where higher is better, the difference over the dense value; of a perplexity, the logarithm of the ratio. What the
estimate learns (the penalty of perplexities, and the factors of intervals) is learned without the network that is predicted, and so are the
alternatives. Perplexities and other metrics are learned separately.

The estimate has to beat these alternatives:

read_at_equivalent the value of the curve at the equivalent sparsity, also for perplexities
same_sparsity      no penalty: a pattern is as accurate as unstructured pruning at its own sparsity
constant_loss      each pattern loses a constant more, relative to the dense value (perplexities: a constant factor)
constant_shift     each pattern is equivalent to a sparsity whose logit is a constant above that of its own
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from dse.accuracy.estimation_models import (
    EXPONENT,
    EquivalentSparsityModel,
    EstimationModel,
    StructurePenaltyModel,
    logit_shift,
    sensitivity,
)
from dse.accuracy.interval import conformal_quantile, smallest_factor
from dse.accuracy.published_points import NO_SIZE, PublishedGrid, PublishedPoint
from dse.accuracy.reference_curve import ReferenceCurve
from dse.accuracy.retained import RetainedShares, retained_shares
from dse.accuracy.saliency import SaliencyKind
from dse.accuracy.weight_distribution import sampled_layers
from dse.sparsity.pattern import Pattern

MODELS = ("estimate", "read_at_equivalent", "same_sparsity", "constant_loss", "constant_shift")
SharesOf = Callable[[PublishedGrid], RetainedShares]
STEPS = 2001  # sparsities at which a curve is searched for a value


@dataclass(frozen=True, eq=False)
class Case:
    """A published point, and the sparsity [1] at which unstructured pruning keeps as much saliency."""

    grid: PublishedGrid
    point: PublishedPoint
    equivalent_sparsity: float

    @property
    def curve(self) -> ReferenceCurve:
        return self.grid.curve

    @property
    def sparsity(self) -> float:
        """That of the pattern [1]."""
        return self.point.request.sparsity

    @property
    def place(self) -> tuple[ReferenceCurve, float, float]:
        """What the models take."""
        return self.curve, self.sparsity, self.equivalent_sparsity

    def error(self, value: float) -> float:
        """Relative error of a value (see the module); positive is too optimistic."""
        if self.curve.is_logarithmic:
            return float(np.log(self.point.value / value))
        return (value - self.point.value) / self.curve.dense_value

    def score(self, model: EstimationModel) -> float:
        """The smallest factor at which the interval contains the published value."""
        return smallest_factor(lambda factor: model.interval(*self.place, factor), self.point.value)


Group = Callable[[Case], object]


def network_of(case: Case) -> object:
    """The network of a case, to be left out."""
    return case.grid.network


def pattern_of(case: Case) -> object:
    """The pattern of a case, to be left out."""
    return case.point.request.pattern


def assumed_shares(grid: PublishedGrid, kind: SaliencyKind = "l1") -> RetainedShares:
    """Shares that patterns keep of assumed weights."""
    requests = tuple(point.request for point in grid.points)
    return retained_shares(sampled_layers([(1.0, NO_SIZE, NO_SIZE)], kind), requests)


def make_cases(grids: Sequence[PublishedGrid], shares_of: SharesOf = assumed_shares) -> list[Case]:
    """A case for each published point."""
    cases = []
    for grid in grids:
        shares = shares_of(grid)
        cases += [Case(grid, point, shares.equivalent_sparsity(point.request)) for point in grid.points]
    return cases


def fit_model(cases: Sequence[Case], is_logarithmic: bool) -> EstimationModel:
    """The model of a kind of metric, learned from the cases with metrics of that kind."""
    comparable = [case for case in cases if case.curve.is_logarithmic == is_logarithmic]
    plain = StructurePenaltyModel(_fit_penalty(comparable)) if is_logarithmic else EquivalentSparsityModel()
    scores = [case.score(plain) for case in comparable if plain.reaches(*case.place)]
    factor = conformal_quantile(scores) if scores else np.nan
    return StructurePenaltyModel(plain.penalty, factor) if isinstance(plain, StructurePenaltyModel) else EquivalentSparsityModel(factor)


def _fit_penalty(cases: Sequence[Case]) -> float:
    """The median penalty over cases with a perplexity."""
    return float(np.median([_observed_penalty(case) for case in cases])) if cases else np.nan


def _observed_penalty(case: Case) -> float:
    shift = logit_shift(case.sparsity, case.equivalent_sparsity)
    excess = _excess_loss(case.curve, case.sparsity, case.point.value)
    return excess / (sensitivity(case.curve, case.sparsity) * shift**EXPONENT)


def coverage(cases: Sequence[Case], group: Group) -> float:
    """Share of the published values that their intervals contain, the group of each left out [1]."""
    covered = list[bool]()
    for is_logarithmic in (False, True):
        comparable = [case for case in cases if case.curve.is_logarithmic == is_logarithmic]
        for left_out in dict.fromkeys(map(group, comparable)):
            model = fit_model([case for case in comparable if group(case) != left_out], is_logarithmic)
            own = [case for case in comparable if group(case) == left_out and model.reaches(*case.place)]
            covered += [model.interval(*case.place).contains(case.point.value) for case in own]
    return float(np.mean(covered))


@dataclass(frozen=True, eq=False)
class _LearnedModels:
    """What the estimate and its alternatives learn from some cases: `loss` and `shift` are constants of each pattern."""

    estimate: EstimationModel
    loss: Mapping[Pattern, float]
    shift: Mapping[Pattern, float]

    @classmethod
    def from_cases(cls, cases: Sequence[Case], is_logarithmic: bool) -> "_LearnedModels":
        """Learn from cases whose metrics are comparable."""
        loss, shift = (
            _mean_by_pattern([(c.point.request.pattern, quantity(c.curve, c.sparsity, c.point.value)) for c in cases])
            for quantity in (_excess_loss, _observed_shift)
        )
        return cls(fit_model(cases, is_logarithmic), loss, shift)

    def values(self, case: Case) -> dict[str, float]:
        """The value that each of `MODELS` predicts; NaN where it predicts none."""
        (curve, sparsity, equivalent), pattern = case.place, case.point.request.pattern
        shifted = _shifted_sparsity(sparsity, self.shift.get(pattern, np.nan))
        return {
            "estimate": self.estimate.value(*case.place) if self.estimate.reaches(*case.place) else np.nan,
            "read_at_equivalent": curve.value(equivalent) if curve.reaches(equivalent) else np.nan,
            "same_sparsity": curve.value(sparsity),
            "constant_loss": _with_excess_loss(curve, sparsity, self.loss.get(pattern, np.nan)),
            "constant_shift": curve.value(shifted) if curve.reaches(shifted) else np.nan,
        }


@dataclass(frozen=True)
class ModelErrors:
    """Mean absolute relative error of each of `MODELS` over the points that it predicts, and over those that all predict [1]."""

    points: dict[str, int]
    errors: dict[str, float]
    common_points: int
    common_errors: dict[str, float]


def model_errors(cases: Sequence[Case], is_logarithmic: bool) -> ModelErrors:
    """Errors over the cases with a metric of this kind: those of perplexities and of accuracies have different scales."""
    comparable = [case for case in cases if case.curve.is_logarithmic == is_logarithmic]
    learned = {
        network: _LearnedModels.from_cases([case for case in comparable if network_of(case) != network], is_logarithmic)
        for network in dict.fromkeys(map(network_of, comparable))
    }
    values = [learned[network_of(case)].values(case) for case in comparable]
    errors = np.array([[abs(case.error(value[model])) for model in MODELS] for case, value in zip(comparable, values, strict=True)])
    common = errors[np.isfinite(errors).all(axis=1)]
    return ModelErrors(
        dict(zip(MODELS, map(int, np.isfinite(errors).sum(axis=0)), strict=True)),
        dict(zip(MODELS, map(float, np.nanmean(errors, axis=0)), strict=True)),
        len(common),
        dict(zip(MODELS, map(float, common.mean(axis=0)), strict=True)),
    )


def _excess_loss(curve: ReferenceCurve, sparsity: float, value: float) -> float:
    """Loss of a value beyond that of unstructured pruning at a sparsity, over the dense value; of a perplexity, the log ratio."""
    reference = curve.value(sparsity)
    return float(np.log(value / reference)) if curve.is_logarithmic else (reference - value) / curve.dense_value


def _with_excess_loss(curve: ReferenceCurve, sparsity: float, excess: float) -> float:
    """The value at a sparsity, worse by an excess loss (see `_excess_loss`)."""
    reference = curve.value(sparsity)
    return reference * float(np.exp(excess)) if curve.is_logarithmic else reference - excess * curve.dense_value


def _observed_shift(curve: ReferenceCurve, sparsity: float, value: float) -> float:
    """How far the logit of the sparsity at which the curve has this value is above that of the sparsity of the pattern."""
    low, high = curve.range
    sparsities = np.linspace(max(low, 1e-3), high, STEPS)
    observed = sparsities[np.abs(curve.extended(sparsities) - value).argmin()]
    return float(logit(observed) - logit(sparsity))


def _shifted_sparsity(sparsity: float, shift: float) -> float:
    """The sparsity whose logit is larger by a shift."""
    return float(expit(logit(sparsity) + shift))


def _mean_by_pattern(values: Sequence[tuple[Pattern, float]]) -> Mapping[Pattern, float]:
    """The mean value of each pattern."""
    groups: dict[Pattern, list[float]] = {}
    for pattern, value in values:
        groups.setdefault(pattern, []).append(value)
    return {pattern: float(np.mean(group)) for pattern, group in groups.items()}
