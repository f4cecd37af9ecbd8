"""The time of many layers on designs that differ in two rates alone: looked up among sorted layers instead of added up.

Where every execution takes max(a u, b v) for two inverse rates u and v, a layer takes v f(u / v) with f piecewise linear, and so do all of
them together: between two breaks the latency is slope * u + height * v. Breaks are sorted, and slopes and heights summed, once; then a
design costs one search, however many layers there are.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Float, Int

from dse.model.roofline import COMPILED

BITS = 13  # of a ratio, by which it is sorted into buckets: of a few breaks each, in a table that the cache holds

trace_count = 0  # of `looked_up`: a sweep compiles once


class Table(NamedTuple):
    """`first`: how many breaks lie below each bucket. The bits of a ratio, less those of the lowest break, are shifted to its bucket."""

    breaks: Float[Any, "line"]  # of the last one infinite
    slopes: Float[Any, "line"]
    heights: Float[Any, "line"]
    first: Int[Any, "bucket"]
    lowest: Any
    shift: Any


@dataclass(frozen=True, eq=False)
class Lines:
    """Latency slope * u + height * v [s], where u / v is not above the break of its line and above that of the line before."""

    breaks: Float[np.ndarray, "line"]
    slopes: Float[np.ndarray, "line"]
    heights: Float[np.ndarray, "line"]

    @classmethod
    def of(cls, a: Float[np.ndarray, "layer execution"], b: Float[np.ndarray, "layer execution"]) -> "Lines":
        """Of layers that take the least of max(a u, b v) over executions; an illegal one has infinite a."""
        turns = _turns(a, b)
        slopes, heights = _on(a, b, _between(turns))
        turning = (np.diff(slopes) != 0) | (np.diff(heights) != 0)
        breaks, which = np.unique(turns[turning], return_inverse=True)
        changes = (np.bincount(which, np.diff(values)[turning], len(breaks)) for values in (slopes, heights))
        first = (values[:, 0].sum() for values in (slopes, heights))
        return cls(np.append(breaks, np.inf), *(np.cumsum([start, *change]) for start, change in zip(first, changes, strict=True)))

    def table(self, precision: np.dtype, lines: int = 0) -> tuple[Table, int]:
        """As arrays of at least so many lines; and how often a bucket has to be halved until a break is found."""
        more, bits = max(0, lines - len(self.breaks)), np.dtype(f"i{precision.itemsize}")
        breaks, slopes, heights = (np.pad(v, (0, more), mode="edge").astype(precision) for v in (self.breaks, self.slopes, self.heights))
        places = breaks[np.isfinite(breaks)].view(bits).astype(np.int64)  # positive numbers are ordered as their bits are
        lowest, span = (places[0], int(places[-1] - places[0])) if len(places) else (np.int64(0), 0)
        shift = max(0, span.bit_length() - BITS)
        first = np.searchsorted(places, lowest + (np.arange(2**BITS + 1) << shift)).astype(np.int32)
        halvings = int(np.diff(first).max()).bit_length()
        return Table(breaks, slopes, heights, first, bits.type(lowest), bits.type(shift)), halvings


def _turns(a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "layer turn"]:
    """Ratios u / v at which a layer may change its line, ascending: where the a u of one execution is the b v of one. Where that is
    nowhere, any ratio will do."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (b[:, None, :] / a[:, :, None]).reshape(len(a), -1)
    return np.sort(np.where((found > 0) & np.isfinite(found), found, 1.0), axis=1)


def _between(turns: Float[np.ndarray, "layer turn"]) -> Float[np.ndarray, "layer line"]:
    """A ratio below the first turn, one between each two, and one above the last."""
    return np.concatenate([turns[:, :1] / 2, np.sqrt(turns[:, :-1] * turns[:, 1:]), turns[:, -1:] * 2], axis=1)


def _on(a: np.ndarray, b: np.ndarray, ratios: Float[np.ndarray, "layer line"]) -> list[Float[np.ndarray, "layer line"]]:
    """Slope and height of the line that each layer is on at its ratios."""
    bound_by_u = a[..., None] * ratios[:, None] > b[..., None]
    fastest = np.maximum(a[..., None] * ratios[:, None], b[..., None]).argmin(axis=1)[:, None]
    pairs = (np.where(bound_by_u, a[..., None], 0.0), np.where(bound_by_u, 0.0, b[..., None]))
    return [np.take_along_axis(values, fastest, axis=1)[:, 0] for values in pairs]


@partial(jax.jit, static_argnames="steps", compiler_options=COMPILED)
def looked_up(
    table: Table, rows: Float[Any, "1 rate row"], columns: Float[Any, "1 rate column"], *, steps: int
) -> Float[Array, "row column"]:
    """Latency [s] on rows x columns of designs, whose inverse rates u and v are those of the row times those of the column; `steps`:
    halvings of a bucket."""
    global trace_count
    trace_count += 1
    u, v = rows[0, :, :, None] * columns[0, :, None, :]
    ratio = u / v
    bucket = (lax.bitcast_convert_type(ratio, table.lowest.dtype) - table.lowest) >> table.shift
    line = _at(table.first, jnp.clip(bucket, 0, len(table.first) - 1))
    for step in reversed(range(steps)):
        further = line + 2**step
        line = jnp.where(_at(table.breaks, jnp.minimum(further, len(table.breaks)) - 1) < ratio, further, line)
    return _at(table.slopes, line) * u + _at(table.heights, line) * v


def _at(values: Any, places: Any) -> Array:
    return jnp.asarray(values).at[places].get(mode="promise_in_bounds")
