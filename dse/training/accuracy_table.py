"""Accuracies of a study: the mean over the seeds, with the 90% interval of that mean."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

METHOD = "lr_rewinding"
CONFIDENCE = 0.9


class MeanAccuracy(NamedTuple):
    """The mean accuracy of several seeds in percent; no interval for a single seed."""

    value: float
    low: float | None
    high: float | None


def mean_accuracy(accuracies: Float[np.ndarray, " seed"]) -> MeanAccuracy:
    """The mean and Student's t interval of the mean (Student 1908, Biometrika 6(1)): mean +- t(0.95, seeds - 1) s / sqrt(seeds).

    It holds the spread over initial weights and orders of the images. All seeds are tested on the same images. It is cut at 0 and 100 percent.
    """
    from scipy import stats

    number, mean = len(accuracies), float(accuracies.mean())
    if number == 1:
        return MeanAccuracy(round(mean, 4), None, None)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, number - 1) * accuracies.std(ddof=1) / np.sqrt(number))
    return MeanAccuracy(round(mean, 4), round(max(mean - half, 0.0), 4), round(min(mean + half, 100.0), 4))
