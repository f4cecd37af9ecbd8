"""90% intervals of predicted times: their width, and samples of them.

Times are log-normal about the prediction, with one error for all launches of a kernel, so that it does not average out over the layers of a
network. The interval of a launch widens with its distance from what was measured. The time of a whole network has an error of its own:
what its kernels do not explain, and the scatter of measured runs.
"""

from collections.abc import Callable, Iterable
from functools import cache
from statistics import NormalDist
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

PerLaunch = Float[np.ndarray, "launch"]
LEVEL = 0.9  # probability of an interval
QUANTILES = {"low": round((1 - LEVEL) / 2, 9), "high": round((1 + LEVEL) / 2, 9)}  # its ends
SAMPLES = 20
Z_SCORE = NormalDist().inv_cdf((1 + LEVEL) / 2)  # half width of an interval in standard deviations

# Standard deviation of the logarithm of a network's time, in addition to the errors of its kernels. By device, 868 speedups of networks in
# vLLM would need 0.03 to 0.06 for 90% in their intervals (dse/calibrate/measured/silicon); dense and pruned runs err independently.
NETWORK_DEVIATION = 0.04

# Outside the measured range an interval widens by RELATIVE_GROWTH of itself and by ABSOLUTE_GROWTH for each unit of log distance, up to
# MAX_LOG_DISTANCE, which is a factor of 20.
RELATIVE_GROWTH, ABSOLUTE_GROWTH, MAX_LOG_DISTANCE = 0.5, 0.1, 3.0
WIDEST = float(np.log(4))  # half width beyond which no interval widens (assumed: kernels of other devices err by less)


def log_distance(value: PerLaunch, low: float, high: float) -> PerLaunch:
    """Distance of the logarithm of each value from that of a range, 0 inside."""
    return np.maximum(0.0, np.maximum(np.log(low / value), np.log(value / high)))


def widen_half_width(half_width: PerLaunch | float, distance: PerLaunch) -> PerLaunch:
    """Half width of the logarithm of the time of launches at a log distance from what was measured.

    At most `WIDEST`, or as wide as at a distance of 0.
    """
    distance = np.minimum(distance, MAX_LOG_DISTANCE)
    widened = half_width * (1 + RELATIVE_GROWTH * distance) + ABSOLUTE_GROWTH * distance
    return np.minimum(widened, np.maximum(half_width, WIDEST))


@cache
def normal_levels() -> Float[np.ndarray, "sample"]:
    """Ascending samples of a standard normal variable: midpoints of equally probable ranges, scaled to exact 5% and 95% quantiles."""
    levels = np.array([NormalDist().inv_cdf((number + 0.5) / SAMPLES) for number in range(SAMPLES)])
    return levels * Z_SCORE / np.quantile(levels, (1 + LEVEL) / 2)


@cache
def normal_samples(name: str) -> Float[np.ndarray, "sample"]:
    """Samples of a standard normal variable, shuffled by `name` so that the errors of different kernels are independent."""
    return np.random.default_rng([*name.encode()]).permutation(normal_levels())


def combine_errors(errors: Iterable[tuple[str, Float[np.ndarray, "*component launch"]]]) -> Float[np.ndarray, "*component sample launch"]:
    """Samples of the sum of independent normal errors, each with a name and its standard deviation in each launch (with a sign).

    Few samples of a sum spread more or less than the sum does. So they only decide the order of the samples of each launch, and thereby how
    launches err together; the values are those of a normal variable with the standard deviation of the sum.
    """
    named = list(errors)
    total = sum(normal_samples(name)[:, None] * deviation[..., None, :] for name, deviation in named)
    deviation = np.sqrt(sum(deviation**2 for _, deviation in named))
    ranks = np.argsort(np.argsort(total, axis=-2), axis=-2)
    return normal_levels()[ranks] * deviation[..., None, :]


def sample_factors(name: str, half_width: PerLaunch) -> Float[np.ndarray, "sample launch"]:
    """Samples of actual over predicted time of the launches of one kernel, whose logarithms have 90% intervals; the first is 1."""
    logarithms = normal_samples(name)[:, None] / Z_SCORE * half_width
    return np.exp(np.concatenate([np.zeros((1, logarithms.shape[1])), logarithms]))


def add_deviation(ends: Any, deviation: float, array_module: ModuleType = np) -> Any:
    """Interval ends, [quantile, ...] as of `quantiles`, with a further independent error of a standard deviation of the logarithm."""
    low, high = ends
    half_width = array_module.log(high / low) / 2
    growth = array_module.exp(array_module.hypot(half_width, Z_SCORE * deviation) - half_width)
    return array_module.stack([low / growth, high * growth])


def network_interval(samples: Any, runs: int = 1, array_module: ModuleType = np) -> Any:
    """90% interval [quantile, ...] of a network's time, or of a ratio of the times of two `runs`, from samples of the errors of kernels.

    Without any (`runs` = 0), as for a network over itself, it is that of the samples.
    """
    return add_deviation(quantiles(samples, array_module), NETWORK_DEVIATION * runs**0.5, array_module)


def quantiles(values: Any, array_module: ModuleType = np) -> Any:
    """The 5% and the 95% quantile over the first axis, [quantile, ...], interpolated linearly as by `numpy.quantile`.

    Only the few smallest and largest values are sorted, which saves memory traffic. `array_module`: numpy or `jax.numpy`.
    """
    count = len(values)
    results = []
    for share in QUANTILES.values():
        if share <= 0.5:
            index, part = divmod(share * (count - 1), 1)
            ordered = _extremes(values, min(int(index) + 2, count), array_module.minimum, array_module.maximum)
        else:
            index, part = divmod((1 - share) * (count - 1), 1)
            ordered = _extremes(values, min(int(index) + 2, count), array_module.maximum, array_module.minimum)
        low, high = ordered[int(index)], ordered[min(int(index) + 1, count - 1)]
        results.append(low + part * (high - low))
    return array_module.stack(results)


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
