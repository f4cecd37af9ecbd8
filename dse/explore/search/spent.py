"""Time and energy of every network state on every design of a batch, in one compiled call.

Designs are points here, not a grid: each rate is a product of numbers of the description, so the inverse rates of a batch are
products of the columns that they depend on; bytes that depend on a capacity are looked up in a table of them.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Bool, Float, Int

from dse.model import roofline
from dse.model.equation import DECODE


class Arrays(NamedTuple):
    """Work of network states [FLOP or B], how often a layer runs, energy of all its repeats [J], and inverse rates: the constant
    part and on which columns of values the rest depends. One capacity, where nothing depends on any."""

    flops: Float[Any, "state layer execution term"]
    moved: Float[Any, "state layer execution memory capacity"]
    count: Float[Any, "state layer"]
    joules: Float[Any, "state layer execution capacity"]
    constant: Float[Any, "state execution term"]
    depends: Bool[Any, "state axis execution term"]


@partial(jax.jit, static_argnames="overlap")
def spent_at(
    values: Float[Any, "axis design"],
    places: Int[Any, "memory design"],
    slow: Float[Any, "state execution"],
    arrays: Arrays,
    *,
    overlap: Any,
) -> tuple[Float[Array, "state design"], Float[Array, "state design"]]:
    """Latency [s], and energy of the work [J], of each network state on each design: min over executions, sum over layers.

    `places`: number of the capacity that decides what crosses each memory, the outermost first.
    """

    def state(one: tuple[Array, Arrays]) -> tuple[Array, Array]:
        slowness, own = one
        inverse = jnp.broadcast_to(own.constant[:, :, None], (*own.constant.shape, values.shape[1]))
        for axis in range(values.shape[0]):
            inverse = inverse * jnp.where(own.depends[axis][:, :, None], 1 / values[axis], 1.0)
        units = jnp.repeat(slowness[:, None], DECODE, 1)
        factor = jnp.concatenate([units, jnp.ones((len(units), inverse.shape[1] - DECODE))], axis=1)
        zero, layers = jnp.zeros(values.shape[1]), (own.flops, own.moved, own.count, own.joules)
        return lax.scan(partial(_layer, inverse * factor[:, :, None], places, overlap), (zero, zero), layers)[0]

    return lax.map(state, (slow, arrays))


def _layer(
    inverse: Array, places: Any, overlap: Any, spent: tuple[Array, Array], layer: tuple[Array, ...]
) -> tuple[tuple[Array, Array], None]:
    flops, moved, count, joules = layer
    fastest, energy = jnp.full(inverse.shape[-1], jnp.inf), jnp.zeros(inverse.shape[-1])
    for amounts, tables, joule, rates in zip(flops, moved, joules, inverse, strict=True):
        work = [*amounts, *(_at(table, place) for table, place in zip(tables, places, strict=True))]
        time = roofline.layer_time(roofline.seconds(work, rates, DECODE), overlap)
        energy = jnp.where(time < fastest, _at(joule, places[0]), energy)
        fastest = jnp.where(time < fastest, time, fastest)
    return (spent[0] + count * fastest, spent[1] + energy), None


def _at(table: Float[Array, "capacity"], place: Int[Any, "design"]) -> Array:
    return table[0] if len(table) == 1 else table[place]
