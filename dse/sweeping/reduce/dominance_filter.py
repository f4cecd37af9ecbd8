"""A fast filter that drops points which a Pareto front certainly dominates."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

BUCKETS = 2**16  # of a filter, which then stays in the cache


@dataclass(frozen=True)
class DominanceFilter:
    """Lookup table of the values that a front reaches; all objectives are minimised.

    The space of all objectives but the last is divided into buckets. `lowest` holds for each bucket the lowest last objective among the
    points of the front that are below the bucket in all other objectives. `low` is the lower corner of the table, `scale` the number of
    buckets per unit of an objective.
    """

    low: Float[np.ndarray, "other"]
    scale: Float[np.ndarray, "other"]
    lowest: Float[np.ndarray, "..."]

    @classmethod
    def from_front(cls, front: Float[np.ndarray, "point objective"]) -> "DominanceFilter":
        others = front.shape[1] - 1
        size = int(BUCKETS ** (1 / max(1, others)))
        low, high = (end(front[:, :-1], axis=0, initial=start) for end, start in ((np.min, np.inf), (np.max, -np.inf)))
        with np.errstate(all="ignore"):
            scale = np.where(high > low, size / (high - low), 1.0)
        lowest = np.full((size,) * others, np.inf)
        bucket = np.maximum(np.floor((front[:, :-1] - low) * scale) + 1, 1)  # the first bucket that is completely above a point
        inside = (bucket < size).all(axis=1)
        np.minimum.at(lowest.reshape(-1), _flat_index(bucket[inside], lowest.shape), front[inside, -1])
        for axis in range(others):
            lowest = np.minimum.accumulate(lowest, axis=axis)
        return cls(low, scale, lowest)

    def select(self, columns: Sequence[Float[np.ndarray, "..."]]) -> Int[np.ndarray, "selected"]:
        """Flat indices of the points that may be on the front; the columns, one for each objective, broadcast."""
        with jax.enable_x64(True):
            return np.flatnonzero(_may_be_on_front(tuple(columns), self.low, self.scale, self.lowest))


def _flat_index(bucket: Float[np.ndarray, "point other"], shape: tuple[int, ...]) -> Int[np.ndarray, "point"]:
    return np.asarray(np.ravel_multi_index(tuple(bucket.astype(int).T), shape)) if shape else np.zeros(len(bucket), int)


@jax.jit
def _may_be_on_front(columns: tuple[Float[Array, "..."], ...], low: Array, scale: Array, lowest: Array) -> Bool[Array, "..."]:
    others = zip(columns[:-1], low, scale, lowest.shape, strict=True)
    bucket = tuple(jnp.clip((column - start) * per_unit, 0, size - 1).astype(jnp.int32) for column, start, per_unit, size in others)
    return ~(lowest[bucket] < columns[-1])
