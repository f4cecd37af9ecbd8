"""The models that estimate the metric of a pattern from the measured curve of unstructured pruning.

Metrics of which higher is better (`EquivalentSparsityModel`): the accuracy of unstructured pruning at the equivalent sparsity. Two errors
widen its interval: the equivalent sparsity is off, and a network that is trained again has another accuracy. Both spreads grow with one
factor: the logit of the equivalent sparsity by SPARSITY_SPREAD, the value by VALUE_SPREAD of the dense value. Coarse patterns have a factor
of their own, from three small networks that were trained under them: saliency does not know that a row without any weight is lost.

Perplexities and other metrics of which lower is better (`StructurePenaltyModel`): unstructured pruning at the same sparsity, times a
penalty.

    ln(value / unstructured value) = PENALTY sqrt(ln(unstructured value / dense value)) shift^EXPONENT

`shift` is the difference of the logits of the equivalent sparsity and of the sparsity of the pattern. A perplexity that unstructured
pruning has raised more is raised more by structure, too. Published curves of large language models are too coarse to be read at the
equivalent sparsity: they grow by orders of magnitude between two points. PENALTY is the median over the published points, which are 2:4
and 4:8 of one-shot pruning at a sparsity of 50%. A larger shift than theirs is read from the curve, and is at least as bad as theirs.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, logit

from dse.accuracy.interval import Interval
from dse.accuracy.reference_curve import ReferenceCurve
from dse.sparsity.kinds import NM, VNM, Block
from dse.sparsity.pattern import Pattern

SPARSITY_SPREAD = 1.0  # of the logit of the equivalent sparsity
VALUE_SPREAD = 0.02  # share of the dense value
INTERVAL_FACTOR = 0.256  # quantile over the published points (`dse validate accuracy`)
COARSE_FACTOR = 2.21  # that of coarse patterns: quantile over the digits networks
COARSE_TILE = 16  # weights that are kept or dropped together, from which on a pattern is coarse
STEPS = 33
PENALTY = 7.17  # median over the published points (`dse validate accuracy`)
EXPONENT = 1.5
MAX_SHIFT = 0.25  # of the published points: 2:4
MIN_LOSS = 1e-3  # logarithm of the ratio to the dense value, where pruning loses nothing
LOG_SPREAD = 0.02  # logarithm: differences between runs
PENALTY_INTERVAL_FACTOR = 1.016  # quantile over the published points (`dse validate accuracy`)


def is_coarse(pattern: Pattern) -> bool:
    """Whether a pattern keeps or drops many weights together: large blocks, rows, columns, long vectors, blocks of patterns."""
    match pattern:
        case Block(rows, columns):
            return rows * columns >= COARSE_TILE
        case NM(_, _, rows):
            return rows >= COARSE_TILE
        case _:
            return not isinstance(pattern, VNM)


@dataclass(frozen=True)
class EquivalentSparsityModel:
    """Reads a value from the curve; `factor` is that of 90% intervals."""

    factor: float = INTERVAL_FACTOR

    def reaches(self, curve: ReferenceCurve, sparsity: float, equivalent: float) -> bool:
        """Whether the curve was measured at the equivalent sparsity."""
        return curve.reaches(equivalent)

    def value(self, curve: ReferenceCurve, sparsity: float, equivalent: float) -> float:
        """The metric of a pattern with this sparsity and equivalent sparsity; raises InputError where the curve was not measured."""
        return curve.value(equivalent)

    def interval(self, curve: ReferenceCurve, sparsity: float, equivalent: float, factor: float | None = None) -> Interval:
        """The interval around the value. Where it reaches beyond the measured range, the curve is continued by a line."""
        factor = self.factor if factor is None else factor
        center = logit(np.clip(equivalent, 1e-6, 1 - 1e-6))
        around = expit(center + factor * SPARSITY_SPREAD * np.linspace(-1, 1, STEPS))
        values = np.append(curve.extended(around), curve.value(equivalent))
        spread = factor * VALUE_SPREAD * abs(curve.dense_value)
        low, high = float(values.min() - spread), float(values.max() + spread)
        return Interval(max(low, 0.0) if curve.is_nonnegative else low, high)


def logit_shift(sparsity: float, equivalent: float) -> float:
    """Difference of the logits of an equivalent sparsity and of a sparsity; 0 for unstructured pruning."""
    low, high = np.clip([sparsity, equivalent], 1e-6, 1 - 1e-6)
    return float(max(logit(high) - logit(low), 0.0))


def sensitivity(curve: ReferenceCurve, sparsity: float) -> float:
    """The square root of the logarithmic loss of unstructured pruning at a sparsity."""
    return float(np.sqrt(max(np.log(curve.value(sparsity) / curve.dense_value), MIN_LOSS)))


@dataclass(frozen=True)
class StructurePenaltyModel:
    """Multiplies the value of unstructured pruning at the same sparsity; `factor` is that of 90% intervals.

    `on_curve`: the model of larger shifts.
    """

    penalty: float = PENALTY
    factor: float = PENALTY_INTERVAL_FACTOR
    on_curve: EquivalentSparsityModel = field(default_factory=EquivalentSparsityModel)

    def reaches(self, curve: ReferenceCurve, sparsity: float, equivalent: float) -> bool:
        """Whether the curve was measured where it is read."""
        return curve.reaches(sparsity) and (self._is_small(sparsity, equivalent) or curve.reaches(equivalent))

    def value(self, curve: ReferenceCurve, sparsity: float, equivalent: float) -> float:
        """The metric of a pattern with this sparsity and equivalent sparsity; raises InputError where the curve was not measured."""
        penalised = curve.value(sparsity) * float(np.exp(self._log_penalty(curve, sparsity, equivalent)))
        return penalised if self._is_small(sparsity, equivalent) else max(penalised, curve.value(equivalent))

    def interval(self, curve: ReferenceCurve, sparsity: float, equivalent: float, factor: float | None = None) -> Interval:
        """The interval around the value: its logarithm varies with the penalty. Larger shifts vary as the curve does, too."""
        factor, value = self.factor if factor is None else factor, self.value(curve, sparsity, equivalent)
        spread = float(np.exp(factor * (self._log_penalty(curve, sparsity, equivalent) + LOG_SPREAD)))
        low, high = value / spread, value * spread
        if not self._is_small(sparsity, equivalent):
            read = self.on_curve.interval(curve, sparsity, equivalent)
            low, high = min(low, read.low), max(high, read.high)
        return Interval(low, high)

    def _is_small(self, sparsity: float, equivalent: float) -> bool:
        return logit_shift(sparsity, equivalent) <= MAX_SHIFT

    def _log_penalty(self, curve: ReferenceCurve, sparsity: float, equivalent: float) -> float:
        """The logarithm of the penalty; that of MAX_SHIFT for larger shifts."""
        shift = min(logit_shift(sparsity, equivalent), MAX_SHIFT)
        return self.penalty * sensitivity(curve, sparsity) * shift**EXPONENT


EstimationModel = EquivalentSparsityModel | StructurePenaltyModel


def model_for(curve: ReferenceCurve, pattern: Pattern) -> EstimationModel:
    """The model that has the smaller error for the metric of a curve, with the interval of the pattern."""
    on_curve = EquivalentSparsityModel(COARSE_FACTOR) if is_coarse(pattern) else EquivalentSparsityModel()
    return StructurePenaltyModel(on_curve=on_curve) if curve.is_logarithmic else on_curve
