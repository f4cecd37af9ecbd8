"""Estimate for metrics of which higher is better: the accuracy of unstructured pruning at the equivalent sparsity.

Two errors widen its interval: the equivalent sparsity is off, and a network that is trained again has another accuracy. Both spreads
grow with one factor: the logit of the equivalent sparsity by SPARSITY_SPREAD, the value by VALUE_SPREAD of the dense value. Coarse patterns
have a factor of their own, from three small networks that were trained under them: saliency does not know that a row without any weight is
lost.
"""

from dataclasses import dataclass

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
