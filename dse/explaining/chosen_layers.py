"""The execution that runs each layer of one side, its time, what bounds it, and what it works on.

Networks repeat their layers, so everything is evaluated on the distinct layers only.
"""

from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from dse.explaining.side import Side
from dse.model import compaction, traffic
from dse.model.cost.energy import execution_preference
from dse.model.host_time import HOST_RESOURCE, add_waits
from dse.model.layer_times import layer_times, of_chosen
from dse.model.rates import METADATA_BYTES, STORED_FLOPS, TRAFFIC, inverse_rates
from dse.model.roofline import bounding_resource, choose
from dse.model.stored_weights import store_weights
from dse.model.terms import OVERHEAD_RESOURCE, LayerTerms
from dse.workload import Variant

PerLayer = Float[np.ndarray, "layer"]
PerMemory = Float[np.ndarray, "memory layer"]


@dataclass(frozen=True, eq=False)
class ChosenLayers:
    """One instance of each layer under the execution that runs it.

    `latency` [s]; `bound` and `execution` are names. `flops` [FLOP] is the stored work, `dense_flops_over_gain` [FLOP] the work that the
    gain caps, over the gain (0 without a gain), `seconds_per_flop` 1 / peak of the unit, `inefficiency` 1 / E times the slowdown of a
    fitted kernel. `decode` [s] is the time of the decoder, `traffic` [B] of every memory comes with its `slowdown` and
    `seconds_per_byte`; `overhead` [s]. `weight_bytes` and `metadata_bytes` [B] are those of the stored weights.
    """

    latency: PerLayer
    bound: np.ndarray
    execution: np.ndarray
    is_sparse: Bool[np.ndarray, "layer"]
    flops: PerLayer
    dense_flops_over_gain: PerLayer
    seconds_per_flop: PerLayer
    inefficiency: PerLayer
    decode: PerLayer
    traffic: PerMemory
    slowdown: PerMemory
    seconds_per_byte: PerMemory
    overhead: PerLayer
    weight_bytes: PerLayer
    metadata_bytes: PerLayer

    def take(self, index: Int[np.ndarray, "layer"]) -> "ChosenLayers":
        """The layers at some positions."""
        return ChosenLayers(**{name: value[..., index] for name, value in vars(self).items()})


def distinct_layers(*stacked: LayerTerms) -> tuple[Int[np.ndarray, "distinct"], Int[np.ndarray, "layer"]]:
    """One layer of each kind of layers with the same terms in all of `stacked`, and the kind of each layer."""
    columns = [column for terms in stacked for column in _term_columns(terms)]
    rows = np.concatenate([np.reshape(column, (len(column), -1)) for column in columns], axis=1)
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, kind.ravel()


def _term_columns(terms: LayerTerms) -> list[np.ndarray]:
    sizes = [terms.layers.m, terms.layers.k, terms.layers.n, terms.layers.groups, terms.layers.has_flops, terms.layers.has_weights]
    overhead = [] if terms.overhead is None else [terms.overhead[0]]
    launches = [] if terms.host is None else [terms.host.launches]
    return [terms.slowed_work[0], terms.work, terms.legal, terms.energy_flops, *overhead, *launches, *sizes]


def take_layers(terms: LayerTerms, index: Int[np.ndarray, "distinct"]) -> LayerTerms:
    """The terms of some layers, best estimates alone."""
    by_layer = ("legal", "dense_flops", "stored_flops", "metadata_bytes", "traffic", "energy_flops", "legal_candidates")
    taken: dict[str, object] = {name: getattr(terms, name)[index] for name in by_layer}
    taken |= {name: None if (v := getattr(terms, name)) is None else v[:1, index] for name in ("slowdown", "overhead")}
    kernels = None if terms.kernels is None else terms.kernels[index]
    host = None if terms.host is None else terms.host.best.take(index)
    return replace(terms, layers=terms.layers.take(index), kernels=kernels, traffic_bound=None, host=host, **taken)


def network_layers(chosen: ChosenLayers, terms: LayerTerms, kind: Int[np.ndarray, "layer"]) -> tuple[PerLayer, np.ndarray]:
    """Latency of each layer with its repeats and its share of the waits for the host [s], and what bounds it.

    `chosen` and `terms` are of one layer of each kind, `kind` is the kind of each layer.
    """
    latency, host = (chosen.latency * terms.count)[kind], None if terms.host is None else terms.host.best.take(kind)
    waiting = add_waits(latency[None], host)[0]
    return waiting, np.where(waiting > 2 * latency, HOST_RESOURCE, chosen.bound[kind])


def choose_layers(side: Side, variant: Variant, terms: LayerTerms) -> ChosenLayers:
    """The chosen execution of the distinct layers `terms` of a variant, which is given whole."""
    rates = inverse_rates(terms.executions, side.accelerator)
    times = layer_times(terms, rates, side.resource_overlap)
    preference = execution_preference(terms, side.accelerator, side.accelerator.base)
    with jax.enable_x64(True):
        choice = np.asarray(choose(list(times.by_execution[0].T), list(preference.T)), int)
        by_resource = np.stack([of_chosen(resource, choice) for resource in times.by_resource[:, 0]])
        bounding = np.asarray(bounding_resource(list(by_resource)))
    executions = [terms.executions[number] for number in choice]
    overhead = np.zeros(len(choice)) if terms.overhead is None else of_chosen(terms.overhead[0], choice)
    bound = np.array([e.resources(True)[number] for e, number in zip(executions, bounding, strict=True)], object)
    peaks = np.array([side.accelerator.value(f"units.{e.unit}.peak.{side.dtype.compute}") for e in executions])
    gains = np.array([1.0 if e.run.gain is None else e.run.gain.value for e in executions])
    slowdown = np.ones((len(choice), terms.work.shape[2])) if terms.slowdown is None else terms.slowdown[0][np.arange(len(choice)), choice]
    chosen_rates = rates[choice]
    return ChosenLayers(
        latency=of_chosen(times.by_execution[0], choice),
        bound=np.where(overhead > by_resource.max(axis=0), OVERHEAD_RESOURCE, bound),
        execution=np.array([e.name for e in executions], object),
        is_sparse=np.array([e.is_sparse for e in executions], bool),
        flops=of_chosen(terms.stored_flops, choice),
        dense_flops_over_gain=of_chosen(terms.dense_flops, choice) / gains,
        seconds_per_flop=1 / peaks,
        inefficiency=chosen_rates[:, STORED_FLOPS] * peaks * slowdown[:, STORED_FLOPS],
        decode=of_chosen(terms.metadata_bytes, choice) * chosen_rates[:, METADATA_BYTES] * slowdown[:, METADATA_BYTES],
        traffic=np.stack([of_chosen(moved, choice) for moved in np.moveaxis(terms.traffic, -1, 0)]),
        slowdown=slowdown[:, TRAFFIC:].T,
        seconds_per_byte=chosen_rates[:, TRAFFIC:].T,
        overhead=overhead,
        **_stored_bytes(side, variant, terms, choice),
    )


def _stored_bytes(side: Side, variant: Variant, terms: LayerTerms, choice: Int[np.ndarray, "layer"]) -> dict[str, PerLayer]:
    """Bytes of the stored weights and of their metadata of distinct layers."""
    compacted = compaction.compact_variant(variant)
    layers = compacted.layers.at_batch(side.batch)
    names = {name: number for number, name in enumerate(layers.name)}
    index = np.array([names[name] for name in terms.layers.name], int)
    values, metadata = np.zeros(len(index)), np.zeros(len(index))
    for number in np.unique(choice):
        stored = store_weights(layers, compacted, terms.executions[number], side.dtype.number_format("weights"))
        positions = np.where(layers.has_weights, stored.metadata_bits / 8, 0.0)
        values = np.where(choice == number, (traffic.weight_bytes(layers, stored, side.dtype) - positions)[index], values)
        metadata = np.where(choice == number, positions[index], metadata)
    return {"weight_bytes": values, "metadata_bytes": metadata}
