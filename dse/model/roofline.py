"""The central equation, in JAX: the latency of a network on many designs.

    latency = sum over layers of ( min over legal executions of ( combine over resources of work * inverse rate ) + overhead )

`resource_times`, `combine`, `execution_times` and `fastest` are its inner part; `network_latency`, `network_energy` and `network_breakdown`
sum over the layers. Callers differ in the shape of the inverse rates only: a grid passes [execution, term, row, column], a search batch
[execution, term, design], a single design [execution, term, 1].

Layers are scanned, carrying the sum, so that nothing of size designs x layers is ever stored (Shinn et al. 2023, arXiv 2310.00496,
extended by the choice of execution). The relative error of a latency is at most (n u) / (1 - n u), with u = 2^-24 in float32 and
n = L + R + 4 for L layers and R resources: three numbers rounded, two products, sums over resources and layers (Higham 2002, Accuracy and
Stability of Numerical Algorithms, lemma 3.1). A breakdown adds TIE eps, by which the times of a tie differ at most.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, eval_shape, lax
from jax.tree import map as tree_map
from jaxtyping import Bool, Float, Int

from dse.base.array_types import AnyArray
from dse.model.gain import compute_time
from dse.schema.model_options import ResourceOverlap

EXECUTIONS_PER_STEP = 64  # of a step of the scan: their sum stays in registers, and compiling takes below a second
ROOTS_PER_STEP = 16  # the same for the 4-norm, whose compilation is slow
TIE = 16  # machine epsilons by which equal times may differ: an inverse rate is a product of a dozen numbers, each rounded
DECISION = np.int16  # the type of decisions: one is held for each layer and design
SHORTEST = 1e-30  # [s]: shorter 4-norms are not exact, and their reciprocals stay within float32
XLA_OPTIONS = {"xla_cpu_prefer_vector_width": 512}  # where a CPU has them: 1.1 to 1.7 times as fast as with 256 bits

Stacked = AnyArray | Sequence[AnyArray]  # an array or a sequence of arrays, by its first axis
StackedTwice = AnyArray | Sequence[Stacked]  # by its first two axes
Time = AnyArray  # seconds, over designs, or over layers and designs
Layers = TypeVar("Layers")  # a tree of arrays whose first axis is that of the layers
Tree = TypeVar("Tree")  # a tree of arrays


class Combination(NamedTuple):
    """How the terms of an execution combine to its time: the first `unit_terms` belong to the compute unit, each other is a resource.

    `full` overlap: the slowest resource sets the time; `none`: they add up; `pipelined`: a 4-norm of the unit and the slowest of the
    others: a smooth maximum, 19% above the maximum where the two are equal.
    """

    unit_terms: int
    overlap: ResourceOverlap


class NetworkWork(NamedTuple):
    """Work of all layers, each with all of its repeats; `legal` masks the executions that a layer may take (None: all of them).

    `overhead` [s] is added to the time of an execution, and of executions that take equally long the one of the lowest `preference` runs
    (default: the first). `energy` [J] is what an execution takes or, with a further axis, the number of each action (operations, bytes).
    """

    work: Float[AnyArray, "layer execution term"]
    legal: Bool[AnyArray, "layer execution"] | None
    overhead: Float[AnyArray, "layer execution"] | None = None
    energy: Float[AnyArray, "layer execution *action"] | None = None
    preference: Int[AnyArray, "layer execution"] | None = None

    @property
    def legal_mask(self) -> Bool[AnyArray, "layer execution"]:
        """`legal`, or all true."""
        return np.ones(self.work.shape[:2], bool) if self.legal is None else self.legal


def resource_times(work: Stacked, inverse_rates: Stacked, unit_terms: int) -> list[Time]:
    """Time [s] of each resource: that of the unit is set by the slowest of its terms, every other term has a resource of its own."""
    times = [amount * inverse_rate for amount, inverse_rate in zip(work, inverse_rates, strict=True)]
    return [compute_time(times[:unit_terms], _larger), *times[unit_terms:]]


def combine(times: Stacked, overlap: ResourceOverlap) -> Time:
    """Time [s] of the resources together."""
    if overlap != "pipelined":
        return reduce(_larger if overlap == "full" else add, times)
    return four_norm(jnp.asarray(times[0]), jnp.asarray(reduce(_larger, times[1:])))


def four_norm(a: Time, b: Time) -> Time:
    """The 4-norm of two times: (a^4 + b^4)^(1/4).

    In float64 it is that of float32, corrected: with z = 1/norm up to an error of 1e-6, w = (a^4 + b^4) z^3 and h = 1 - w z, the norm is
    w (1 - h)^(-3/4), of whose series three terms are exact to rounding. That takes half as long as roots in float64.
    """
    if a.dtype != jnp.float64:
        larger = _larger(a, b)
        squared_ratio = (_smaller(a, b) / jnp.maximum(larger, SHORTEST)) ** 2
        return larger * jnp.sqrt(jnp.sqrt(1 + squared_ratio * squared_ratio))
    approximation = four_norm(a.astype(jnp.float32), b.astype(jnp.float32))
    z = (1 / jnp.maximum(approximation, SHORTEST)).astype(jnp.float64)
    w = a * (a * z) ** 3 + b * (b * z) ** 3
    h = 1 - w * z
    return w + w * h * (3 / 4 + 21 / 32 * h)


def execution_times(
    work: StackedTwice, legal: Stacked | None, overhead: Stacked | None, inverse_rates: StackedTwice, combination: Combination
) -> list[Time]:
    """Time [s] of a layer, or of several along leading axes, under each execution; infinite where the execution is not legal.

    `work`, `legal` and `overhead` are indexed by execution, `work` and `inverse_rates` then by term. Without `legal` all are legal.
    """
    times = [
        combine(resource_times(amounts, rates, combination.unit_terms), combination.overlap)
        for amounts, rates in zip(work, inverse_rates, strict=True)
    ]
    if legal is None and overhead is None:
        return times
    seconds: Sequence[float | AnyArray] = [0.0] * len(times) if overhead is None else list(overhead)
    if legal is not None:  # infinite overhead, which no axis changes: masking the time of each design would take as long as another term
        seconds = [jnp.where(allowed, value, jnp.inf) for allowed, value in zip(legal, seconds, strict=True)]
    return [time + value for time, value in zip(times, seconds, strict=True)]


def fastest(times: Stacked) -> Time:
    """Time [s] of the fastest execution."""
    return reduce(_smaller, times)


def energy_of_fastest(times: Stacked, energies: Stacked) -> AnyArray:
    """Least energy [J] among the executions that take no longer than the fastest one."""
    least = fastest(times)
    return reduce(_smaller, [jnp.where(is_tied(time, least), energy, jnp.inf) for time, energy in zip(times, energies, strict=True)])


def sum_actions(actions: StackedTwice, energies: StackedTwice) -> list[AnyArray]:
    """Energy [J] of a layer under each execution: numbers of actions times the energy of each; both are indexed by execution, action."""
    return [reduce(add, [count * energy for count, energy in zip(*each, strict=True)]) for each in zip(actions, energies, strict=True)]


def network_latency(network: NetworkWork, inverse_rates: Float[Array, "execution term *design"], combination: Combination) -> Time:
    """Latency [s] of the network on each design."""

    def layer_latency(layer: NetworkWork) -> Time:
        return fastest(execution_times(layer.work, layer.legal, layer.overhead, inverse_rates, combination))

    return _sum_over_layers(layer_latency, network, _layers_per_step(network, combination))


def network_energy(
    network: NetworkWork,
    inverse_rates: Float[Array, "execution term *design"],
    combination: Combination,
    action_energies: Float[Array, "execution action *design"] | None = None,
) -> AnyArray:
    """Energy [J] of the network's work on each design: that of the fastest execution of each layer, of equally fast ones the least.

    `action_energies` [J/FLOP, J/B], where these differ between designs: `network.energy` then has the numbers of actions.
    """

    def layer_energy(layer: NetworkWork) -> AnyArray:
        times = execution_times(layer.work, layer.legal, layer.overhead, inverse_rates, combination)
        assert layer.energy is not None
        return energy_of_fastest(times, list(layer.energy) if action_energies is None else sum_actions(layer.energy, action_energies))

    return _sum_over_layers(layer_energy, network, _layers_per_step(network, combination))


def network_breakdown(
    network: NetworkWork, inverse_rates: Float[Array, "execution term *design"], combination: Combination
) -> Float[Array, "execution resource *design"]:
    """Time [s] of the network in each execution while bound by each resource (the overhead first, if any); the sum is the latency.

    All decisions come first, as integers. If every sum repeated the comparisons, the compiler could round each of them differently, and
    a tied layer could count twice or not at all.
    """
    executions, resources = network.work.shape[1], network.work.shape[2] - combination.unit_terms + 1
    separate = combination.overlap == "none"  # each resource has its own time; else the bounding one has the whole
    codes = 1 if separate else resources  # of an execution: a decision is execution * codes + bounding resource
    decisions, combined = _decide(network, inverse_rates, combination, codes)

    def layer_breakdown(item: tuple[NetworkWork, Array, Time | None]) -> tuple[Time, ...]:
        layer, decision, combined_time = item
        parts = []
        for e in range(executions):
            runs = (decision >= e * codes) & (decision < (e + 1) * codes)
            parts += [] if layer.overhead is None else [jnp.where(runs, layer.overhead[e], 0)]
            for resource, time in enumerate(resource_times(layer.work[e], inverse_rates[e], combination.unit_terms)):
                counts = runs if separate else decision == e * codes + resource
                parts.append(jnp.where(counts, time if combined_time is None else combined_time, 0))
        return tuple(parts)

    per_execution = resources + (network.overhead is not None)
    layers_per_step = _layers_per_step(network, combination, sums=2 * per_execution)
    sums = _sum_over_layers(layer_breakdown, (network, decisions, combined), layers_per_step)
    return jnp.stack(sums).reshape(executions, per_execution, *inverse_rates.shape[2:])


def _decide(
    network: NetworkWork, inverse_rates: Float[Array, "execution term *design"], combination: Combination, codes: int
) -> tuple[Int[Array, "layer *design"], Time | None]:
    """Decide what runs each layer and what bounds it, all layers together: execution * `codes` + bounding resource; and, where that is
    no single resource's time, the combined time of the resources [s]."""
    with_design_axes = (..., *[None] * (inverse_rates.ndim - 2))
    work = jnp.moveaxis(network.work, 0, -1)[with_design_axes]  # [execution, term, layer, 1, ...]
    overhead = None if network.overhead is None else network.overhead.T[with_design_axes]
    legal = None if network.legal is None else network.legal.T[with_design_axes]
    times = execution_times(work, legal, overhead, inverse_rates, combination)
    execution = choose(times, _preference(network).T[with_design_axes])
    by_execution = [resource_times(amounts, rates, combination.unit_terms) for amounts, rates in zip(work, inverse_rates, strict=True)]
    chosen = [_select(execution, resource) for resource in zip(*by_execution, strict=True)]
    decision = execution if codes == 1 else execution * DECISION(codes) + bounding_resource(chosen)
    return decision, combine(chosen, "pipelined") if combination.overlap == "pipelined" else None


def choose(times: Stacked, preference: Stacked) -> Int[Array, "*shape"]:
    """Index of the execution that runs: the fastest, of equally fast ones that of the lowest preference."""
    ranked = [time * (1 + rank * _rounding(time)) for time, rank in zip(times, preference, strict=True)]  # longer by its rank: see TIE
    least, execution = ranked[0], jnp.zeros(ranked[0].shape, DECISION)
    for number, time in enumerate(ranked[1:], start=1):
        least, execution = _smaller(least, time), jnp.where(time < least, DECISION(number), execution)
    return execution


def is_tied(time: Time, least: Time) -> Bool[AnyArray, "*shape"]:
    """Whether a time equals the least one up to rounding: energy or the name decides such a tie, never the last bits."""
    return time <= least * (1 + _rounding(least))


def bounding_resource(times: Stacked) -> Int[Array, "*shape"]:
    """Index of the slowest resource; of equally slow ones the first."""
    longest, bound = times[0], jnp.zeros(jnp.shape(times[0]), DECISION)
    for number, time in enumerate(times[1:], start=1):
        shortened = time * (1 - number * _rounding(time))
        longest, bound = _larger(shortened, longest), jnp.where(shortened > longest, DECISION(number), bound)
    return bound


def _preference(network: NetworkWork) -> Int[AnyArray, "layer execution"]:
    first = jnp.broadcast_to(jnp.arange(network.work.shape[1]), network.work.shape[:2])
    return first if network.preference is None else network.preference


def _select(execution: Array, values: Stacked) -> AnyArray:
    """`values` of the chosen execution."""
    chosen = values[0]
    for number, value in enumerate(values[1:], start=1):
        chosen = jnp.where(execution == number, value, chosen)
    return chosen


def _sum_over_layers(value: Callable[[Layers], Tree], layers: Layers, layers_per_step: int) -> Tree:
    """Sum of `value` over the first axis of `layers` (arrays, or a tree of them)."""

    def step(total: Tree, layer: Layers) -> tuple[Tree, None]:
        return tree_map(add, total, value(layer)), None

    shapes = eval_shape(value, tree_map(lambda array: array[0], layers))
    zero = tree_map(lambda result: jnp.zeros(result.shape, result.dtype), shapes)
    return lax.scan(step, zero, layers, unroll=layers_per_step)[0]


def _layers_per_step(network: NetworkWork, combination: Combination, sums: int = 1) -> int:
    """How many layers a step of the scan takes, where `sums` numbers are summed for each execution."""
    return layers_per_step(len(network.work), network.work.shape[1] * sums, combination.overlap)


def layers_per_step(layers: int, executions: int, overlap: ResourceOverlap) -> int:
    """Number of layers in one step of the scan over `layers` layers of `executions` executions each."""
    most = ROOTS_PER_STEP if overlap == "pipelined" else EXECUTIONS_PER_STEP
    return max(1, min(layers, most // executions))


def _rounding(time: Time) -> float:
    return TIE * float(np.finfo(time.dtype).eps)


def _larger(a: AnyArray, b: AnyArray) -> Array:
    return jnp.where(a > b, a, b)  # faster on a CPU than maximum, which looks after NaN


def _smaller(a: AnyArray, b: AnyArray) -> Array:
    return jnp.where(b < a, b, a)
