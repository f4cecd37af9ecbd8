"""Comparison of a measured time or speedup with its prediction under each fidelity, and error statistics of many."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import kendalltau

from dse.model.efficiency.probability import probability_above_one
from dse.schema.model_options import Fidelity

MIN_DIFFERENCE = 0.1  # relative difference of two measured values that a model with 10% error can be expected to rank
MAX_RANKED = 2000  # values whose pairs are ranked, a random sample of more
MIN_GAIN = 0.05  # relative difference of a speedup from one beyond which its side of one matters
PROBABILITY_BINS = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
Values = Float[np.ndarray, "comparison"]


@dataclass(frozen=True)
class Comparison:
    """One launch, speedup or network; the fields are keys of the JSON output."""

    set: str
    split: str  # a key of SPLIT_TITLES
    device: str
    kernel: str
    family: str
    dtype: str
    quantity: str  # 'time' [s] or 'speedup'
    shape: tuple[int, ...]  # (m, k, n), (batch,) of a network, or the sizes of an attention
    sparsity: float
    measured: float
    predicted: dict[Fidelity, float]
    interval: tuple[float, float] | None = None  # 90% interval of `calibrated`; None if it is not known


def compute_errors(comparisons: Sequence[Comparison], fidelity: Fidelity) -> dict[str, float]:
    """Error statistics of one fidelity.

    `mape`, `median`, `worst`: of the absolute relative error. `bias`: mean relative error. `tau`: Kendall's tau of the ranking, and
    `tau_apart` among the pairs whose measured values differ by more than 10%. `right_side`: share of the measured speedups more than 5%
    from one that are predicted on the right side of one. `coverage`: share of the measured values within the 90% intervals of
    `calibrated`. NaN where there is nothing to count.
    """
    measured = np.array([comparison.measured for comparison in comparisons])
    predicted = np.array([comparison.predicted[fidelity] for comparison in comparisons])
    relative_error = predicted / measured - 1
    has_ranks = len(set(measured)) > 1 and len(set(predicted)) > 1
    return {
        "mape": float(np.abs(relative_error).mean()),
        "median": float(np.median(np.abs(relative_error))),
        "worst": float(np.abs(relative_error).max()),
        "bias": float(relative_error.mean()),
        "tau": float(np.asarray(kendalltau(measured, predicted))[0]) if has_ranks else np.nan,
        "tau_apart": _tau_of_distant_pairs(np.log(measured), np.log(predicted)),
        "right_side": _right_side(measured, predicted) if comparisons[0].quantity == "speedup" else np.nan,
        "coverage": _coverage(comparisons) if fidelity == "calibrated" else np.nan,
    }


def mean_error(comparisons: Sequence[Comparison], fidelity: Fidelity) -> float:
    """Mean absolute relative error of one fidelity."""
    return float(np.mean([abs(each.predicted[fidelity] / each.measured - 1) for each in comparisons]))


def _right_side(measured: Values, predicted: Values) -> float:
    """Share of the speedups more than `MIN_GAIN` from one whose prediction is above one if and only if they are."""
    is_clear = np.abs(measured - 1) > MIN_GAIN
    return float(((measured > 1) == (predicted > 1))[is_clear].mean()) if is_clear.any() else np.nan


def _coverage(comparisons: Sequence[Comparison]) -> float:
    """Share of the measured values within their intervals, of those that have one."""
    within = [c.interval[0] <= c.measured <= c.interval[1] for c in comparisons if c.interval is not None]
    return float(np.mean(within)) if within else np.nan


def _tau_of_distant_pairs(log_measured: Values, log_predicted: Values) -> float:
    """Share of the pairs far enough apart that are ranked correctly, less the share of those that are not."""
    if len(log_measured) > MAX_RANKED:
        sample = np.random.default_rng(0).choice(len(log_measured), MAX_RANKED, replace=False)
        log_measured, log_predicted = log_measured[sample], log_predicted[sample]
    one, other = np.triu_indices(len(log_measured), 1)
    is_distant = np.abs(log_measured[one] - log_measured[other]) > np.log1p(MIN_DIFFERENCE)
    agreement = np.sign(log_measured[one] - log_measured[other]) * np.sign(log_predicted[one] - log_predicted[other])
    return float(agreement[is_distant].mean()) if is_distant.any() else np.nan


class Reliability(NamedTuple):
    """Speedups whose probability to exceed one was predicted to be between `low` and `high`, and the share of them that did."""

    low: float
    high: float
    speedups: int
    mean_predicted: float
    share_faster: float


def compute_reliability(comparisons: Sequence[Comparison]) -> list[Reliability]:
    """The reliability of the probabilities of speedups that have an interval, by bins that are not empty."""
    speedups = [c for c in comparisons if c.quantity == "speedup" and c.interval is not None]
    if not speedups:
        return []
    low, high = np.array([c.interval for c in speedups]).T
    predicted = probability_above_one(np.array([c.predicted["calibrated"] for c in speedups]), low, high)
    is_faster, bins = np.array([c.measured > 1 for c in speedups]), np.digitize(predicted, PROBABILITY_BINS[1:-1])
    return [
        Reliability(*ends, int(own.sum()), float(predicted[own].mean()), float(is_faster[own].mean()))
        for number, ends in enumerate(pairwise(PROBABILITY_BINS))
        if (own := bins == number).any()
    ]
