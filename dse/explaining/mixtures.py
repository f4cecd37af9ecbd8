"""Latencies, energies and costs of mixtures of two sides, all designs that share their layer terms at once.

A mixture takes each factor from one of two sides. Factors that only scale a rate are evaluated as an array of designs by the equation of
`dse.model.roofline`; for every combination of the other factors the terms of the layers are computed anew.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from dse.base.array_types import AnyArray
from dse.explaining.chosen_layers import distinct_layers, take_layers
from dse.explaining.factors import Factor, mix_sides
from dse.explaining.fidelity_parts import take_away
from dse.explaining.relevance import COSTS, Relevance
from dse.explaining.repeated_layers import LayerKinds
from dse.explaining.side import Side
from dse.model.cost.coefficients import check_process, has_known_process
from dse.model.cost.design import COST_PATH, Design
from dse.model.cost.energy import layer_energy
from dse.model.cost.power import static_power, supplied_share
from dse.model.efficiency.efficiency_file import available_kernels
from dse.model.efficiency.protocol import EfficiencyModel
from dse.model.host_time import add_waits
from dse.model.network_terms import efficiency_of, network_terms
from dse.model.rates import UNIT_TERMS, factored_inverse_rates
from dse.model.roofline import Combination, NetworkWork, energy_of_fastest, execution_times, fastest
from dse.model.terms import LayerTerms, compulsory_terms
from dse.schema.model_options import ModelOptions
from dse.workload import Variant

SMALLEST_CHUNK, LARGEST_CHUNK = 16, 1024  # mixtures that are evaluated at once
Masks = Bool[np.ndarray, "mixture factor"]
PerMixture = Float[np.ndarray, "mixture"]
MixtureLayers = Float[np.ndarray, "mixture layer"]


@dataclass(frozen=True, eq=False)
class MixtureResults:
    """The quantity of some mixtures: of a speedup the latency (`value`) and that of the dense network (`dense`), in SI units.

    `layers` are the latencies or energies of single layers; None where the networks of the mixtures differ.
    """

    value: PerMixture
    dense: PerMixture | None = None
    layers: MixtureLayers | None = None


@dataclass(frozen=True, eq=False)
class DistinctLayers:
    """The terms of the distinct layers of a network, best estimates alone; `kind` is the distinct layer that each layer is."""

    terms: LayerTerms
    kind: Int[np.ndarray, "layer"]
    count: Float[np.ndarray, "layer"]

    def expand(self, values: Float[np.ndarray, "distinct mixture"]) -> MixtureLayers:
        """Values of all repeats of each layer from those of one instance of each distinct layer."""
        return values[self.kind].T * self.count


@dataclass(eq=False)
class MixtureEvaluator:
    """Evaluates a quantity (`latency`, `speedup`, `energy`, `area` or `power`) of mixtures of `a` and `b`."""

    a: Side
    b: Side
    factors: Sequence[Factor]
    quantity: str
    relevance: Relevance = field(init=False)
    _efficiencies: dict[tuple[str, ModelOptions], EfficiencyModel] = field(default_factory=dict)
    _layers: dict[Hashable, DistinctLayers] = field(default_factory=dict)
    _kinds: dict[Hashable, LayerKinds] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.relevance = Relevance(self.a, self.b, self.quantity)

    def evaluate(self, masks: Masks) -> MixtureResults:
        """The quantity of each mixture; a mask is true for the factors that come from `b`. Raises InputError."""
        outer = np.array([not self.relevance.is_array(factor) for factor in self.factors], bool)
        settings, group = np.unique(masks & outer, axis=0, return_inverse=True)
        parts = {"value": np.zeros(len(masks)), "dense": np.zeros(len(masks))}
        layers: list[np.ndarray | None] = [None] * len(masks)
        for number, setting in enumerate(settings):
            members = np.flatnonzero(group.ravel() == number)
            results = self._evaluate_setting(setting, masks[members])
            parts["value"][members] = results.value
            parts["dense"][members] = np.nan if results.dense is None else results.dense
            for row, member in enumerate(members):
                layers[member] = None if results.layers is None else results.layers[row]
        sizes = {None if row is None else len(row) for row in layers}
        rows = [row for row in layers if row is not None]
        same = len(sizes) == 1 and None not in sizes
        return MixtureResults(parts["value"], parts["dense"] if self.quantity == "speedup" else None, np.array(rows) if same else None)

    def _evaluate_setting(self, setting: np.ndarray, masks: Masks) -> MixtureResults:
        """The mixtures that share all factors but those that can be arrays."""
        chosen = [factor for factor, is_on in zip(self.factors, setting, strict=True) if is_on]
        side = mix_sides(self.a, self.b, self.factors, [factor.key for factor in chosen])
        values = {
            factor.key: np.where(masks[:, number], *(s.accelerator.value(factor.key) for s in (self.b, self.a)))
            for number, factor in enumerate(self.factors)
            if self.relevance.is_array(factor)
        }
        if self.quantity in COSTS:
            return MixtureResults(_cost(side, values, self.quantity, len(masks)))
        key = frozenset(factor.key for factor in chosen if self.relevance.changes_terms(factor))
        if self.quantity == "energy":
            layers = self._energies(side, self._distinct(side, side.variant, (key, "sparse")), values, len(masks))
            return MixtureResults(layers.sum(axis=1), None, layers)
        layers = self._latencies(side, self._distinct(side, side.variant, (key, "sparse")), values, len(masks))
        if self.quantity == "latency":
            return MixtureResults(layers.sum(axis=1), None, layers)
        dense = self._latencies(side, self._distinct(side, side.dense, (key, "dense")), values, len(masks))
        return MixtureResults(layers.sum(axis=1), dense.sum(axis=1), layers)

    def layer_kinds(self, side: Side) -> LayerKinds:
        """The kinds of layers of the network of a side."""
        key = (side.variant, side.options.fusion)
        if key not in self._kinds:
            self._kinds[key] = LayerKinds.of(side)
        return self._kinds[key]

    def terms(self, side: Side, variant: Variant) -> LayerTerms:
        """The terms of one layer of each kind, at the settings of a side, of its variant or of the dense network."""
        variant = self.layer_kinds(side).take_from(variant)
        terms = network_terms(side.accelerator, variant, side.batch, side.dtype, side.options, self._efficiency(side))
        if not side.without:
            return terms
        return take_away(terms, compulsory_terms(side.accelerator, variant, side.batch, side.dtype, side.options), side.without)

    def network_latencies(self, side: Side, values: Mapping[str, np.ndarray]) -> tuple[PerMixture, PerMixture]:
        """Latencies [s] of the dense and the sparse network of a side where some rates take the given values: arrays by path."""
        mixtures = max((len(array) for array in values.values()), default=1)
        layers = [self._distinct(side, variant, (side, variant.pattern)) for variant in (side.dense, side.variant)]
        dense, sparse = (self._latencies(side, each, values, mixtures).sum(axis=1) for each in layers)
        return dense, sparse

    def _efficiency(self, side: Side) -> EfficiencyModel:
        key = (side.accelerator.base.document.sha256, side.options)
        if key not in self._efficiencies:
            kernels = available_kernels(side.accelerator.base, side.options)
            self._efficiencies[key] = efficiency_of(side.options, kernels, side.accelerator.base, with_samples=False)
        return self._efficiencies[key]

    def _distinct(self, side: Side, variant: Variant, key: Hashable) -> DistinctLayers:
        """The distinct layers of a variant; sides with the same `key` have the same."""
        if key not in self._layers:
            terms, kind = self.terms(side, variant), self.layer_kinds(side).kind
            first, distinct = distinct_layers(terms)
            self._layers[key] = DistinctLayers(take_layers(terms, first), distinct[kind], terms.count[kind])
        return self._layers[key]

    def _latencies(self, side: Side, layers: DistinctLayers, values: Mapping[str, np.ndarray], mixtures: int) -> MixtureLayers:
        rates = _inverse_rates(layers.terms, side, values, mixtures)
        latencies = layers.expand(_evaluate(_latency_of_layers, _network_work(layers.terms), rates, side))
        return add_waits(latencies, None if layers.terms.host is None else layers.terms.host.take(layers.kind))

    def _energies(self, side: Side, layers: DistinctLayers, values: Mapping[str, np.ndarray], mixtures: int) -> MixtureLayers:
        """Energy of each layer, its share of the static energy included.

        Under `calibrated` the stated power limits it, but not where parts of the fidelity are taken away: the times are then too short.
        """
        design = _design(side, {})
        check_process(design)
        rates = _inverse_rates(layers.terms, side, values, mixtures)
        work = _network_work(layers.terms, layer_energy(layers.terms, design))
        dynamic = layers.expand(_evaluate(_energy_of_layers, work, rates, side))
        replaced = {path: array for path, array in values.items() if COST_PATH.fullmatch(path)}
        at_values, latencies = _design(side, replaced), self._latencies(side, layers, values, mixtures)
        static = np.broadcast_to(np.asarray(static_power(at_values), float), (mixtures,))
        share = supplied_share(at_values, dynamic.sum(axis=1), latencies.sum(axis=1), "sol" if side.without else side.options.fidelity)
        return dynamic * np.reshape(share, (-1, 1)) + static[:, None] * latencies


def _design(side: Side, replaced: Mapping[str, np.ndarray]) -> Design:
    """The design of a side, anchored to the published figures of its base if these can be modelled."""
    base = side.accelerator.base
    return Design(side.accelerator.without_links(), replaced, base if has_known_process(Design(base)) else None)


def _cost(side: Side, values: Mapping[str, np.ndarray], quantity: str, mixtures: int) -> PerMixture:
    design = _design(side, {path: array for path, array in values.items() if (array != side.accelerator.value(path)).any()})
    check_process(design)
    return np.broadcast_to(np.asarray(COSTS[quantity](design), float), (mixtures,)).copy()


def _network_work(terms: LayerTerms, energy: Float[np.ndarray, "layer execution"] | None = None) -> NetworkWork:
    """The best estimate of one instance of each layer."""
    overhead = None if terms.overhead is None else terms.overhead[0]
    return NetworkWork(terms.slowed_work[0], terms.legal, overhead, energy)


def _inverse_rates(terms: LayerTerms, side: Side, values: Mapping[str, np.ndarray], mixtures: int) -> np.ndarray:
    """Inverse rates of each mixture [execution, term, mixture]."""
    constant, factors = factored_inverse_rates(terms.executions, side.accelerator.without_links(), values)
    rates = np.repeat(constant[:, :, None], mixtures, axis=2)
    for factor in factors:
        rates = rates * factor.at()
    return rates


def _evaluate(function: Callable[..., jax.Array], work: NetworkWork, rates: np.ndarray, side: Side) -> Float[np.ndarray, "layer mixture"]:
    """Call a compiled function on chunks of mixtures, padded to a power of two, so that few shapes are compiled."""
    combination = Combination(UNIT_TERMS, side.resource_overlap)
    with jax.enable_x64(True):
        parts = [np.asarray(function(work, chunk, combination))[:, :size] for chunk, size in _padded_chunks(rates)]
    return np.concatenate(parts, axis=1)


def _padded_chunks(rates: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    for start in range(0, rates.shape[2], LARGEST_CHUNK):
        chunk = rates[:, :, start : start + LARGEST_CHUNK]
        size = chunk.shape[2]
        padding = max(2 ** int(np.ceil(np.log2(size))), SMALLEST_CHUNK) - size
        yield np.pad(chunk, ((0, 0), (0, 0), (0, padding)), mode="edge"), size


def _times(work: NetworkWork, rates: jax.Array, combination: Combination) -> list[AnyArray]:
    """Times of one instance of each layer [layer, mixture] under each execution."""
    amounts = jax.numpy.moveaxis(work.work, 0, -1)[..., None]  # [execution, term, layer, 1]
    overhead = None if work.overhead is None else work.overhead.T[..., None]
    return execution_times(amounts, work.legal_mask.T[..., None], overhead, rates, combination)


@partial(jax.jit, static_argnames="combination")
def _latency_of_layers(work: NetworkWork, rates: jax.Array, combination: Combination) -> AnyArray:
    return fastest(_times(work, rates, combination))


@partial(jax.jit, static_argnames="combination")
def _energy_of_layers(work: NetworkWork, rates: jax.Array, combination: Combination) -> AnyArray:
    assert work.energy is not None
    return energy_of_fastest(_times(work, rates, combination), list(work.energy.T[..., None]))
