"""How far a predicted time may be off: intervals that hold 90% of the times of launches that a fit has not seen.

The half width is a conformal quantile of leave-one-shape-out residuals; it grows with the distance of a launch from what was measured.
Times are log-normal about the prediction, one error for all launches of a kernel, so that sums of layers are not averaged into certainty.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dse.calibrate.fit import Fitted
    from dse.calibrate.launches import Launches

LEVEL = 0.9
DEVIATIONS = NormalDist().inv_cdf((1 + LEVEL) / 2)  # of a normal distribution, to either side
MOST_GROUPS = 20  # of shapes left out together; up to so many are left out one by one
SAMPLES = 20
# An interval outside the measured range is as many times wider for each unit of log distance, and wider by so much of the logarithm.
# At a distance of 3, a factor of 20, it grows no further.
WIDER, MORE, FARTHEST = 0.5, 0.1, 3.0


def groups(launches: "Launches") -> np.ndarray:
    """Number of the group that the shape of each launch is left out with [launch]."""
    shapes = sorted(set(launches.shapes))
    return np.array([shapes.index(shape) % MOST_GROUPS for shape in launches.shapes])


def held_out(fitted: "Fitted", launches: "Launches") -> Iterator[tuple[np.ndarray, "Fitted"]]:
    """Refit without each group of shapes in turn; yields which launches were left out, and the fit."""
    from dse.calibrate.fit import by_depth, refit

    group = groups(launches)
    for number in range(group.max() + 1):
        weight = (group != number).astype(float)
        without = refit(fitted, launches, weight=weight)
        if fitted.deeper:
            without = by_depth(refit(replace(fitted, tile=None, deeper=()), launches, weight=weight), launches, weight)
        yield group == number, without


def residuals(fitted: "Fitted", launches: "Launches") -> np.ndarray:
    """Logarithm of predicted over measured time, each shape predicted by a fit without it [launch]."""
    found = np.zeros(len(launches))
    for out, without in held_out(fitted, launches):
        found[out] = np.log(without.seconds(launches) / launches.time)[out]
    return found


def half_width(residuals: np.ndarray, group: np.ndarray) -> float:
    """Half of the 90% interval of the logarithm of a time: the conformal quantile of the residuals of other shapes.

    Of fewer than 20 groups the quantile is among the largest residuals, so that Student's t for as many groups counts where it is wider.
    """
    from scipy.special import stdtrit

    ordered, number = np.sort(np.abs(residuals)), len(set(group.tolist()))
    rank = min(len(ordered), int(np.ceil(LEVEL * (len(ordered) + 1))))
    student = stdtrit(number, (1 + LEVEL) / 2) * np.sqrt(np.mean(residuals**2) * (1 + 1 / number))
    return float(max(ordered[rank - 1], student if number < MOST_GROUPS else 0.0))


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
