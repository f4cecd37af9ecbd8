"""max over resources, min over executions, sum over layers: the latency of a network on many designs, in JAX.

    latency[h] = sum over layers of count * min over executions of max over resources of work * inverse_rate[h]

Designs are the vectorised axis; layers are scanned, carrying the sum, so that nothing of size designs x layers
is ever stored (Shinn et al. 2023, arXiv 2310.00496, extended by the choice of execution).
"""

from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Float, Int

from dse.model.options import Overlap

UNROLL = 6  # layers a scan step: enough to hide the loop, few enough to compile quickly

trace_count = 0  # of `spent_time`: a sweep compiles once


def seconds(work: Any, inverse: Any) -> tuple[Any, Any]:
    """Compute and memory time [s] of work [term, ...] at inverse rates [term, ...]: bytes are the last term."""
    *compute, memory = (work[term] * inverse[term] for term in range(len(work)))
    return reduce(_larger, compute), memory


def layer_time(compute: Any, memory: Any, overlap: Overlap) -> Any:
    return _larger(compute, memory) if overlap == "full" else compute + memory


def charges(compute: Any, memory: Any, overlap: Overlap) -> tuple[Any, Any]:
    """What of a layer's time compute and memory set: with full overlap, all of it falls to the slower one."""
    if overlap == "none":
        return compute, memory
    bound = memory > compute
    return jnp.where(bound, 0, compute), jnp.where(bound, memory, 0)


def _larger(a: Any, b: Any) -> Any:
    return jnp.where(a > b, a, b)  # faster on a CPU than maximum, which looks after NaN


@partial(jax.jit, static_argnames=("shape", "chunk", "overlap", "breakdown"))
def spent_time(
    start: Int[Any, ""],
    work: Float[Any, "layer execution term"],
    count: Float[Any, "layer"],
    constant: Float[Any, "execution term"],
    factors: tuple[Float[Any, "execution term _"], ...],
    *,
    shape: tuple[int, ...],
    chunk: int,
    overlap: Overlap,
    breakdown: bool,
) -> Float[Array, "design"] | Float[Array, "execution 2 design"]:
    """Time [s] of a network on `chunk` designs from number `start` of a grid of `shape` on; numbers past the last repeat it.

    `constant` times one of `factors` for each axis of the grid is the inverse rate. Returns latencies, or with `breakdown`
    the time spent in each execution while bound by compute and by memory, which sums to the latency.
    """
    global trace_count
    trace_count += 1
    inverse = _inverse_rates(start + jnp.arange(chunk), constant, factors, shape)
    per_layer = _breakdown_layer if breakdown else _latency_layer
    zero = jnp.zeros(chunk, work.dtype)
    start_at: Any = (zero,) * (2 * work.shape[1]) if breakdown else zero
    step = partial(per_layer, inverse=inverse, overlap=overlap)
    total: Any = lax.scan(lambda spent, row: (step(spent, *row), None), start_at, (work, count), unroll=UNROLL)[0]
    return jnp.stack(total).reshape(work.shape[1], 2, chunk) if breakdown else total


def _inverse_rates(
    design: Int[Array, "design"],
    constant: Float[Any, "execution term"],
    factors: tuple[Float[Any, "execution term _"], ...],
    shape: tuple[int, ...],
) -> Float[Array, "execution term design"]:
    if not shape:
        return jnp.broadcast_to(constant[:, :, None], (*constant.shape, design.size))
    inverse = constant[:, :, None]
    for factor, index in zip(factors, jnp.unravel_index(design, shape), strict=True):
        inverse = inverse * factor[:, :, index]
    return inverse


Rates = Float[Array, "execution term design"]
Work = Float[Array, "execution term"]


def _latency_layer(
    total: Float[Array, "design"], work: Work, count: Float[Array, ""], *, inverse: Rates, overlap: Overlap
) -> Float[Array, "design"]:
    times = [layer_time(*seconds(w, i), overlap) for w, i in zip(work, inverse, strict=True)]
    fastest = times[0]
    for time in times[1:]:
        fastest = jnp.where(time < fastest, time, fastest)
    return total + count * fastest


def _breakdown_layer(
    spent: tuple[Float[Array, "design"], ...], work: Work, count: Float[Array, ""], *, inverse: Rates, overlap: Overlap
) -> tuple[Float[Array, "design"], ...]:
    fastest, choice, charged = jnp.inf, jnp.int32(-1), []
    for number, (w, i) in enumerate(zip(work, inverse, strict=True)):
        compute, memory = seconds(w, i)
        time = layer_time(compute, memory, overlap)
        choice = jnp.where(time < fastest, number, choice)
        fastest = jnp.where(time < fastest, time, fastest)
        charged.append(charges(compute, memory, overlap))
    shares = (jnp.where(choice == number, part, 0) for number, parts in enumerate(charged) for part in parts)
    return tuple(total + count * share for total, share in zip(spent, shares, strict=True))
