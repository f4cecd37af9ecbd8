"""Latencies, energies and costs of mixtures of two sides, all designs that share their layer terms at once.

A mixture takes each factor from one of two sides. Factors that only scale a rate are evaluated as an array of designs by the equation of
`dse.model.roofline`; for every combination of the other factors the terms of the layers are computed anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import jax
import numpy as np
from jaxtyping import Bool, Float

from dse.explaining.factors import DEVICE, Factor, mix_sides
from dse.explaining.side import Side
from dse.model.cost.area import area
from dse.model.cost.coefficients import check_process, has_known_process
from dse.model.cost.design import COST_PATH, Design
from dse.model.cost.energy import layer_energy
from dse.model.cost.power import power, static_power
from dse.model.efficiency.fitted import LAUNCH_LATENCY, slowdown_paths
from dse.model.efficiency.kernel_selection import available_kernels
from dse.model.efficiency.protocol import EfficiencyModel
from dse.model.executions import list_executions
from dse.model.memory_levels import capacity_paths
from dse.model.network_terms import efficiency_of, network_terms
from dse.model.rates import METADATA_BYTES, factored_inverse_rates, rate_paths
from dse.model.roofline import Combination, NetworkWork, energy_of_fastest, execution_times, fastest
from dse.model.terms import LayerTerms
from dse.schema.model_options import Fidelity, ModelOptions
from dse.workload import Variant

Masks = Bool[np.ndarray, "mixture factor"]
PerMixture = Float[np.ndarray, "mixture"]
MixtureLayers = Float[np.ndarray, "mixture layer"]
COSTS = {"area": area, "power": power}  # quantities of the accelerator alone


@dataclass(frozen=True, eq=False)
class MixtureResults:
    """Results of some mixtures, each with all repeats of its layers; `latency` [s] and `energy` [J] are None where they were not needed.

    `layers` are the latencies or energies of single layers; None where the networks of the mixtures differ.
    """

    value: PerMixture
    dense: PerMixture | None = None
    layers: MixtureLayers | None = None


@dataclass(eq=False)
class MixtureEvaluator:
    """Evaluates a quantity (`latency`, `speedup`, `energy`, `area` or `power`) of mixtures of `a` and `b`."""

    a: Side
    b: Side
    factors: Sequence[Factor]
    quantity: str
    _efficiencies: dict[tuple[str, ModelOptions], EfficiencyModel] = field(default_factory=dict)

    def evaluate(self, masks: Masks) -> MixtureResults:
        """The quantity of each mixture; a mask is true for the factors that come from `b`. Raises InputError."""
        outer = np.array([not self._is_rate(factor) for factor in self.factors], bool)
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

    def _is_rate(self, factor: Factor) -> bool:
        """Whether a factor scales rates or costs and nothing else, so that it can be an array."""
        if not factor.is_number or "-" in (factor.a, factor.b):
            return False
        if self.quantity in COSTS:
            return COST_PATH.fullmatch(factor.key) is not None
        return factor.key in self._rate_paths and factor.key not in self._term_paths

    @cached_property
    def _rate_paths(self) -> set[str]:
        """Paths of all numbers that some rate of a mixture may depend on."""
        sides = (self.a, self.b)
        fidelities: list[Fidelity] = [side.options.fidelity for side in sides]
        dtypes = [self.a.dtype] if self.a.dtype == self.b.dtype else [self.a.dtype, self.b.dtype]
        listed = [
            list_executions(side.accelerator, dtype, fidelity)
            for side in sides for dtype in dtypes for fidelity in fidelities
            if any(dtype.compute in unit.peak for unit in side.accelerator.units.values())
        ]  # fmt: skip
        return rate_paths(execution for executions in listed for execution in executions)

    @cached_property
    def _term_paths(self) -> set[str]:
        """Paths on which the terms of the layers depend; some of them scale rates as well."""
        paths = set[str]()
        for side in (self.a, self.b):
            paths |= set(capacity_paths(side.accelerator, side.options.fidelity))
            if side.options.fidelity == "calibrated":
                paths |= {*slowdown_paths(side.accelerator, [self.a.dtype, self.b.dtype], ()), LAUNCH_LATENCY}
        return paths

    def may_matter(self, factor: Factor) -> bool:
        """Whether a factor can change the quantity of some mixture; False only where the model does not read it."""
        if factor.key == DEVICE:
            return self.quantity not in ("latency", "speedup") or self._has_fidelity("calibrated")
        if not factor.paths:
            return self.quantity not in COSTS
        costs = self.quantity not in ("latency", "speedup") and any(_is_cost(path) for path in factor.paths)
        return costs or (self.quantity not in COSTS and any(self._is_read(path) for path in factor.paths))

    def _has_fidelity(self, *names: str) -> bool:
        return self.a.options.fidelity in names or self.b.options.fidelity in names

    def _is_read(self, path: str) -> bool:
        """Whether rates, terms or the choice of executions may depend on a part of the accelerator."""
        if path in self._rate_paths | self._term_paths:
            return True
        kind, name, *rest = path.split(".")
        if kind == "memory":
            return self._has_fidelity("capacity", "calibrated") and rest[-1:] != ["energy"]
        if kind != "units" or rest[:1] == ["energy"]:
            return False
        if rest[:1] == ["peak"]:
            return rest[1] in (self.a.dtype.compute, self.b.dtype.compute)
        if rest[:1] == ["runs"]:
            return any(self._may_run(side, name, rest[1]) for side in (self.a, self.b))
        return not rest or self._has_fidelity("calibrated")

    def _may_run(self, side: Side, unit_name: str, run_name: str) -> bool:
        """Whether a side has a run that computes in one of the dtypes."""
        unit = side.accelerator.units.get(unit_name)
        run = None if unit is None else unit.runs.get(run_name)
        return run is not None and bool({self.a.dtype.compute, self.b.dtype.compute} & set(run.dtypes or unit.peak if unit else ()))

    def _evaluate_setting(self, setting: np.ndarray, masks: Masks) -> MixtureResults:
        """The mixtures that share all factors but those that scale a rate."""
        side = mix_sides(self.a, self.b, self.factors, [f.key for f, on in zip(self.factors, setting, strict=True) if on])
        values = {
            factor.key: np.where(masks[:, number], *(s.accelerator.value(factor.key) for s in (self.b, self.a)))
            for number, factor in enumerate(self.factors)
            if self._is_rate(factor)
        }
        if self.quantity in COSTS:
            return MixtureResults(_cost(side, values, self.quantity, len(masks)))
        if self.quantity == "energy":
            layers = self._energies(side, values, len(masks))
            return MixtureResults(layers.sum(axis=1), None, layers)
        layers = self._latencies(side, side.variant, values, len(masks))
        latency = layers.sum(axis=1)
        if self.quantity == "latency":
            return MixtureResults(latency, None, layers)
        dense = self._latencies(side, side.dense, values, len(masks)).sum(axis=1)
        return MixtureResults(latency, dense, layers)

    def terms(self, side: Side, variant: Variant) -> LayerTerms:
        """The terms of a variant at the settings of a side."""
        return network_terms(side.accelerator, variant, side.batch, side.dtype, side.options, self._efficiency(side))

    def _efficiency(self, side: Side) -> EfficiencyModel:
        key = (side.accelerator.base.document.sha256, side.options)
        if key not in self._efficiencies:
            kernels = available_kernels(side.accelerator.base, side.options)
            self._efficiencies[key] = efficiency_of(side.options, kernels, side.accelerator.base, with_samples=False)
        return self._efficiencies[key]

    def _latencies(self, side: Side, variant: Variant, values: Mapping[str, np.ndarray], mixtures: int) -> MixtureLayers:
        terms = self.terms(side, variant)
        work, layer = distinct_layers(terms)
        rates = _inverse_rates(terms, side, values, mixtures)
        return _evaluate(_latency_of_layers, work, rates, side)[layer].T * terms.count

    def network_latencies(self, side: Side, values: Mapping[str, np.ndarray]) -> tuple[PerMixture, PerMixture]:
        """Latencies [s] of the dense and the sparse network of a side where some rates take the given values: arrays by path."""
        mixtures = max((len(array) for array in values.values()), default=1)
        dense, sparse = (self._latencies(side, variant, values, mixtures).sum(axis=1) for variant in (side.dense, side.variant))
        return dense, sparse

    def _energies(self, side: Side, values: Mapping[str, np.ndarray], mixtures: int) -> MixtureLayers:
        """Energy of each layer, its share of the static energy included."""
        terms, design = self.terms(side, side.variant), _design(side, {})
        check_process(design)
        work, layer = distinct_layers(terms, layer_energy(terms, design, side.dtype.compute))
        rates = _inverse_rates(terms, side, values, mixtures)
        latency = _evaluate(_latency_of_layers, work, rates, side)[layer].T * terms.count
        dynamic = _evaluate(_energy_of_layers, work, rates, side)[layer].T * terms.count
        replaced = {path: array for path, array in values.items() if COST_PATH.fullmatch(path)}
        static = static_power(_design(side, replaced))
        return dynamic + np.broadcast_to(np.asarray(static, float), (mixtures,))[:, None] * latency


def _is_cost(path: str) -> bool:
    """Whether area, power or energy may depend on a number, a run, a unit or a memory."""
    last = path.rpartition(".")[2]
    return COST_PATH.fullmatch(path) is not None or path.count(".") == 1 or (".runs." in path and last not in ("efficiency", "decode"))


def _design(side: Side, replaced: Mapping[str, np.ndarray]) -> Design:
    """The design of a side, anchored to the published figures of its base if these can be modelled."""
    base = side.accelerator.base
    return Design(side.accelerator, replaced, base if has_known_process(Design(base)) else None)


def _cost(side: Side, values: Mapping[str, np.ndarray], quantity: str, mixtures: int) -> PerMixture:
    design = _design(side, {path: array for path, array in values.items() if (array != side.accelerator.value(path)).any()})
    check_process(design)
    return np.broadcast_to(np.asarray(COSTS[quantity](design), float), (mixtures,)).copy()


def distinct_layers(terms: LayerTerms, energy: np.ndarray | None = None) -> tuple[NetworkWork, np.ndarray]:
    """The best estimate of the distinct layers, one instance of each, and which of them every layer is."""
    columns = [terms.slowed_work[0], terms.legal] + ([] if terms.overhead is None else [terms.overhead[0]])
    columns += [] if energy is None else [energy]
    rows = np.concatenate([np.reshape(column, (len(terms.layers), -1)) for column in columns], axis=1)
    _, first, layer = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    overhead = None if terms.overhead is None else terms.overhead[0][first]
    return NetworkWork(terms.slowed_work[0][first], terms.legal[first], overhead, None if energy is None else energy[first]), layer.ravel()


def _inverse_rates(terms: LayerTerms, side: Side, values: Mapping[str, np.ndarray], mixtures: int) -> np.ndarray:
    """Inverse rates of each mixture [execution, term, mixture]."""
    constant, factors = factored_inverse_rates(terms.executions, side.accelerator, values)
    rates = np.repeat(constant[:, :, None], mixtures, axis=2)
    for factor in factors:
        rates = rates * factor.at()
    return rates


def _evaluate(function, work: NetworkWork, rates: np.ndarray, side: Side) -> Float[np.ndarray, "layer mixture"]:
    """Call a compiled function on chunks of mixtures, padded to a power of two, so that few shapes are compiled."""
    combination = Combination(METADATA_BYTES, side.options.resource_overlap)
    with jax.enable_x64(True):
        parts = [np.asarray(function(work, chunk, combination))[:, :size] for chunk, size in _padded_chunks(rates)]
    return np.concatenate(parts, axis=1)


def _padded_chunks(rates: np.ndarray, largest: int = 1024) -> Iterator[tuple[np.ndarray, int]]:
    for start in range(0, rates.shape[2], largest):
        chunk = rates[:, :, start : start + largest]
        size = chunk.shape[2]
        padding = 2 ** int(np.ceil(np.log2(size))) - size
        yield np.pad(chunk, ((0, 0), (0, 0), (0, padding)), mode="edge"), size


def _times(work: NetworkWork, rates: jax.Array, combination: Combination) -> list[jax.Array]:
    """Times of one instance of each layer [layer, mixture] under each execution."""
    amounts = jax.numpy.moveaxis(work.work, 0, -1)[..., None]  # [execution, term, layer, 1]
    overhead = None if work.overhead is None else work.overhead.T[..., None]
    return execution_times(amounts, work.legal_mask.T[..., None], overhead, rates, combination)


@partial(jax.jit, static_argnames="combination")
def _latency_of_layers(work: NetworkWork, rates: jax.Array, combination: Combination) -> jax.Array:
    return fastest(_times(work, rates, combination))


@partial(jax.jit, static_argnames="combination")
def _energy_of_layers(work: NetworkWork, rates: jax.Array, combination: Combination) -> jax.Array:
    assert work.energy is not None
    return energy_of_fastest(_times(work, rates, combination), list(work.energy.T[..., None]))
