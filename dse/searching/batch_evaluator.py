"""Time and energy of every network state on every design of a batch, in one compiled call.

Designs are points here, not a grid: each rate is a product of numbers of the description, so the inverse rates of a batch are
products of the columns that they depend on; bytes that depend on a capacity are looked up in a table of them, and so is the work of
measured kernels, in a table over what slows them.
"""

from functools import reduce
from operator import add
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Bool, Float, Int

from dse.model import roofline
from dse.model.cost.network import energy_of_fastest
from dse.schema.model_options import ResourceOverlap


class Arrays(NamedTuple):
    """Layers of all network states, those of a `step` of the scan beside each other: work [FLOP or B], how often each runs; which
    `states` each step counts for; inverse rates: the constant part and on which columns of values the rest depends. Where they count,
    what a repeat takes beside [s], and the energy of all repeats by memory [J]. One place, where nothing depends on any."""

    flops: Float[Any, "step layer execution term place"]
    moved: Float[Any, "step layer execution memory place"]
    count: Float[Any, "step layer"]
    states: Float[Any, "state step"]
    constant: Float[Any, "execution term"]
    depends: Bool[Any, "axis execution term"]
    fixed: Float[Any, "step layer execution"] | None = None
    joules: Float[Any, "step layer execution memory place"] | None = None

    def singly(self) -> "Arrays":
        """The same, one layer a step: sooner compiled, and slower."""
        layers = ("flops", "moved", "count", "fixed", "joules")
        parts = {name: part.reshape(-1, 1, *part.shape[2:]) for name in layers if (part := getattr(self, name)) is not None}
        return self._replace(**parts, states=self.states.repeat(self.count.shape[1], axis=1))


def spent(
    values: Float[Any, "axis design"],
    places: Int[Any, "table design"],
    launch: Float[Any, "design"],
    slow: Float[Any, "execution"],
    arrays: Arrays,
    *,
    compute: int,
    overlap: ResourceOverlap,
) -> tuple[Float[Array, "state design"], Float[Array, "state design"] | None]:
    """Latency [s], and energy of the work [J] if it is known, of each network state on each design: min over executions, sum over layers.

    `places`: numbers of what slows the units, then of the capacity that decides what crosses each memory, the outermost first.
    `launch`: how many times as long as said a layer takes beside; `slow`: the units in each execution. The first `compute` terms are the
    units'.
    """
    inverse = jnp.broadcast_to(arrays.constant[:, :, None], (*arrays.constant.shape, values.shape[1]))
    for axis in range(values.shape[0]):
        inverse = inverse * jnp.where(arrays.depends[axis][:, :, None], 1 / values[axis], 1.0)
    inverse = inverse.at[:, :compute].multiply(slow[:, None, None])

    def step(_: None, layers: tuple[Any, ...]) -> tuple[None, tuple[Array, Any]]:
        layered = [_layer(layer, inverse, places, launch, compute, overlap) for layer in _each(layers)]
        time, energy = (reduce(add, part) for part in zip(*layered, strict=True))
        return None, (time, None if arrays.joules is None else energy)

    rows = arrays.flops, arrays.moved, arrays.count, arrays.fixed, arrays.joules
    time, energy = lax.scan(step, None, rows)[1]
    return arrays.states @ time, None if energy is None else arrays.states @ energy


STATIC = ("compute", "overlap")
spent_at = jax.jit(spent, static_argnames=STATIC, compiler_options=roofline.COMPILED)
spent_within = jax.jit(spent, static_argnames=STATIC)  # what JAX differentiates: options are for the outermost


def _each(layers: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [tuple(None if part is None else part[number] for part in layers) for number in range(len(layers[2]))]


def _layer(layer: tuple[Any, ...], inverse: Array, places: Any, launch: Any, compute: int, overlap: ResourceOverlap) -> tuple[Array, Any]:
    """Time [s] and energy [J] of all repeats of a layer [design]."""
    flops, moved, count, fixed, joules = layer
    times = []
    for e, rates in enumerate(inverse):
        work = [
            *(_at(table, places[0]) for table in flops[e]),
            *(_at(table, place) for table, place in zip(moved[e], places[1:], strict=True)),
        ]
        beside = None if fixed is None else fixed[e] * launch
        times.append(roofline.layer_time(roofline.seconds(work, rates, compute), overlap, beside))
    energy: Any = 0.0
    if joules is not None:
        energies = [[_at(table, place) for table, place in zip(by_memory, places[1:], strict=True)] for by_memory in joules]
        energy = energy_of_fastest(times, [reduce(add, parts) for parts in energies])
    return count * reduce(jnp.minimum, times), energy


def _at(table: Float[Array, "place"], place: Int[Any, "design"]) -> Array:
    return table[0] if len(table) == 1 else table[place]
