"""The latency of many layers on designs that differ in two rates only, looked up in sorted breakpoints instead of summed.

Where every execution takes max(a u, b v) for two inverse rates u and v, a layer takes v f(u / v) with f piecewise linear, and so do all
layers together: between two breakpoints the latency is slope * u + height * v. Breakpoints are sorted, and slopes and heights summed, once;
then a design costs one search, however many layers there are.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Bool, Float, Int

from dse.base.array_types import AnyArray
from dse.model.roofline import XLA_OPTIONS

BUCKET_BITS = 13  # of a ratio, which select a bucket of a few breakpoints, in a table that the cache holds


class Table(NamedTuple):
    """A piecewise-linear function as arrays for `evaluate_table`.

    `first`: how many breakpoints lie below each bucket. The bits of a ratio, less those of the lowest breakpoint, are shifted to its
    bucket.
    """

    breakpoints: Float[AnyArray, "piece"]  # the last one is infinite
    slopes: Float[AnyArray, "piece"]
    heights: Float[AnyArray, "piece"]
    first: Int[AnyArray, "bucket"]
    lowest: np.signedinteger | Array
    shift: np.signedinteger | Array


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """Latency slope * u + height * v [s], where u / v is at most the breakpoint of its piece and above that of the piece before."""

    breakpoints: Float[np.ndarray, "piece"]
    slopes: Float[np.ndarray, "piece"]
    heights: Float[np.ndarray, "piece"]

    @classmethod
    def of_layers(
        cls, a: Float[np.ndarray, "layer execution"], b: Float[np.ndarray, "layer execution"], legal: Bool[np.ndarray, "layer execution"]
    ) -> "PiecewiseLinear":
        """The sum over layers of the minimum over legal executions of max(a u, b v)."""
        changes = _possible_changes(a, b, legal)
        slopes, heights = _pieces(a, b, legal, _between(changes))
        changing = (np.diff(slopes) != 0) | (np.diff(heights) != 0)
        breakpoints, index = np.unique(changes[changing], return_inverse=True)
        steps = (np.bincount(index, np.diff(values)[changing], len(breakpoints)) for values in (slopes, heights))
        starts = (values[:, 0].sum() for values in (slopes, heights))
        sums = (np.cumsum([start, *step]) for start, step in zip(starts, steps, strict=True))
        return cls(np.append(breakpoints, np.inf), *sums)

    def table(self, precision: np.dtype, pieces: int = 0) -> tuple[Table, int]:
        """Arrays with at least `pieces` pieces, and the number of halvings that narrow a bucket down to one breakpoint."""
        missing, integer = max(0, pieces - len(self.breakpoints)), np.dtype(f"i{precision.itemsize}")
        breakpoints, slopes, heights = (
            np.pad(values, (0, missing), mode="edge").astype(precision) for values in (self.breakpoints, self.slopes, self.heights)
        )
        bits = breakpoints[np.isfinite(breakpoints)].view(integer).astype(np.int64)  # positive numbers are ordered as their bits are
        lowest, span = (bits[0], int(bits[-1] - bits[0])) if len(bits) else (np.int64(0), 0)
        shift = max(0, span.bit_length() - BUCKET_BITS)
        first = np.searchsorted(bits, lowest + (np.arange(2**BUCKET_BITS + 1) << shift)).astype(np.int32)
        halvings = int(np.diff(first).max()).bit_length()
        return Table(breakpoints, slopes, heights, first, integer.type(lowest), integer.type(shift)), halvings


def _possible_changes(a: np.ndarray, b: np.ndarray, legal: np.ndarray) -> Float[np.ndarray, "layer change"]:
    """Ratios u / v at which a layer may change its piece, ascending: where the a u of one legal execution is the b v of another."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (b[:, None, :] / a[:, :, None]).reshape(len(a), -1)
    both = (legal[:, None, :] & legal[:, :, None]).reshape(len(a), -1)
    return np.sort(np.where((ratios > 0) & np.isfinite(ratios) & both, ratios, 1.0), axis=1)  # any ratio does where there is none


def _between(changes: Float[np.ndarray, "layer change"]) -> Float[np.ndarray, "layer piece"]:
    """A ratio below the first change, one between each two, and one above the last."""
    return np.concatenate([changes[:, :1] / 2, np.sqrt(changes[:, :-1] * changes[:, 1:]), changes[:, -1:] * 2], axis=1)


def _pieces(
    a: np.ndarray, b: np.ndarray, legal: np.ndarray, ratios: Float[np.ndarray, "layer piece"]
) -> list[Float[np.ndarray, "layer piece"]]:
    """Slope and height of the piece that each layer is on at its ratios."""
    by_u, by_v = a[..., None] * ratios[:, None], b[..., None]
    fastest = np.where(legal[..., None], np.maximum(by_u, by_v), np.inf).argmin(axis=1)[:, None]
    pairs = (np.where(by_u > by_v, a[..., None], 0.0), np.where(by_u > by_v, 0.0, by_v))
    return [np.take_along_axis(values, fastest, axis=1)[:, 0] for values in pairs]


@partial(jax.jit, static_argnames="halvings", compiler_options=XLA_OPTIONS)
def evaluate_table(
    table: Table, rows: Float[AnyArray, "1 rate row"], columns: Float[AnyArray, "1 rate column"], *, halvings: int
) -> Float[Array, "row column"]:
    """Latency [s] on rows x columns of designs, whose inverse rates u and v are those of the row times those of the column."""
    u, v = rows[0, :, :, None] * columns[0, :, None, :]
    ratio = u / v
    bucket = (lax.bitcast_convert_type(ratio, table.lowest.dtype) - table.lowest) >> table.shift
    piece = _take(table.first, jnp.clip(bucket, 0, len(table.first) - 1))
    for halving in reversed(range(halvings)):
        further = piece + 2**halving
        piece = jnp.where(_take(table.breakpoints, jnp.minimum(further, len(table.breakpoints)) - 1) < ratio, further, piece)
    return _take(table.slopes, piece) * u + _take(table.heights, piece) * v


def _take(values: AnyArray, indices: Array) -> Array:
    return jnp.asarray(values).at[indices].get(mode="promise_in_bounds")
