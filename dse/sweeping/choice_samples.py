"""How often each variant is the best of those that are feasible, over samples of the accuracies."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

ROUNDING = 1e-9  # of sums of shares


def choice_shares(
    scores: Float[np.ndarray, "cell variant"], feasible: Bool[np.ndarray, "variant sample"]
) -> Float[np.ndarray, "cell variant"]:
    """The share of the samples in which each variant has the least score of the feasible ones; of equal ones it is the first.

    A variant of infinite score is never chosen, so shares sum to less than 1 where a sample has no feasible variant. Which variants are
    feasible does not depend on the cell, so cells with the same ranking of the variants share their result.
    """
    rankings, cells = np.unique(_rankings(scores, feasible), axis=0, return_inverse=True)
    shares = np.stack([_shares_of_ranking(ranking, feasible) for ranking in rankings])
    return shares[cells.ravel()]


def _rankings(scores: Float[np.ndarray, "cell variant"], feasible: Bool[np.ndarray, "variant sample"]) -> Int[np.ndarray, "cell variant"]:
    """The variants that may be chosen, best first, up to the first one that is always feasible; then -1."""
    order = np.argsort(scores, axis=1, kind="stable")
    is_finite = np.isfinite(np.take_along_axis(scores, order, axis=1))
    always = np.all(feasible, axis=1)[order] & is_finite
    after_certain = np.cumsum(always, axis=1) - always > 0
    return np.where(is_finite & np.any(feasible, axis=1)[order] & ~after_certain, order, -1)


def _shares_of_ranking(ranking: Int[np.ndarray, " variant"], feasible: Bool[np.ndarray, "variant sample"]) -> Float[np.ndarray, " variant"]:
    shares, open_samples = np.zeros(len(feasible)), np.ones(feasible.shape[1], bool)
    for variant in ranking[ranking >= 0]:
        shares[variant] = (open_samples & feasible[variant]).mean()
        open_samples &= ~feasible[variant]
    return shares


def weighted_quantiles(
    values: Float[np.ndarray, "cell variant"], shares: Float[np.ndarray, "cell variant"], quantiles: Sequence[float]
) -> Float[np.ndarray, "quantile cell"]:
    """Quantiles of the value of the variant that is chosen: the least value that at least that share of the samples do not exceed."""
    order = np.argsort(values, axis=1, kind="stable")
    cumulative = np.cumsum(np.take_along_axis(shares, order, axis=1), axis=1)
    positions = [(cumulative >= quantile - ROUNDING).argmax(axis=1) for quantile in quantiles]
    return np.stack([np.take_along_axis(values, np.take_along_axis(order, each[:, None], axis=1), axis=1)[:, 0] for each in positions])
