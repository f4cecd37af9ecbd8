"""Latency and energy of every variant on every design of a batch, in one compiled call.

Designs are points here, not a grid: each rate is a product of numbers of the description, so the inverse rates of a batch are products of
the axis values that they depend on. What depends on a tabulated axis is looked up: traffic in a table over a capacity, the work of fitted
kernels in a table over the numbers that their slowdown depends on.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add, itemgetter
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.tree import map as tree_map
from jaxtyping import Bool, Float, Int

from dse.base.array_types import AnyArray
from dse.model.roofline import XLA_OPTIONS, Combination, energy_of_fastest, execution_times, fastest, sum_actions


class LayerTables(NamedTuple):
    """Layers of all variants, in steps of several layers of one variant: their work [FLOP or B], each with all of its repeats.

    Tables have an axis `entry`, of length 1 where nothing depends on a tabulated axis. `overhead` is in seconds. `actions` are those that
    take energy: operations, then bytes at each memory. `is_layer` is 1, or 0 for what only fills up a step.
    """

    flops: Float[AnyArray, "step layer execution term entry"]
    traffic: Float[AnyArray, "step layer execution memory entry"]
    legal: Bool[AnyArray, "step layer execution"]
    is_layer: Float[AnyArray, "step layer"]
    overhead: Float[AnyArray, "step layer execution"] | None = None
    actions: Float[AnyArray, "step layer execution action entry"] | None = None

    def one_layer_a_step(self) -> "LayerTables":
        """The same layers with one layer per step of the scan: faster to compile, slower to run."""
        return tree_map(lambda table: table.reshape(-1, 1, *table.shape[2:]), self)


class BatchArrays(NamedTuple):
    """The arrays that all designs of a batch share.

    `layers`: the layers in steps of the scan. `variants`: 1 where a step belongs to a variant. Inverse rates are `constant` times a factor
    for each axis that `depends` marks.
    """

    layers: LayerTables
    variants: Float[AnyArray, "variant step"]
    constant: Float[AnyArray, "execution term"]
    depends: Bool[AnyArray, "axis execution term"]

    def one_layer_a_step(self) -> "BatchArrays":
        layers_per_step = self.layers.is_layer.shape[1]
        return self._replace(layers=self.layers.one_layer_a_step(), variants=self.variants.repeat(layers_per_step, axis=1))


class Batch(NamedTuple):
    """A batch of designs: values of the numeric axes, positions in the tables, and factors of what is not tabulated.

    `entries`: the first row is the entry of the FLOP tables, then follows the entry of each memory's traffic. `overhead_factor` multiplies
    the overhead of every layer, `slowdown` the time of the unit in each execution. `host_time` is the least latency [s], where the host
    counts. `action_energies`: [J/FLOP], then [J/B] of each memory, where energy is evaluated.
    """

    values: Float[AnyArray, "axis design"]
    entries: Int[AnyArray, "table design"]
    overhead_factor: Float[AnyArray, "design"]
    slowdown: Float[AnyArray, "execution"]
    host_time: Float[AnyArray, "variant design"] | None = None
    action_energies: Float[AnyArray, "execution action design"] | None = None


def evaluate_batch(
    batch: Batch, arrays: BatchArrays, *, combination: Combination
) -> tuple[Float[AnyArray, "variant design"], Float[AnyArray, "variant design"] | None]:
    """Latency [s] and, where it is known, energy of the work [J] of each variant on each design."""
    inverse_rates = _inverse_rates(batch, arrays, combination.unit_terms)

    def step(_: None, layers: LayerTables) -> tuple[None, tuple[AnyArray, AnyArray | float | None]]:
        per_layer = [_evaluate_layer(layer, batch, inverse_rates, combination) for layer in _split(layers)]
        latency, energy = (reduce(add, parts) for parts in zip(*per_layer, strict=True))
        return None, (latency, None if layers.actions is None else energy)

    latency, energy = lax.scan(step, None, arrays.layers)[1]
    of_variants = arrays.variants @ latency
    of_variants = of_variants if batch.host_time is None else jnp.maximum(of_variants, batch.host_time)
    return of_variants, None if energy is None else arrays.variants @ energy


compiled_evaluate_batch = jax.jit(evaluate_batch, static_argnames="combination", compiler_options=XLA_OPTIONS)
differentiable_evaluate_batch = jax.jit(evaluate_batch, static_argnames="combination")  # inside a derivative no options are allowed


def _inverse_rates(batch: Batch, arrays: BatchArrays, unit_terms: int) -> Float[Array, "execution term design"]:
    designs = batch.values.shape[1]
    rates = jnp.broadcast_to(arrays.constant[:, :, None], (*arrays.constant.shape, designs))
    for axis, depends in enumerate(arrays.depends):
        rates = rates * jnp.where(depends[:, :, None], 1 / batch.values[axis], 1.0)
    return rates.at[:, :unit_terms].multiply(batch.slowdown[:, None, None])


def _split(layers: LayerTables) -> list[LayerTables]:
    return [tree_map(itemgetter(number), layers) for number in range(len(layers.is_layer))]


def _evaluate_layer(layer: LayerTables, batch: Batch, inverse_rates: Array, combination: Combination) -> tuple[AnyArray, AnyArray | float]:
    """Latency [s] and energy [J] of all repeats of a layer on each design."""
    work = [[*_look_up(flops, [batch.entries[0]] * len(flops)), *_look_up(moved, batch.entries[1:])]
            for flops, moved in zip(layer.flops, layer.traffic, strict=True)]  # fmt: skip
    overhead = None if layer.overhead is None else [seconds * batch.overhead_factor for seconds in layer.overhead]
    times = execution_times(work, layer.legal, overhead, inverse_rates, combination)
    energy: AnyArray | float = 0.0
    if layer.actions is not None:
        assert batch.action_energies is not None
        entries = [batch.entries[1], *batch.entries[1:]]  # operations depend on no capacity
        counts = [_look_up(actions, entries) for actions in layer.actions]
        energy = energy_of_fastest(times, sum_actions(counts, batch.action_energies))
    return layer.is_layer * fastest(times), energy


def _look_up(tables: Sequence[Float[AnyArray, "entry"]], entries: AnyArray | Sequence[AnyArray]) -> list[AnyArray]:
    return [table[0] if len(table) == 1 else table[entry] for table, entry in zip(tables, entries, strict=True)]
