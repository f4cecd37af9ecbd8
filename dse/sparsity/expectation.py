"""What a random mask is expected to look like, exactly: every mask with as many kept places is equally likely.

A rank has `fibres` fibres of `size` places each; `kept` of all its places are kept, wherever they fall. Then one fibre keeps a
hypergeometric number of places. All functions take floats or arrays of them.
"""

from functools import lru_cache
from math import ceil, sqrt
from typing import Any

import numpy as np

from dse.sparsity.pattern import FloatOrArray


def log_binomial(n: FloatOrArray, k: FloatOrArray) -> FloatOrArray:
    """ln C(n, k); -inf where it is 0."""
    from scipy.special import gammaln  # which, as those below, takes long to import

    possible = (k >= 0) & (k <= n)
    n, k = np.where(possible, n, 1.0), np.where(possible, k, 0.0)
    return np.where(possible, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), -np.inf)


def occupied_fibres(fibres: FloatOrArray, size: FloatOrArray, kept: FloatOrArray) -> FloatOrArray:
    """Fibres that keep anything."""
    return fibres * -np.expm1(np.minimum(log_binomial(fibres * size - size, kept) - log_binomial(fibres * size, kept), 0.0))


def kept_deviation(fibres: FloatOrArray, size: FloatOrArray, kept: FloatOrArray) -> FloatOrArray:
    """Standard deviation of how many places one fibre keeps."""
    places = fibres * size
    density = kept / places
    return np.sqrt(size * density * (1 - density) * (places - size) / np.maximum(places - 1, 1))


@np.vectorize
def gap_padding(fibres: float, size: float, kept: float, step: float) -> float:
    """Places to keep beside `kept` so that in no fibre `step` or more dropped ones precede a kept one.

    A gap of g takes floor(g / step) of them, so the mean is the sum over i of the chance that i * step dropped places precede one.
    """
    if kept <= 0 or size <= step:
        return 0.0
    longest_gap = min(size - 1, 50 * step + 40 * fibres * size / kept)  # longer gaps have no chance
    gaps = step * np.arange(1, longest_gap // step + 1)
    places = fibres * size
    logs = log_binomial(places - gaps - 1, kept - 1) - log_binomial(places, kept)
    return float(fibres * ((size - gaps) * np.exp(logs)).sum())


@np.vectorize
def longest_fibre(fibres: float, size: float, kept: float) -> float:
    """How many places the fullest fibre keeps, on average."""
    shortest, chance = longest_distribution(round(fibres), round(size), round(kept))
    return shortest + float((1 - chance).sum())


@np.vectorize
def aligned_bits(fibres: float, size: float, kept: float, width: float, align: float) -> float:
    """Bits of all fibres, `width` for each kept place, each fibre rounded up to a multiple of `align`."""
    from scipy.stats import hypergeom

    law: Any = hypergeom(round(fibres * size), round(kept), round(size))
    mean, spread = kept / fibres, 12 * kept_deviation(fibres, size, kept) + 1
    lengths = np.arange(max(0, int(mean - spread)), min(int(size), int(mean + spread) + 1) + 1)
    return float(fibres * (law.pmf(lengths) * np.ceil(lengths * width / align) * align).sum())


@lru_cache(maxsize=4096)
def longest_distribution(fibres: int, size: int, kept: int) -> tuple[int, np.ndarray]:
    """(a, [P(longest <= a), P(longest <= a + 1), ...]), up to 1.

    Fibres that keep independent binomial numbers keep, if these are known to add up to `kept`, what a random mask keeps (Levin
    1981, "A representation for multinomial cumulative distribution functions"). The chance that they do, none above a bound, is
    read off the characteristic function of the bounded binomial; its trapezoid sum converges geometrically.
    """
    least, density = ceil(kept / fibres), kept / (fibres * size)
    if density in (0.0, 1.0) or fibres == 1:
        return least, np.ones(1)
    from scipy.stats import binom

    law: Any = binom(size, density)
    spread = 12 * sqrt(size * density * (1 - density)) + 12
    counts = np.arange(max(0, int(size * density - spread)), min(size, int(size * density + spread)) + 1)
    angles, weights = _angles(fibres * size, density)
    terms = law.pmf(counts)[:, None] * np.exp(1j * np.outer(counts - kept / fibres, angles))
    bounded = np.real(np.cumsum(terms, axis=0) ** fibres @ weights)
    return least, np.clip(bounded[counts >= least] / bounded[-1], 0.0, 1.0)


def _angles(places: int, density: float) -> tuple[np.ndarray, np.ndarray]:
    """Where the characteristic function of a sum over `places` is not negligible; weights of its trapezoid sum over half the circle."""
    period = min(places + 1, ceil(30 * sqrt(places * density * (1 - density))) + 200)
    number = np.arange(min(period // 2, 150) + 1)
    return 2 * np.pi * number / period, np.where((number == 0) | (2 * number == period), 1.0, 2.0)
