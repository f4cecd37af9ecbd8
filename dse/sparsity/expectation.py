"""Exact means over random masks: every mask with the same number of kept places is equally likely.

A rank has `fibres` fibres of `size` places each, and `kept` of all its places are kept. The number of places that one fibre keeps then has
a hypergeometric distribution. All functions take floats or arrays.
"""

from functools import lru_cache
from math import ceil, sqrt
from typing import Any

import numpy as np

from dse.sparsity.pattern import FloatOrArray


def log_binomial(n: FloatOrArray, k: FloatOrArray) -> FloatOrArray:
    """ln C(n, k); -inf where C(n, k) is 0."""
    from scipy.special import gammaln  # takes long to import, as scipy.stats below

    possible = (k >= 0) & (k <= n)
    n, k = np.where(possible, n, 1.0), np.where(possible, k, 0.0)
    return np.where(possible, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), -np.inf)


def any_of(probability: FloatOrArray, trials: FloatOrArray) -> FloatOrArray:
    """Probability of at least one success in independent trials, each with the same probability."""
    return np.where(trials == 1, probability, -np.expm1(trials * np.log1p(-np.minimum(probability, 1 - 1e-16))))


def occupied_fibres(fibres: FloatOrArray, size: FloatOrArray, kept: FloatOrArray) -> FloatOrArray:
    """Mean number of fibres that keep any place."""
    return fibres * -np.expm1(np.minimum(log_binomial(fibres * size - size, kept) - log_binomial(fibres * size, kept), 0.0))


def kept_deviation(fibres: FloatOrArray, size: FloatOrArray, kept: FloatOrArray) -> FloatOrArray:
    """Standard deviation of the number of places that one fibre keeps."""
    places = fibres * size
    density = kept / places
    return np.sqrt(size * density * (1 - density) * (places - size) / np.maximum(places - 1, 1))


@np.vectorize
def gap_padding(fibres: float, size: float, kept: float, step: float) -> float:
    """Mean number of places to add to the kept ones, so that no kept place has `step` or more dropped places before it in its fibre.

    A gap of g places takes floor(g / step) added ones. The mean is the sum over i of the probability that i * step dropped places precede
    a kept one.
    """
    if kept <= 0 or size <= step:
        return 0.0
    longest_gap = min(size - 1, 50 * step + 40 * fibres * size / kept)  # longer gaps have a negligible probability
    gaps = step * np.arange(1, longest_gap // step + 1)
    places = fibres * size
    logs = log_binomial(places - gaps - 1, kept - 1) - log_binomial(places, kept)
    return float(fibres * ((size - gaps) * np.exp(logs)).sum())


@np.vectorize
def longest_fibre(fibres: float, size: float, kept: float) -> float:
    """Mean number of places that the fullest fibre keeps."""
    shortest, probabilities = longest_distribution(round(fibres), round(size), round(kept))
    return shortest + float((1 - probabilities).sum())


@np.vectorize
def aligned_bits(fibres: float, size: float, kept: float, width: float, align: float) -> float:
    """Mean bits of all fibres together: `width` for each kept place, rounded up to a multiple of `align` for each fibre."""
    from scipy.stats import hypergeom

    distribution: Any = hypergeom(round(fibres * size), round(kept), round(size))
    mean, margin = kept / fibres, 12 * kept_deviation(fibres, size, kept) + 1
    lengths = np.arange(max(0, int(mean - margin)), min(int(size), int(mean + margin) + 1) + 1)
    return float(fibres * (distribution.pmf(lengths) * np.ceil(lengths * width / align) * align).sum())


@lru_cache(maxsize=4096)
def longest_distribution(fibres: int, size: int, kept: int) -> tuple[int, np.ndarray]:
    """The distribution of the length of the fullest fibre, as (a, [P(length <= a), P(length <= a + 1), ..., 1]).

    Independent binomial lengths, given that they sum to `kept`, have the distribution of a random mask (Levin 1981, "A representation for
    multinomial cumulative distribution functions"). The probability that they sum to `kept` with none above a bound is a trapezoid sum
    over the characteristic function of the bounded binomial, which converges geometrically.
    """
    shortest, density = ceil(kept / fibres), kept / (fibres * size)
    if density in (0.0, 1.0) or fibres == 1:
        return shortest, np.ones(1)
    from scipy.stats import binom

    distribution: Any = binom(size, density)
    margin = 12 * sqrt(size * density * (1 - density)) + 12
    counts = np.arange(max(0, int(size * density - margin)), min(size, int(size * density + margin)) + 1)
    angles, weights = _angles(fibres * size, density)
    terms = distribution.pmf(counts)[:, None] * np.exp(1j * np.outer(counts - kept / fibres, angles))
    bounded = np.real(np.cumsum(terms, axis=0) ** fibres @ weights)
    return shortest, np.clip(bounded[counts >= shortest] / bounded[-1], 0.0, 1.0)


def _angles(places: int, density: float) -> tuple[np.ndarray, np.ndarray]:
    """Angles at which the characteristic function of a sum over `places` is not negligible, and the weights of its trapezoid sum."""
    period = min(places + 1, ceil(30 * sqrt(places * density * (1 - density))) + 200)
    number = np.arange(min(period // 2, 150) + 1)
    return 2 * np.pi * number / period, np.where((number == 0) | (2 * number == period), 1.0, 2.0)
