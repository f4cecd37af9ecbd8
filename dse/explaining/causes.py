"""Why a sparse network is not as fast as its pattern allows: the causes between the ideal and the predicted speedup.

Ideally, every layer takes the density of the pattern times as long as in the dense network: 2:4 gains 2x. Each cause can be taken away from
the predicted network on its own, which makes an idealised network; the evaluator computes its time from the work that remains:

    not_pruned      layers whose weights are not pruned
    no_weights      layers without weights: attention products, softmax, norms
    transposes      copies of activations that the kernels of pruned layers read and write transposed
    runs_dense      pruned layers that run dense, because no sparse run takes them or dense is faster
    density         layers that keep more or less of their weights than the pattern or the mean of the network
    padding         zeros that are stored or computed: the run's pattern keeps more than the weights have
    gain            the unit's gain for the pattern is below its reduction of the work
    slower_unit     the unit that runs the pattern has a lower peak than the one that runs dense
    metadata        bytes of metadata, and their decoding
    traffic         bytes that pruning does not remove: activations, and weights that are read again
    efficiency      the sparse kernel reaches less of its peak and bandwidth than the dense one
    overhead        time of launches
    host            waits for the host that launches the kernels, which pruning does not shorten

Parts are Shapley values (`dse.explaining.shapley`), in speedup over the network and in seconds by layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Bool, Float

from dse.base.errors import InputError
from dse.explaining.chosen_layers import ChosenLayers, PerLayer, choose_layers, network_layers
from dse.explaining.mixtures import MixtureEvaluator
from dse.explaining.shapley import make_game
from dse.explaining.side import Side
from dse.model.host_time import add_waits
from dse.model.rates import UNIT_TERMS
from dse.model.roofline import Combination, execution_times
from dse.networks.layers import LayerArrays
from dse.sparsity.kinds import Structured
from dse.workload import Variant

CAUSES = {
    "not_pruned": "layers that are not pruned",
    "no_weights": "layers without weights",
    "transposes": "copies of transposed activations",
    "runs_dense": "pruned layers that run dense",
    "density": "uneven densities of the layers",
    "padding": "stored zeros",
    "gain": "gain of the unit below the ideal",
    "slower_unit": "slower unit",
    "metadata": "metadata",
    "traffic": "traffic that pruning does not remove",
    "efficiency": "efficiency of the sparse kernels",
    "overhead": "launch overhead",
    "host": "waits for the host",
}
OF_WHOLE_LAYERS = ("not_pruned", "no_weights", "transposes", "runs_dense")
ROUNDING = 1e-12  # relative differences below this are none


@dataclass(frozen=True, eq=False)
class Causes:
    """The causes between the ideal and the predicted speedup of one side.

    `speedup` has the part of each cause in predicted - ideal speedup, `seconds` its part in the latency of each layer. `kind` is the cause
    that covers a layer as a whole, '' for layers that run sparse. Latencies [s] and parts include all repeats of a layer.
    """

    names: tuple[str, ...]
    ideal: float
    speedup: Float[np.ndarray, "cause"]
    seconds: Float[np.ndarray, "cause layer"]
    dense: PerLayer
    sparse: PerLayer
    kind: np.ndarray
    chosen: ChosenLayers
    chosen_dense: ChosenLayers

    @property
    def predicted(self) -> float:
        """The predicted speedup."""
        return float(self.dense.sum() / self.sparse.sum())


def ideal_density(variant: Variant) -> float:
    """Density of the pattern, or the mean of the prunable weights where it has none of its own; raises InputError if none is pruned."""
    density = 1 - variant.sparsity if variant.pattern.density is None else variant.pattern.density
    if not (variant.density[variant.layers.has_weights] < 1).any():
        message = f"'{variant.workload}' is not pruned, so that there is no ideal speedup"
        raise InputError(message, "give a pattern or a pruned variant, as in '2:4'")
    return max(density, 1e-9)


def explain_causes(side: Side, evaluator: MixtureEvaluator | None = None) -> Causes:
    """The causes of one side; raises InputError where it cannot be evaluated."""
    ideal = ideal_density(side.variant)
    evaluator = evaluator or MixtureEvaluator(side, side, (), "speedup")
    kinds, terms = evaluator.layer_kinds(side), evaluator.terms(side, side.variant)
    dense_terms = evaluator.terms(side, side.dense)
    dense = choose_layers(side, side.dense, dense_terms)
    sparse = choose_layers(side, side.variant, terms)
    kind, count, density = kinds.kind, terms.count[kinds.kind], side.variant.density[kinds.first]
    whole = _whole_layer_causes(side.variant, terms.layers, density, dense, sparse)
    possible = _possible_causes(dense, sparse, whole, density, ideal) | ({"host"} if terms.host else set())
    names = tuple(name for name in CAUSES if name in possible)
    game = make_game(len(names))
    switched = {name: game.masks[:, number, None] for number, name in enumerate(names)}
    latencies = _idealised_latencies(side, dense, sparse, whole, density, ideal, switched, len(game.masks))
    dense_latency, dense_bound = network_layers(dense, dense_terms, kind)
    sparse_latency, sparse_bound = network_layers(sparse, terms, kind)
    seconds = latencies[:, kind] * count
    if terms.host is not None:
        waits = dense_latency - dense.latency[kind] * count
        seconds = np.where(switched["host"], add_waits(seconds, terms.host.best.take(kind)), seconds + ideal * waits)
    parts = game.parts(dense_latency.sum() / seconds.sum(axis=1))
    return Causes(
        names, 1 / ideal, parts, game.parts(seconds), dense_latency, sparse_latency, whole[kind],
        replace(sparse.take(kind), bound=sparse_bound), replace(dense.take(kind), bound=dense_bound),
    )  # fmt: skip


def _whole_layer_causes(variant: Variant, layers: LayerArrays, density: PerLayer, dense: ChosenLayers, sparse: ChosenLayers) -> np.ndarray:
    """The cause that covers each distinct layer as a whole; '' for layers that run sparse, or smaller by structured pruning."""
    pruned, only_transposes = density < 1, layers.transposes & (dense.latency == 0)
    runs_sparse = sparse.is_sparse | (pruned & isinstance(variant.pattern, Structured))
    without_weights = np.where(only_transposes, "transposes", "no_weights")
    names = np.where(pruned, "runs_dense", np.where(layers.has_weights, "not_pruned", without_weights))
    return np.where(runs_sparse, "", names)


def _possible_causes(dense: ChosenLayers, sparse: ChosenLayers, whole: np.ndarray, density: PerLayer, ideal: float) -> set[str]:
    """The causes that change the time of some layer in some idealised network."""
    runs = whole == ""
    a, b = dense.take(np.flatnonzero(runs)), sparse.take(np.flatnonzero(runs))
    possible = {name for name in OF_WHOLE_LAYERS if (whole == name).any()}
    tests = {
        "density": _differ(density[runs], ideal),
        "padding": _differ(b.flops, a.flops * density[runs]) or _differ(b.weight_bytes, a.weight_bytes * density[runs]),
        "gain": bool((b.dense_flops_over_gain > a.flops * ideal * (1 + ROUNDING)).any()),
        "slower_unit": _differ(a.seconds_per_flop, b.seconds_per_flop),
        "metadata": bool(b.metadata_bytes.any()),
        "traffic": bool((b.traffic != 0).any()),
        "efficiency": _differ(a.inefficiency, b.inefficiency) or _differ(a.slowdown, b.slowdown),
        "overhead": bool(a.overhead.any() or b.overhead.any()),
    }
    return possible | {name for name, is_possible in tests.items() if is_possible}


def _differ(a: np.ndarray, b: np.ndarray | float) -> bool:
    return not np.allclose(a, b, rtol=ROUNDING, atol=0)


def _idealised_latencies(
    side: Side,
    dense: ChosenLayers,
    sparse: ChosenLayers,
    whole: np.ndarray,
    density: PerLayer,
    ideal: float,
    switched: Mapping[str, Bool[np.ndarray, "mixture 1"]],
    mixtures: int,
) -> Float[np.ndarray, "mixture layer"]:
    """Latency [s] of one instance of each distinct layer, where the causes that are not switched on are taken away."""

    def take(name: str, with_cause: np.ndarray | float, without: np.ndarray | float) -> np.ndarray:
        return np.where(switched.get(name, np.zeros((mixtures, 1), bool)), with_cause, without)

    remaining = take("density", density, ideal)
    unit = take("slower_unit", sparse.seconds_per_flop, dense.seconds_per_flop)
    unit = unit * take("efficiency", sparse.inefficiency, dense.inefficiency)
    stored = remaining * take("padding", _ratio(sparse.flops, density), dense.flops) * unit
    capped = take("gain", sparse.dense_flops_over_gain, 0.0) * unit
    weights = remaining * take("padding", _ratio(sparse.weight_bytes, density), dense.weight_bytes) + take(
        "metadata", sparse.metadata_bytes, 0.0
    )
    other = sparse.traffic - (sparse.weight_bytes + sparse.metadata_bytes), ideal * (dense.traffic - dense.weight_bytes)
    memories = [
        (weights + take("traffic", with_cause, without)) * take("efficiency", *slowdowns) * seconds
        for with_cause, without, slowdowns, seconds in zip(
            *other, zip(sparse.slowdown, dense.slowdown, strict=True), dense.seconds_per_byte, strict=True
        )
    ]
    terms = [capped, stored, take("metadata", sparse.decode, 0.0), *memories]
    overhead = take("overhead", sparse.overhead, ideal * dense.overhead)
    combination = Combination(UNIT_TERMS, side.options.resource_overlap)
    with jax.enable_x64(True):
        (runs_sparse,) = execution_times([terms], None, [overhead], np.ones((1, len(terms))), combination)
    latency = np.array(np.broadcast_to(np.asarray(runs_sparse), (mixtures, len(whole))))
    for name in OF_WHOLE_LAYERS:
        latency = np.where(whole == name, take(name, sparse.latency, ideal * dense.latency), latency)
    return latency


def _ratio(values: PerLayer, density: PerLayer) -> PerLayer:
    """Values over the density; 0 for layers that keep nothing."""
    return np.where(density > 0, values / np.where(density > 0, density, 1.0), 0.0)
