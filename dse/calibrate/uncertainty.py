"""Leave-one-shape-out residuals of a fit, and the conformal half width of the 90% interval that follows from them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dse.model.efficiency.interval import LEVEL

if TYPE_CHECKING:
    from dse.model.efficiency.kernel_model import KernelModel
    from dse.model.efficiency.launches import KernelLaunches

MOST_GROUPS = 20  # of shapes left out together; up to so many are left out one by one


def groups(launches: "KernelLaunches") -> np.ndarray:
    """Number of the group that the shape of each launch is left out with [launch]."""
    shapes = sorted(set(launches.shapes))
    return np.array([shapes.index(shape) % MOST_GROUPS for shape in launches.shapes])


def held_out(fitted: "KernelModel", launches: "KernelLaunches") -> Iterator[tuple[np.ndarray, "KernelModel"]]:
    """Refit without each group of shapes in turn; yields which launches were left out, and the fit."""
    from dse.calibrate.fit import by_depth, refit

    group = groups(launches)
    for number in range(group.max() + 1):
        weight = (group != number).astype(float)
        without = refit(fitted, launches, weight=weight)
        if fitted.deeper:
            without = by_depth(refit(replace(fitted, tile=None, deeper=()), launches, weight=weight), launches, weight)
        yield group == number, without


def residuals(fitted: "KernelModel", launches: "KernelLaunches") -> np.ndarray:
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
