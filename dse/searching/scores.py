"""Scores of designs, by which they are ranked: objectives to be minimised, and how far each constraint is exceeded."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from dse.schema.search import SearchSpec
from dse.searching.over_networks import OverNetworks, Results

SIGNIFICANT_DIGITS = 12  # of scores: differences between compilers must not decide

Objectives = Float[np.ndarray, "design objective"]
Excess = Float[np.ndarray, "design constraint"]


def score_designs(
    search: SearchSpec, over_networks: OverNetworks, combined: Results[np.ndarray], each: Results[np.ndarray], count: int
) -> tuple[Objectives, Excess]:
    """Objectives and excesses of `count` designs from their results, over the networks and of each.

    Infinite where an expression has no finite real value.
    """
    with np.errstate(all="ignore"):
        objectives = [sign * expression.evaluate(combined) * np.ones(count) for expression, sign in search.objectives]
        excess = [over_networks.excess(bound, combined, each) * np.ones(count) for bound in search.bounds]
    return _stack(objectives, count), _stack(excess, count)


def round_scores(values: np.ndarray) -> np.ndarray:
    """Values to `SIGNIFICANT_DIGITS`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (SIGNIFICANT_DIGITS - 1 - np.floor(np.log10(np.abs(values))))
        return np.where(np.isfinite(scale) & np.isfinite(values), np.round(values * scale) / scale, values)


def _stack(columns: Sequence[np.ndarray], count: int) -> Float[np.ndarray, "design column"]:
    return round_scores(np.stack([_to_finite(column) for column in columns], axis=1)) if columns else np.zeros((count, 0))


def _to_finite(values: np.ndarray) -> np.ndarray:
    """Replace what is not a finite real number by infinity, the worst value."""
    return np.where(np.isfinite(values) & (np.imag(values) == 0), np.real(values), np.inf)
