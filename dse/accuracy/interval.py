"""90% intervals of estimates, whose width is measured: split conformal prediction (Lei et al. 2018, JASA 113).

An interval grows with a factor. The score of a published value is the smallest factor at which its interval contains it, and the factor
that is used is the quantile of these scores, so nothing is assumed about the shape of the errors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from jaxtyping import Float

COVERAGE = 0.9
MAX_FACTOR = 100.0


@dataclass(frozen=True)
class Interval:
    """The ends of an interval of a metric, low <= high."""

    low: float
    high: float

    def contains(self, value: float) -> bool:
        """Whether a value is in the interval, its ends included."""
        return self.low <= value <= self.high


def smallest_factor(interval: Callable[[float], Interval], value: float) -> float:
    """The smallest factor at which an interval contains a value; infinite if none up to `MAX_FACTOR` does."""
    low, high = 0.0, MAX_FACTOR
    if not interval(high).contains(value):
        return inf
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if interval(middle).contains(value) else (middle, high)
    return high


def conformal_quantile(scores: Sequence[float] | Float[np.ndarray, "score"], coverage: float = COVERAGE) -> float:
    """The score that a new one stays below with probability `coverage`, if it is exchangeable with these; the largest of few scores."""
    rank = min(ceil(coverage * (len(scores) + 1)), len(scores))
    return float(np.sort(scores)[rank - 1])
