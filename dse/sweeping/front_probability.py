"""The probability that each point of a Pareto front belongs to it, over samples of uncertain accuracies.

In a sample, a point is dominated if a variant has a point that is nowhere worse in the other objectives and loses no more accuracy, and
is better in one of them. The accuracies of a sample do not depend on the design, so the other objectives are compared only once.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from dse.sweeping.pareto_front import nondominated

MAX_POINTS = 10_000  # of a front: above, the comparisons take seconds

Objectives = Float[np.ndarray, "point objective"]  # those besides the accuracy, minimised


def front_probability(
    front: Objectives,
    front_variants: Int[np.ndarray, " point"],
    points: Objectives,
    point_variants: Int[np.ndarray, " point"],
    losses: Float[np.ndarray, "variant sample"],
) -> Float[np.ndarray, " point"]:
    """The share of the samples in which no point dominates each point of a front [point].

    Args:
        front: objectives of the points of the front besides the accuracy, all minimised.
        front_variants: the variant of each of them.
        points: objectives of all points of the dataset, rounded like those of the front.
        point_variants: the variant of each of them.
        losses: samples of the loss of accuracy of each variant, or of what else of the accuracy is minimised.
    """
    variants = np.unique(point_variants)
    best = [_nondominated(points[point_variants == variant]) for variant in variants]
    no_worse, better = (np.stack(rows, axis=-1) for rows in zip(*(_compare(each, front) for each in best), strict=True))
    cases, case_of_point = np.unique(np.column_stack([front_variants, no_worse, better]), axis=0, return_inverse=True)
    count = len(variants)
    shares = [_share_on_front(case[0], case[1 : count + 1] > 0, case[count + 1 :] > 0, losses, variants) for case in cases]
    return np.array(shares)[case_of_point.ravel()]


def _nondominated(points: Objectives) -> Objectives:
    return points[:1] if not points.shape[1] else points[nondominated(points)]


def _compare(points: Objectives, front: Objectives) -> tuple[Bool[np.ndarray, " point"], Bool[np.ndarray, " point"]]:
    """Whether any of some points is nowhere worse than each point of a front, and whether any of these is better somewhere."""
    no_worse, better = np.zeros(len(front), bool), np.zeros(len(front), bool)
    for point in points:
        is_no_worse = (point <= front).all(axis=1)
        no_worse |= is_no_worse
        better |= is_no_worse & (point < front).any(axis=1)
    return no_worse, better


def _share_on_front(
    variant: int,
    no_worse: Bool[np.ndarray, " variant"],
    better: Bool[np.ndarray, " variant"],
    losses: Float[np.ndarray, "variant sample"],
    variants: Int[np.ndarray, " variant"],
) -> float:
    own, others = losses[variant], losses[variants]
    dominates = (better[:, None] & (others <= own)) | (no_worse[:, None] & (others < own))
    return float(1 - dominates.any(axis=0).mean())
