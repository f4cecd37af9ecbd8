"""Measured times that fall as the work grows, which no model that is monotone in the work predicts: a library chose badly, or noise."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from dse.calibrate.validate.left_out_shapes import FittedSet
from dse.model.efficiency.kernels.launches import KernelLaunches

SMALLEST_FALL = 0.05  # share of a time by which it falls, from which on it counts
MIN_SHARE = 0.01  # of the neighbouring launches of a kernel, from which on they are reported


def describe_falling_times(fitted: FittedSet) -> Iterator[str]:
    """Each kernel of a set with launches that take longer than the same product with more columns, how many, and by what factor."""
    for key, launches in fitted.launches.items():
        ratios = falling_ratios(launches)
        if len(ratios) and (falls := ratios > 1 + SMALLEST_FALL).mean() >= MIN_SHARE:
            what = f"{falls.sum()} of {len(ratios)} launches take longer than the one with the next greater n"
            yield f"{fitted.measurements.name}: {key}: {what}, up to {ratios.max():.1f} times"


def falling_ratios(launches: KernelLaunches) -> np.ndarray:
    """Time of each launch over that with the next greater n and the same m, k and density."""
    by_product: dict[tuple[float, ...], list[tuple[float, float]]] = {}
    for m, k, n, density, time in zip(launches.m, launches.k, launches.n, launches.density, launches.time, strict=True):
        by_product.setdefault((m, k, density), []).append((n, time))
    neighbours = (pair for times in by_product.values() for pair in pairwise(sorted(times)))
    return np.array([time / with_more for (n, time), (more, with_more) in neighbours if more > n])
