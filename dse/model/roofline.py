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
import numpy as np
from jax import Array, lax
from jaxtyping import Float, Int

from dse.schema.model_options import ResourceOverlap

UNROLL = 64  # executions of layers in a step of the scan: their sum stays in registers, and compiling takes below a second
ROOTS = 16  # of them where roots are drawn, with which compiling soon takes for ever
TIE = 16  # machine epsilons by which equal times may differ: an inverse rate is a product of a dozen numbers, each rounded
CHOICE = np.int16  # of decisions: one of them for each layer and design is held
COMPILED = {"xla_cpu_prefer_vector_width": 512}  # where a CPU has them: 1.1 to 1.7 times as fast as with 256 bits

trace_count = 0  # of `spent_time`: a sweep compiles once


def seconds(work: Any, inverse: Any, compute: int) -> list[Any]:
    """Time [s] of each resource for work [term, ...] at inverse rates [term, ...]: of the unit, which the first `compute` terms
    are about, then of what each other term is about; bytes are the last."""
    times = [work[term] * inverse[term] for term in range(len(work))]
    return [reduce(_larger, times[:compute]), *times[compute:]]


def layer_time(times: list[Any], overlap: ResourceOverlap, fixed: Any = None) -> Any:
    """Of the resources together, and what the layer takes beside [s]."""
    if overlap == "pipelined":  # a 4-norm of the unit and the slowest of the others: a maximum that is rounded where both are alike
        unit, other = ((time * 1e6) ** 2 for time in (times[0], reduce(_larger, times[1:])))  # in us: fourth powers stay within float32
        spent = jnp.sqrt(jnp.sqrt(unit * unit + other * other)) * 1e-6
    else:
        spent = reduce(_larger if overlap == "full" else add, times)
    return spent if fixed is None else spent + fixed


def is_tied(time: Any, fastest: Any) -> Any:
    """Whether a time equals the least one up to rounding: energy or the name decides such a tie, never the last bits."""
    return time <= fastest * (1 + _rounding(fastest))


def handicapped(time: Any, rank: Any) -> Any:
    """A time by which to choose: made longer by its rank, so that the lowest rank wins a tie, and nothing else changes."""
    return time * (1 + rank * _rounding(time))


def bounding_resource(times: list[Any]) -> Any:
    """Number of the slowest resource; of equals the first."""
    longest, bound = times[0], jnp.zeros(times[0].shape, CHOICE)
    for number, time in enumerate(times[1:], start=1):
        shorter = time * (1 - number * _rounding(time))
        longest, bound = _larger(shorter, longest), jnp.where(shorter > longest, CHOICE(number), bound)
    return bound


def _rounding(time: Any) -> float:
    return TIE * float(np.finfo(time.dtype).eps)


def _larger(a: Any, b: Any) -> Any:
    return jnp.where(a > b, a, b)  # faster on a CPU than maximum, which looks after NaN


def _smaller(a: Any, b: Any) -> Any:
    return jnp.where(b < a, b, a)


Work = Float[Array, "execution term"]
Rates = Float[Array, "execution term row column"]
Designs = Float[Array, "row column"]


@partial(jax.jit, static_argnames=("compute", "overlap", "breakdown"), compiler_options=COMPILED)
def spent_time(
    work: Float[Any, "layer execution term"],
    rows: Float[Any, "execution term row"],
    columns: Float[Any, "execution term column"],
    fixed: Float[Any, "layer execution"] | None = None,
    least: Float[Any, "layer execution term"] | None = None,
    preference: Int[Any, "layer execution"] | None = None,
    *,
    compute: int,
    overlap: ResourceOverlap,
    breakdown: bool,
) -> Any:
    """Time [s] of a network on rows x columns of designs; `work` is that of all repeats of a layer, `fixed` what they take beside [s].

    The inverse rate of a design is that of its row times that of its column. Returns latencies [row, column], or with `breakdown` the
    time spent [execution, resource, row, column] in each execution while bound by what is `fixed` and by each resource of `seconds`,
    which sums to the latency. Of executions that take equally long, the one of the lowest `preference` runs (default: the first). Where
    other work is given, `least`, its latencies come last, along one flat first axis.

    Everything is positive, so a latency is off by at most (n u) / (1 - n u), relative, with u = 2^-24 in float32 and n = L + R + 4
    for L layers and R resources: three numbers rounded, two products, sums over resources and layers (Higham 2002, Accuracy and
    Stability of Numerical Algorithms, lemma 3.1). A breakdown adds TIE eps, by which the times of a tie differ at most.
    """
    global trace_count
    trace_count += 1
    inverse = rows[..., :, None] * columns[..., None, :]
    options: Any = {"inverse": inverse, "compute": compute, "overlap": overlap}
    spent = _broken_down(work, fixed, preference, **options) if breakdown else _latency(work, fixed, **options)
    if least is None:
        return spent
    bound = _latency(least, None, **options)
    return jnp.concatenate([spent.reshape(-1, *bound.shape), bound[None]])


def _latency(work: Any, fixed: Any, *, inverse: Rates, compute: int, overlap: ResourceOverlap) -> Designs:
    """Sum over the layers of the time of the fastest execution [row, column]."""

    def step(total: Designs, layer: tuple[Work, Any]) -> tuple[Designs, None]:
        return total + reduce(_smaller, _times(*layer, inverse, compute, overlap)), None

    start, unroll = jnp.zeros(inverse.shape[2:], work.dtype), at_once(len(work), work.shape[1], overlap)
    return lax.scan(step, start, (work, fixed), unroll=unroll)[0]


def _broken_down(
    work: Any, fixed: Any, preference: Any, *, inverse: Rates, compute: int, overlap: ResourceOverlap
) -> Float[Array, "execution resource row column"]:
    """Time of the network by execution and resource, by decisions that are made first: where each sum repeated the comparison, the
    compiler would round each of them in a way of its own, and a layer could count twice in a tie, or not at all."""
    layers, executions, terms = work.shape
    resources = terms - compute + 1
    preference = jnp.broadcast_to(jnp.arange(executions), (layers, executions)) if preference is None else preference
    stride = 1 if overlap == "none" else resources
    decisions, fastest = _decisions(work, fixed, preference, stride, inverse=inverse, compute=compute, overlap=overlap)

    def step(spent: tuple[Designs, ...], layer: tuple[Work, Any, Any, Any]) -> tuple[tuple[Designs, ...], None]:
        amounts, more, decision, fastest = layer
        parts = []
        for e, (w, i) in enumerate(zip(amounts, inverse, strict=True)):
            runs = (decision >= e * stride) & (decision < (e + 1) * stride)
            parts += [] if more is None else [jnp.where(runs, more[e], 0)]
            for r, time in enumerate(seconds(w, i, compute)):
                shown = time if fastest is None else fastest if more is None else fastest - more[e]
                parts.append(jnp.where(runs if overlap == "none" else decision == e * stride + r, shown, 0))
        return tuple(total + part for total, part in zip(spent, parts, strict=True)), None

    counted = resources + (fixed is not None)
    zero = jnp.zeros(inverse.shape[2:], work.dtype)
    unroll = at_once(layers, executions * 2 * counted, overlap)  # each execution and resource has a sum and a part of one
    spent = lax.scan(step, (zero,) * (executions * counted), (work, fixed, decisions, fastest), unroll=unroll)[0]
    return jnp.stack(spent).reshape(executions, counted, *zero.shape)


def _decisions(
    work: Any, fixed: Any, preference: Any, stride: int, *, inverse: Rates, compute: int, overlap: ResourceOverlap
) -> tuple[Int[Array, "layer row column"], Any]:
    """Which execution runs each layer and which resource sets its time, as execution * `stride` + resource; and where that time is
    not one resource's own, the time itself [s]."""
    by_execution = jnp.moveaxis(work, 0, -1)[..., None, None]  # [execution, term, layer, 1, 1]
    more = None if fixed is None else fixed.T[..., None, None]
    parts = [seconds(w, i, compute) for w, i in zip(by_execution, inverse, strict=True)]
    times = _times(by_execution, more, inverse, compute, overlap)
    ranked = [handicapped(time, rank) for time, rank in zip(times, preference.T[..., None, None], strict=True)]
    least, chosen, bound = ranked[0], jnp.zeros(ranked[0].shape, CHOICE), parts[0]
    for e, (time, part) in enumerate(zip(ranked[1:], parts[1:], strict=True), start=1):
        better = time < least
        least, chosen = jnp.where(better, time, least), jnp.where(better, CHOICE(e * stride), chosen)
        bound = [jnp.where(better, new, old) for new, old in zip(part, bound, strict=True)]
    decision = chosen if overlap == "none" else chosen + bounding_resource(bound)
    return decision, reduce(_smaller, times) if overlap == "pipelined" else None


def _times(work: Float[Any, "execution term *layers"], fixed: Any, inverse: Rates, compute: int, overlap: ResourceOverlap) -> list[Any]:
    """Time [s] of one layer, or of several [*layers, row, column], under each execution."""
    beside = [None] * len(work) if fixed is None else fixed
    return [layer_time(seconds(w, i, compute), overlap, more) for w, i, more in zip(work, inverse, beside, strict=True)]


def at_once(layers: int, size: int, overlap: ResourceOverlap) -> int:
    """How many layers a step of the scan takes, of `size` executions (or what is told of them) each."""
    return max(1, min(layers, (ROOTS if overlap == "pipelined" else UNROLL) // size))
