"""Exact attribution of the difference between two designs to the numbers in which they differ, by Shapley values.

The part of a factor is its mean change of the result over all orders in which the factors may change (Shapley 1953, "A Value for n-Person
Games"), so the parts add up to the difference and do not depend on an order.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float


def attribute_differences(
    start: Float[np.ndarray, "column"],
    end: Float[np.ndarray, "column"],
    factors: Sequence[int] | np.ndarray,
    evaluate: Callable[[Float[np.ndarray, "mixture column"]], Float[np.ndarray, "mixture"]],
) -> tuple[Float[np.ndarray, "mixture"], Float[np.ndarray, "factor"]]:
    """Results of all mixtures of two designs (number m takes factor f of `end` if bit f of m is set), and the part of each factor."""
    count = len(factors)
    masks = np.arange(2**count)
    takes_end = (masks[:, None] >> np.arange(count)) & 1 == 1
    mixtures = np.tile(start, (len(masks), 1))
    mixtures[:, factors] = np.where(takes_end, end[factors], start[factors])
    values = evaluate(mixtures)
    return values, shapley_values(values, count)


def shapley_values(values: Float[np.ndarray, "mixture"], count: int) -> Float[np.ndarray, "factor"]:
    """Shapley values of `count` factors from the result of each set of them, numbered by bits."""
    masks = np.arange(2**count)
    sizes = np.array([mask.bit_count() for mask in masks.tolist()])
    weights = np.array([math.factorial(size) * math.factorial(count - 1 - size) / math.factorial(count) for size in range(count)])
    parts = []
    for factor in range(count):
        without = masks[(masks >> factor) & 1 == 0]
        parts.append(float((weights[sizes[without]] * (values[without | (1 << factor)] - values[without])).sum()))
    return np.array(parts)
