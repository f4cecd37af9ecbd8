"""90% intervals of predicted times: their width, and samples of them.

Times are log-normal about the prediction, with one error for all launches of a kernel, so that it does not average out over the layers of a
network. The interval of a launch widens with its distance from what was measured.
"""

from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from dse.model.efficiency.launches import PerLaunch

LEVEL = 0.9  # probability of an interval
QUANTILES = {"low": 0.05, "high": 0.95}  # its ends
SAMPLES = 20
Z_SCORE = NormalDist().inv_cdf((1 + LEVEL) / 2)  # half width of an interval in standard deviations

# Outside the measured range an interval widens by RELATIVE_GROWTH of itself and by ABSOLUTE_GROWTH for each unit of log distance, up to
# MAX_LOG_DISTANCE, which is a factor of 20.
RELATIVE_GROWTH, ABSOLUTE_GROWTH, MAX_LOG_DISTANCE = 0.5, 0.1, 3.0


def log_distance(value: PerLaunch, low: float, high: float) -> PerLaunch:
    """Distance of the logarithm of each value from that of a range, 0 inside."""
    return np.maximum(0.0, np.maximum(np.log(low / value), np.log(value / high)))


def widen_half_width(half_width: PerLaunch | float, distance: PerLaunch) -> PerLaunch:
    """Half width of the logarithm of the time of launches at a log distance from what was measured."""
    distance = np.minimum(distance, MAX_LOG_DISTANCE)
    return half_width * (1 + RELATIVE_GROWTH * distance) + ABSOLUTE_GROWTH * distance


@cache
def normal_samples(kernel: str) -> Float[np.ndarray, "sample"]:
    """Samples of a normal variable whose 5% and 95% quantiles are exactly those of an interval, in an order that depends on the kernel.

    They are stratified, and shuffled so that the errors of different kernels are independent.
    """
    levels = np.array([NormalDist().inv_cdf((number + 0.5) / SAMPLES) for number in range(SAMPLES)])
    return np.random.default_rng([*kernel.encode()]).permutation(levels * Z_SCORE / np.quantile(levels, (1 + LEVEL) / 2))


def quantiles(values: Any, arrays: ModuleType = np) -> Any:
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
    best: list[Any] = []
    for number in range(len(values)):
        value = values[number]
        for rank, other in enumerate(best):
            best[rank], value = better(other, value), worse(other, value)
        if len(best) < count:
            best.append(value)
    return best
