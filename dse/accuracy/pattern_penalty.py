"""Alternatives to the estimate, learned from other networks: what it has to beat.

same_sparsity      no penalty: a pattern is as accurate as unstructured pruning at its own sparsity
read_at_equivalent the value of the curve at the equivalent sparsity, also for perplexities
constant_loss      each pattern loses a constant more, relative to the dense value (perplexities: a constant factor)
constant_shift     each pattern is equivalent to a sparsity whose logit is a constant above that of its own
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit, logit

from dse.accuracy.reference_curve import ReferenceCurve
from dse.sparsity.pattern import Pattern

STEPS = 2001


def excess_loss(curve: ReferenceCurve, sparsity: float, value: float) -> float:
    """Loss of a value beyond that of unstructured pruning at a sparsity, over the dense value; of a perplexity, the log ratio."""
    reference = curve.value(sparsity)
    return float(np.log(value / reference)) if curve.is_logarithmic else (reference - value) / curve.dense_value


def with_excess_loss(curve: ReferenceCurve, sparsity: float, excess: float) -> float:
    """The value at a sparsity, worse by an excess loss (see `excess_loss`)."""
    reference = curve.value(sparsity)
    return reference * float(np.exp(excess)) if curve.is_logarithmic else reference - excess * curve.dense_value


def observed_shift(curve: ReferenceCurve, sparsity: float, value: float) -> float:
    """How far the logit of the sparsity at which the curve has this value is above that of the sparsity of the pattern."""
    low, high = curve.range
    sparsities = np.linspace(max(low, 1e-3), high, STEPS)
    observed = sparsities[np.abs(curve.extended(sparsities) - value).argmin()]
    return float(logit(observed) - logit(sparsity))


def shifted_sparsity(sparsity: float, shift: float) -> float:
    """The sparsity whose logit is larger by a shift."""
    return float(expit(logit(sparsity) + shift))


def mean_by_pattern(values: Sequence[tuple[Pattern, float]]) -> Mapping[Pattern, float]:
    """The mean value of each pattern."""
    groups: dict[Pattern, list[float]] = {}
    for pattern, value in values:
        groups.setdefault(pattern, []).append(value)
    return {pattern: float(np.mean(group)) for pattern, group in groups.items()}
