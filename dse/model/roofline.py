"""max over resources, min over executions, sum over layers: the latency of a network on many designs, in JAX.

    latency[h] = sum over layers of count * min over executions of max over resources of work * inverse_rate[h]

Designs are the vectorised axis; layers are scanned, carrying the sum, so that nothing of size designs x layers
is ever stored (Shinn et al. 2023, arXiv 2310.00496, extended by the choice of execution).
"""

from functools import partial, reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Float, Int

from dse.model.options import Combined

UNROLL = 6  # layers a scan step: enough to hide the loop, few enough to compile quickly

trace_count = 0  # of `spent_time`: a sweep compiles once


def seconds(work: Any, inverse: Any, compute: int) -> list[Any]:
    """Time [s] of each resource for work [term, ...] at inverse rates [term, ...]: of the unit, which the first `compute` terms
    are about, then of what each other term is about; bytes are the last."""
    times = [work[term] * inverse[term] for term in range(len(work))]
    return [reduce(_larger, times[:compute]), *times[compute:]]


def layer_time(times: list[Any], overlap: Combined, fixed: Any = None) -> Any:
    """Of the resources together, and what the layer takes beside [s]."""
    if overlap == "pipelined":  # a 4-norm of the unit and the slowest of the others: a maximum that is rounded where both are alike
        unit, other = ((time * 1e6) ** 2 for time in (times[0], reduce(_larger, times[1:])))  # in us: fourth powers stay within float32
        spent = jnp.sqrt(jnp.sqrt(unit * unit + other * other)) * 1e-6
    else:
        spent = reduce(_larger if overlap == "full" else add, times)
    return spent if fixed is None else spent + fixed


def charges(times: list[Any], overlap: Combined, fixed: Any = None) -> list[Any]:
    """What of a layer's time each resource sets: with full overlap, all of it falls to the slowest one (of equals, the first).
    What it takes beside comes first, if given."""
    if fixed is not None:
        return [fixed, *charges(times, overlap)]
    if overlap == "none":
        return times
    longest, spent = reduce(_larger, times), layer_time(times, overlap)
    earlier = [reduce(jnp.logical_or, (other >= longest for other in times[:number]), False) for number in range(len(times))]
    return [jnp.where((time < longest) | taken, 0, spent) for time, taken in zip(times, earlier, strict=True)]


def _larger(a: Any, b: Any) -> Any:
    return jnp.where(a > b, a, b)  # faster on a CPU than maximum, which looks after NaN


@partial(jax.jit, static_argnames=("shape", "chunk", "compute", "overlap", "breakdown"))
def spent_time(
    start: Int[Any, ""],
    work: Float[Any, "layer execution term"],
    count: Float[Any, "layer"],
    constant: Float[Any, "execution term"],
    factors: tuple[Float[Any, "execution term _"], ...],
    least: tuple[Float[Any, "layer execution term"], Float[Any, "layer"]] | None = None,
    fixed: Float[Any, "layer execution"] | None = None,
    *,
    shape: tuple[int, ...],
    chunk: int,
    compute: int,
    overlap: Combined,
    breakdown: bool,
) -> tuple[Float[Array, "design"] | Float[Array, "execution resource design"], Float[Array, "design"] | None]:
    """Time [s] of a network on `chunk` designs from number `start` of a grid of `shape` on; numbers past the last repeat it.

    `constant` times one of `factors` for each axis of the grid is the inverse rate. Returns latencies, or with `breakdown`
    the time spent in each execution while bound by each resource of `seconds`, which sums to the latency; beside it the latency of
    other work and counts at the same rates, `least`, if given. `fixed`: what each layer takes beside its resources [s], the first of
    the resources then.
    """
    global trace_count
    trace_count += 1
    inverse = _inverse_rates(start + jnp.arange(chunk), constant, factors, shape)
    summed = partial(_summed, inverse=inverse, compute=compute, overlap=overlap)
    return summed(work, count, fixed, breakdown=breakdown), None if least is None else summed(*least, None, breakdown=False)


def _summed(work: Any, count: Any, fixed: Any, *, inverse: Any, compute: int, overlap: Combined, breakdown: bool) -> Any:
    """Over the layers."""
    per_layer = _breakdown_layer if breakdown else _latency_layer
    zero = jnp.zeros(inverse.shape[-1], work.dtype)
    resources = work.shape[2] - compute + 1 + (fixed is not None)
    start_at: Any = (zero,) * (resources * work.shape[1]) if breakdown else zero
    step = partial(per_layer, inverse=inverse, compute=compute, overlap=overlap)
    total: Any = lax.scan(lambda spent, row: (step(spent, *row), None), start_at, (work, count, fixed), unroll=UNROLL)[0]
    return jnp.stack(total).reshape(work.shape[1], resources, -1) if breakdown else total


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
    total: Float[Array, "design"], work: Work, count: Float[Array, ""], fixed: Any, *, inverse: Rates, compute: int, overlap: Combined
) -> Float[Array, "design"]:
    beside = [None] * len(work) if fixed is None else fixed
    times = [layer_time(seconds(w, i, compute), overlap, more) for w, i, more in zip(work, inverse, beside, strict=True)]
    fastest = times[0]
    for time in times[1:]:
        fastest = jnp.where(time < fastest, time, fastest)
    return total + count * fastest


def _breakdown_layer(
    spent: tuple[Float[Array, "design"], ...],
    work: Work,
    count: Float[Array, ""],
    fixed: Any,
    *,
    inverse: Rates,
    compute: int,
    overlap: Combined,
) -> tuple[Float[Array, "design"], ...]:
    fastest, choice, charged = jnp.inf, jnp.int32(-1), []
    beside = [None] * len(work) if fixed is None else fixed
    for number, (w, i, more) in enumerate(zip(work, inverse, beside, strict=True)):
        times = seconds(w, i, compute)
        time = layer_time(times, overlap, more)
        choice = jnp.where(time < fastest, number, choice)
        fastest = jnp.where(time < fastest, time, fastest)
        charged.append(charges(times, overlap, more))
    shares = (jnp.where(choice == number, part, 0) for number, parts in enumerate(charged) for part in parts)
    return tuple(total + count * share for total, share in zip(spent, shares, strict=True))
