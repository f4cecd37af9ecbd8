"""A smooth maximum of times, so that fits have gradients where two resources take equally long.

It is the 4-norm, as that of two resources in `dse.model.roofline.four_norm`, which is faster on grids.
"""

from typing import Any

import jax.numpy as jnp

NORM = 4.0
SHORTEST = 1e-15  # [s]: two shorter times are zero


def smooth_maximum(a: Any, b: Any) -> Any:
    """The 4-norm of two times [s], scaled by the larger one so that it neither overflows nor underflows."""
    larger = jnp.maximum(jnp.maximum(a, b), SHORTEST)
    return larger * ((a / larger) ** NORM + (b / larger) ** NORM + 1e-300) ** (1 / NORM)
