"""The probability that a quantity with a 90% interval exceeds one, such as a speedup."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dse.model.efficiency.interval import Z_SCORE


def probability_above_one(estimate: Any, low: Any, high: Any) -> Any:
    """Probability that a quantity exceeds one, from its estimate and the ends of its 90% interval, of equal shapes.

    The logarithm is normal on each side of the estimate, with the width that the interval has on that side: 95% where the lower end is one,
    50% where the estimate is one. Without a width it is certain on which side of one the quantity is.
    """
    with jax.enable_x64(True):
        return np.asarray(_probability(*np.broadcast_arrays(estimate, low, high)))


@jax.jit
def _probability(estimate: Any, low: Any, high: Any) -> Array:
    log_estimate = jnp.log(estimate)
    log_end = jnp.log(jnp.where(log_estimate > 0, low, high))
    half_width = jnp.where(log_estimate > 0, log_estimate - log_end, log_end - log_estimate)
    score = jnp.where(log_estimate == 0, 0.0, log_estimate / jnp.maximum(half_width, 0.0))
    return jax.lax.erfc(-Z_SCORE / 2**0.5 * score) / 2  # the normal distribution; that of SciPy takes half a second to import
