"""90% intervals of a time that a fitted kernel predicts: their width, and samples of them.

An interval grows with the distance of a launch from what was measured. Times are log-normal about the prediction, one error for all
launches of a kernel, so that sums of layers are not averaged into certainty.
"""

from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

LEVEL = 0.9


DEVIATIONS = NormalDist().inv_cdf((1 + LEVEL) / 2)  # of a normal distribution, to either side


SAMPLES = 20


# An interval outside the measured range is as many times wider for each unit of log distance, and wider by so much of the logarithm.
# At a distance of 3, a factor of 20, it grows no further.
WIDER, MORE, FARTHEST = 0.5, 0.1, 3.0


def beyond(value: np.ndarray, low: float, high: float) -> np.ndarray:
    """Log distance of values from a range [1]."""
    return np.maximum(0.0, np.maximum(np.log(low / value), np.log(value / high)))


def widened(half_width: float, distance: np.ndarray) -> np.ndarray:
    """Half width of launches at a log distance from what was measured."""
    distance = np.minimum(distance, FARTHEST)
    return half_width * (1 + WIDER * distance) + MORE * distance


@cache
def scores(name: str) -> np.ndarray:
    """Normal deviates of a kernel [sample], stratified, so that their 5% and 95% quantiles are exact; their order is the kernel's own."""
    levels = np.array([NormalDist().inv_cdf((number + 0.5) / SAMPLES) for number in range(SAMPLES)])
    return np.random.default_rng([*name.encode()]).permutation(levels * DEVIATIONS / np.quantile(levels, (1 + LEVEL) / 2))


QUANTILES = {"low": 0.05, "high": 0.95}  # nine tenths of the draws lie between


def quantiles(values: Any, arrays: Any = np) -> Any:
    """The quantiles of `QUANTILES` over the first axis, linear between order statistics, stacked along the first axis.

    Only the few smallest and largest values are sorted, by compare and exchange: no array is written in between. `arrays`: numpy, or its
    counterpart in JAX.
    """
    count = len(values)
    results = []
    for share in QUANTILES.values():
        if share <= 0.5:
            index, part = divmod(share * (count - 1), 1)
            ordered = _extremes(values, min(int(index) + 2, count), arrays.minimum, arrays.maximum)
        else:
            index, part = divmod((1 - share) * (count - 1), 1)
            ordered = _extremes(values, min(int(index) + 2, count), arrays.maximum, arrays.minimum)
        low, high = ordered[int(index)], ordered[min(int(index) + 1, count - 1)]
        results.append(low + part * (high - low))
    return arrays.stack(results)


def _extremes(values: Any, count: int, better: Callable[[Any, Any], Any], worse: Callable[[Any, Any], Any]) -> list[Any]:
    """The `count` best values along the first axis, the best first."""
    kept: list[Any] = []
    for number in range(len(values)):
        value = values[number]
        for rank, other in enumerate(kept):
            kept[rank], value = better(other, value), worse(other, value)
        if len(kept) < count:
            kept.append(value)
    return kept
