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
from jaxtyping import Float

from dse.model.options import Combined

UNROLL = 64  # executions of layers in a step of the scan: their sum stays in registers, and compiling takes below a second
ROOTS = 16  # of them where roots are drawn, with which compiling soon takes for ever
COMPILED = {"xla_cpu_prefer_vector_width": 512}  # where a CPU has them: 1.1 to 1.7 times as fast as with 256 bits

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


@partial(jax.jit, static_argnames=("compute", "overlap", "breakdown"), compiler_options=COMPILED)
def spent_time(
    work: Float[Any, "layer execution term"],
    rows: Float[Any, "execution term row"],
    columns: Float[Any, "execution term column"],
    fixed: Float[Any, "layer execution"] | None = None,
    least: Float[Any, "layer execution term"] | None = None,
    *,
    compute: int,
    overlap: Combined,
    breakdown: bool,
) -> Any:
    """Time [s] of a network on rows x columns of designs; `work` is that of all repeats of a layer, `fixed` what they take beside [s].

    The inverse rate of a design is that of its row times that of its column. Returns latencies [row, column], or with `breakdown` the
    time spent [execution, resource, row, column] in each execution while bound by what is `fixed` and by each resource of `seconds`,
    which sums to the latency. Where other work is given, `least`, its latencies come last, along one flat first axis.

    Everything is positive, so a latency is off by at most (n u) / (1 - n u), relative, with u = 2^-24 in float32 and n = L + R + 4
    for L layers and R resources: three numbers rounded, two products, sums over resources and layers (Higham 2002, Accuracy and
    Stability of Numerical Algorithms, lemma 3.1).
    """
    global trace_count
    trace_count += 1
    inverse = rows[..., :, None] * columns[..., None, :]
    summed = partial(_summed, inverse=inverse, compute=compute, overlap=overlap)
    spent = summed(work, fixed, breakdown=breakdown)
    if least is None:
        return spent
    bound = summed(least, None, breakdown=False)
    return jnp.concatenate([spent.reshape(-1, *bound.shape), bound[None]])


def _summed(work: Any, fixed: Any, *, inverse: Any, compute: int, overlap: Combined, breakdown: bool) -> Any:
    """Over the layers."""
    layers, executions, terms = work.shape
    per_layer = partial(_breakdown_layer if breakdown else _latency_layer, inverse=inverse, compute=compute, overlap=overlap)
    resources = terms - compute + 1 + (fixed is not None)
    zero = jnp.zeros(inverse.shape[2:], work.dtype)
    start: Any = (zero,) * (resources * executions) if breakdown else zero
    unroll = at_once(layers, executions * (2 * resources if breakdown else 1), overlap)  # each has a sum and a part of one
    total: Any = lax.scan(lambda spent, row: (per_layer(spent, *row), None), start, (work, fixed), unroll=unroll)[0]
    return jnp.stack(total).reshape(executions, resources, *zero.shape) if breakdown else total


def at_once(layers: int, size: int, overlap: Combined) -> int:
    """How many layers a step of the scan takes, of `size` executions (or what is told of them) each."""
    return max(1, min(layers, (ROOTS if overlap == "pipelined" else UNROLL) // size))


Rates = Float[Array, "execution term row column"]
Work = Float[Array, "execution term"]


def _latency_layer(
    total: Float[Array, "row column"], work: Work, fixed: Any, *, inverse: Rates, compute: int, overlap: Combined
) -> Float[Array, "row column"]:
    beside = [None] * len(work) if fixed is None else fixed
    times = [layer_time(seconds(w, i, compute), overlap, more) for w, i, more in zip(work, inverse, beside, strict=True)]
    fastest = times[0]
    for time in times[1:]:
        fastest = jnp.where(time < fastest, time, fastest)
    return total + fastest


def _breakdown_layer(
    spent: tuple[Float[Array, "row column"], ...], work: Work, fixed: Any, *, inverse: Rates, compute: int, overlap: Combined
) -> tuple[Float[Array, "row column"], ...]:
    fastest, choice, charged = jnp.inf, jnp.int32(-1), []
    beside = [None] * len(work) if fixed is None else fixed
    for number, (w, i, more) in enumerate(zip(work, inverse, beside, strict=True)):
        times = seconds(w, i, compute)
        time = layer_time(times, overlap, more)
        choice = jnp.where(time < fastest, number, choice)
        fastest = jnp.where(time < fastest, time, fastest)
        charged.append(charges(times, overlap, more))
    shares = (jnp.where(choice == number, part, 0) for number, parts in enumerate(charged) for part in parts)
    return tuple(total + share for total, share in zip(spent, shares, strict=True))
