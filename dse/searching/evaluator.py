"""Evaluate designs: the results of every design of a batch, each network in the variant that suits the objectives."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from dse.model.compaction import compaction_warnings
from dse.model.cost.area import area
from dse.model.cost.design import COST_PATH, Design
from dse.model.cost.power import power, static_power
from dse.model.efficiency.constant import efficiency_paths, missing_efficiency_warnings
from dse.model.efficiency.fitted import LAUNCH_LATENCY, transfer_warnings
from dse.model.executions import Execution
from dse.model.fusion import fusion_warnings
from dse.model.layer_times import fastest_times, layer_times
from dse.model.network_terms import efficiency_of, network_terms
from dse.model.rates import inverse_rates
from dse.schema.search import RobustOptions
from dse.searching.batch_evaluator import Batch, compiled_evaluate_batch, differentiable_evaluate_batch
from dse.searching.categorical_config import CategoricalConfig, build_config
from dse.searching.over_networks import HIGHER_IS_BETTER, Base, OverNetworks, take_variants
from dse.searching.problem import SearchProblem
from dse.searching.space import DesignMatrix, Space
from dse.searching.variant_choice import VariantRule
from dse.workload import Variant

CHUNK = 16384  # designs evaluated at once: their rates stay in the cache
MOST_SAMPLED = 4_000_000  # times of variants on designs, over all samples of efficiencies, that are kept at once


@dataclass(frozen=True, eq=False)
class BatchResults:
    """`combined`: each result over the networks [design]; `each`: those of every network [network, design]; `choice`: the number of the
    variant that each network runs [network, design]."""

    combined: dict[str, Any]
    each: dict[str, Any]
    choice: Int[np.ndarray, "network design"]


class Evaluator:
    """The designs of a space; `results` evaluates a batch of them.

    `base`: what performance is relative to (default: the dense networks on the space's accelerator).
    """

    def __init__(self, space: Space, problem: SearchProblem, base: Base | None = None):
        self.space, self.problem = space, problem
        self.variants = [state for states in problem.feasible_variants.values() for state in states]
        self.numeric_paths = [d.path for d in space.dimensions if not d.categorical]
        self.variant_rule = VariantRule.of(problem.search)
        self._configs: dict[tuple[float, ...], CategoricalConfig] = {}
        self._samples: dict[str, np.ndarray] = {}
        self.base = self._base() if base is None else base

    def evaluate(self, designs: DesignMatrix) -> dict[str, np.ndarray]:
        """Every result that the search names, and `performance` and `speedup`, one number for each design."""
        return self.evaluate_networks(designs).combined

    def evaluate_networks(self, designs: DesignMatrix) -> BatchResults:
        """Results of a batch of designs, over the networks and of each, and which variants they are of."""
        combined: dict[str, np.ndarray] = {}
        each: dict[str, np.ndarray] = {}
        choice = np.zeros((len(self.network_slices), len(designs)), int)
        for rows, config in self._grouped(designs):
            size = self._chunk()
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                found = self._scored(config, designs[part])
                choice[:, part] = found.choice
                for name, values in found.combined.items():
                    combined.setdefault(name, np.empty(len(designs)))[part] = values
                for name, values in found.each.items():
                    each.setdefault(name, np.empty((len(self.network_slices), len(designs))))[:, part] = values
        return BatchResults(combined, each, choice)

    def chosen_variants(self, design: np.ndarray) -> dict[str, Variant]:
        """The variant that each network runs on one design."""
        choice = self.evaluate_networks(design[None]).choice[:, 0]
        return {name: self.variants[number] for name, number in zip(self.problem.feasible_variants, choice, strict=True)}

    def config(self, design: np.ndarray) -> CategoricalConfig:
        key = tuple(design[[n for n, d in enumerate(self.space.dimensions) if d.categorical]])
        if key not in self._configs:
            accelerator = self.space.accelerator.replace(self.space.categorical_values(design))
            self._configs[key] = build_config(accelerator, self.space, self.problem, self.variants, self._with_energy)
        return self._configs[key]

    def collect_warnings(self) -> list[str]:
        """What a reader of the results should know: variants that are left out, what is assumed about the networks, efficiencies that
        nobody stated, and kernels that were not measured on the device."""
        name, cases = self.space.accelerator.name, [found for config in self._configs.values() for found in config.terms]
        candidates = [execution for found in cases for execution in found.candidates]
        dtype, fidelity = self.problem.dtype.label, self.problem.options.fidelity
        assumed = [note for state in self.variants for note in (*compaction_warnings(state), *fusion_warnings(state, self.problem.options))]
        unmeasured = [warning for found in cases for warning in transfer_warnings(found, name)]
        without = missing_efficiency_warnings(name, (execution.run for execution in candidates), dtype, fidelity) if cases else []
        return list(dict.fromkeys([*self.problem.warnings, *self._unused_axis_warnings(candidates), *assumed, *unmeasured, *without]))

    def _unused_axis_warnings(self, executions: list[Execution]) -> list[str]:
        """Warnings about axes that change no result: no rate and no work of the fidelity depends on them, nor a cost that is named."""
        rates = {path for execution in executions for factors in execution.rates for path in factors or ()}
        if self.problem.options.fidelity == "calibrated":
            rates.add(LAUNCH_LATENCY)
        idle = [
            d.path for d in self.space.dimensions
            if not d.categorical and d.grid is None and d.path not in rates
            and not (self.problem.search.costs and COST_PATH.fullmatch(d.path))
        ]  # fmt: skip
        return [f"axis '{path}' changes no result under fidelity '{self.problem.options.fidelity}'; leave it out" for path in idle if rates]

    def score(self, designs: DesignMatrix) -> tuple[Float[np.ndarray, "design objective"], Float[np.ndarray, "design limit"]]:
        """The objectives, to be minimised, and by how much of its bound each constraint is broken (at most 0 where it holds).

        Infinite where an expression has no finite real value: such a design is infeasible.
        """
        return self.evaluate_and_score(designs)[1:]

    def evaluate_and_score(self, designs: DesignMatrix) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Results of a batch of designs with what `objectives` says of them."""
        scores = self.evaluate_networks(designs)
        return scores.combined, *self._keys(scores.combined, scores.each, len(designs))

    def _keys(self, combined: dict[str, Any], each: dict[str, Any], number: int) -> tuple[np.ndarray, np.ndarray]:
        search = self.problem.search
        with np.errstate(all="ignore"):
            values = [_finite(sign * found.evaluate(combined) * np.ones(number)) for found, sign in search.objectives]
            broken = [_finite(self.over_networks.excess(limit, combined, each) * np.ones(number)) for limit in search.bounds]
        return _rounded(np.stack(values, axis=1)), _rounded(np.stack(broken, axis=1) if broken else np.zeros((number, 0)))

    def _grouped(self, designs: DesignMatrix) -> list[tuple[np.ndarray, CategoricalConfig]]:
        structural = [n for n, d in enumerate(self.space.dimensions) if d.categorical]
        if not structural:
            return [(np.arange(len(designs)), self.config(designs[0]))] if len(designs) else []
        sizes = [len(self.space.dimensions[n].axis) for n in structural]
        numbers = np.ravel_multi_index(designs[:, structural].T.astype(int), sizes)
        rows = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
        return [(row, self.config(designs[row[0]])) for row in rows]

    @cached_property
    def network_slices(self) -> list[slice]:
        """Where the variants of each network stand among all."""
        sizes = [len(states) for states in self.problem.feasible_variants.values()]
        return [slice(int(end) - size, int(end)) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]

    @cached_property
    def over_networks(self) -> OverNetworks:
        weights = np.array([self.problem.weights.get(name, 1.0) for name in self.problem.feasible_variants])
        return OverNetworks(self.base, weights, self.problem.search.over_workloads == "worst")

    def _chunk(self) -> int:
        """Designs evaluated at once."""
        robust = self.problem.search.robust
        return max(1, min(CHUNK, MOST_SAMPLED // (robust.samples * len(self.variants)))) if robust else CHUNK

    @property
    def _with_energy(self) -> bool:
        return bool({"energy", "edp"} & self.problem.search.costs)

    def _latency_and_energy(
        self,
        config: CategoricalConfig,
        designs: DesignMatrix,
        slowdown: np.ndarray | None = None,
        given: dict[str, np.ndarray] | None = None,
    ) -> tuple[Any, Any]:
        """Latency [s] and energy of the work [J] if it is asked for, [variant, design]. The batch is padded to a power of two: few
        sizes are compiled. `given`: values of some dimensions in the place of the designs' own."""
        padded = 1 << (len(designs) - 1).bit_length()
        values = {path: np.resize(column, padded) for path, column in (self.space.numeric_values(designs) | (given or {})).items()}
        columns = np.stack([*values.values(), np.ones(padded)])[:-1]
        overhead_factor = values.get(LAUNCH_LATENCY, np.ones(padded))
        slowdown = _no_slowdown(config) if slowdown is None else slowdown
        batch = Batch(columns, config.table_entries(values, padded), overhead_factor, slowdown)
        with jax.enable_x64(True):
            results = compiled_evaluate_batch(batch, config.arrays, combination=config.combination)
            latency, energy = (None if part is None else np.asarray(part)[:, : len(designs)] for part in results)
        return latency, energy

    def _scored(self, config: CategoricalConfig, designs: DesignMatrix) -> BatchResults:
        design = Design(config.accelerator, self.space.numeric_values(designs), self.space.accelerator)
        costs = self._costs(design)
        if robust := self.problem.search.robust:
            return self._scored_robustly(config, designs, robust, design, costs)
        latency, energy = self._latency_and_energy(config, designs)
        joules = self._total(energy, latency, design)
        choice = self._choice(latency, joules, costs)
        each = self._each(latency, joules, choice)
        return BatchResults(self.over_networks.combine_results(each) | costs, each, choice)

    def _scored_robustly(
        self, config: CategoricalConfig, designs: DesignMatrix, robust: RobustOptions, design: Design, costs: dict[str, Any]
    ) -> BatchResults:
        """Quantiles over samples of efficiencies. The variants are chosen once for all samples, by the quantiles of their own figures."""
        pairs = [
            self._latency_and_energy(config, designs, *self._sampled(config, designs, robust, sample)) for sample in range(robust.samples)
        ]
        latency = np.stack([pair[0] for pair in pairs])
        joules = None if pairs[0][1] is None else np.stack([self._total(energy, time, design) for time, energy in pairs])
        high = 1 - robust.quantile
        choice = self._choice(np.quantile(latency, high, axis=0), None if joules is None else np.quantile(joules, high, axis=0), costs)
        each = [self._each(time, None if joules is None else joules[n], choice) for n, time in enumerate(latency)]
        combined = [self.over_networks.combine_results(one) for one in each]
        low, alone = ({name: _quantile(name, found, robust) for name in found[0]} for found in (combined, each))
        return BatchResults(low | costs, alone, choice)

    def _costs(self, design: Design) -> dict[str, Any]:
        named = self.problem.search.costs
        return {name: cost(design) for name, cost in (("area", area), ("power", power)) if name in named}

    def _total(self, energy: Any, latency: Any, design: Design) -> Any:
        """Energy [J] with what leaks in the time; None where it is not asked for."""
        return None if energy is None else energy + static_power(design) * latency

    def _each(self, latency: Any, energy: Any, choice: Any, arrays: Any = np) -> dict[str, Any]:
        """Results of the networks at the chosen variants."""
        dense = arrays.stack([latency[part.start] for part in self.network_slices])
        joules = None if energy is None else take_variants(energy, choice, arrays)
        return self.over_networks.results_of_networks(take_variants(latency, choice, arrays), joules, dense, arrays)

    def _choice(self, latency: np.ndarray, energy: np.ndarray | None, costs: dict[str, Any]) -> Int[np.ndarray, "network design"]:
        if self.variant_rule.deciding_number:
            return self.variant_rule.choose_by_one_number(latency, energy, self.network_slices)

        def keys(choice: np.ndarray) -> np.ndarray:
            each = self._each(latency, energy, choice)
            values, broken = self._keys(self.over_networks.combine_results(each) | costs, each, latency.shape[1])
            worst = np.maximum(broken, 0.0).max(axis=1, initial=0.0)
            undefined = ~np.isfinite(values).all(axis=1)
            return np.stack([worst, undefined, *values.T, _rounded(np.log(each["latency"]).sum(axis=0))])

        return self.variant_rule.choose_by_comparison(
            latency, np.zeros_like(latency) if energy is None else energy, self.network_slices, keys
        )

    def differentiable_results(self, config: CategoricalConfig) -> Any:
        """The results of a design as a function of the logarithms of its numeric dimensions, for JAX to differentiate: over the networks,
        and of each. `choice` [network]: the variants, where those have to be compared."""
        entries = np.zeros((1 + len(config.capacity_paths), 1), int)

        def results(logarithms: Array, choice: Array) -> tuple[dict[str, Any], dict[str, Any]]:
            values, arrays = jnp.exp(logarithms)[:, None], config.interpolate(dict(zip(self.numeric_paths, logarithms, strict=True)))
            given = dict(zip(self.numeric_paths, values, strict=True))
            design, overhead_factor = Design(config.accelerator, given, self.space.accelerator), given.get(LAUNCH_LATENCY, jnp.ones(1))
            batch = Batch(values, entries, overhead_factor, _no_slowdown(config))
            latency, energy = differentiable_evaluate_batch(batch, arrays, combination=config.combination)
            joules = self._total(energy, latency, design)
            variants = (
                self.variant_rule.choose_by_one_number(latency, joules, self.network_slices, jnp)
                if self.variant_rule.deciding_number
                else choice[:, None]
            )
            each = self._each(latency, joules, variants, jnp)
            combined = self.over_networks.combine_results(each, jnp) | self._costs(design)
            return {name: jnp.ravel(found)[0] for name, found in combined.items()}, {name: found[:, 0] for name, found in each.items()}

        return results

    def _sampled(
        self, config: CategoricalConfig, designs: DesignMatrix, robust: RobustOptions, sample: int
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """One sample of the efficiencies of sparse runs: how many times as slow each execution is [execution], and the efficiencies of
        designs that vary them [design]. No efficiency exceeds 1."""
        slow, given, values = _no_slowdown(config), dict[str, np.ndarray](), self.space.numeric_values(designs)
        for number, execution in enumerate(config.executions):
            if not execution.is_sparse:
                continue
            factor = np.exp(robust.spread * self._deviations(execution.name, robust)[sample])
            paths = efficiency_paths(f"units.{execution.unit}.runs.{execution.run_name}", self.problem.options.fidelity)
            if varied := [path for path in paths if path in values]:
                given |= {path: np.minimum(values[path] * factor, 1.0) for path in varied}
            else:
                own = execution.run.efficiency.value if paths else 1.0
                slow[number] = own / min(own * factor, 1.0)
        return slow, given

    def _deviations(self, name: str, robust: RobustOptions) -> np.ndarray:
        """Standard normal deviations of the efficiency of one execution [sample]: the same ones on every design."""
        if name not in self._samples:
            draw = np.random.default_rng([self.problem.search.seed, *name.encode()])
            self._samples[name] = draw.standard_normal(robust.samples)
        return self._samples[name]

    def _base(self) -> Base:
        """The dense networks on the accelerator as described; their energy where the worst network is told by it."""
        problem, latencies = self.problem, []
        efficiency = efficiency_of(problem.options, problem.kernels, self.space.accelerator, with_samples=False)
        for variants in problem.feasible_variants.values():
            accelerator = self.space.accelerator
            terms = network_terms(accelerator, variants[0], problem.batch, problem.dtype, problem.options, efficiency)
            times = layer_times(terms, inverse_rates(terms.executions, accelerator), problem.options.resource_overlap)
            latencies.append(float(fastest_times(times)[0] @ terms.count))
        energy = self._base_energy() if self._with_energy and problem.search.over_workloads == "worst" else None
        return Base(np.array(latencies), energy)

    def _base_energy(self) -> np.ndarray:
        """Energy [J] of each dense network on the accelerator as described [network]."""
        described, dense = Space(self.space.accelerator, ()), [self.variants[part.start] for part in self.network_slices]
        config = build_config(described.accelerator, described, self.problem, dense, True)
        entries = np.zeros((1 + len(config.capacity_paths), 1), int)
        batch = Batch(np.empty((0, 1)), entries, np.ones(1), _no_slowdown(config))
        with jax.enable_x64(True):
            latency, energy = compiled_evaluate_batch(batch, config.arrays, combination=config.combination)
        return self._total(np.asarray(energy), np.asarray(latency), Design(described.accelerator))[:, 0]


def _finite(values: np.ndarray) -> np.ndarray:
    """Infinity, the worst value, in the place of what is not a finite real number."""
    return np.where(np.isfinite(values) & (np.imag(values) == 0), np.real(values), np.inf)


def _no_slowdown(config: CategoricalConfig) -> np.ndarray:
    """Slowdown of each execution that is as fast as modelled [execution]."""
    return np.ones(len(config.executions))


def _quantile(name: str, samples: list[dict[str, Any]], robust: RobustOptions) -> Any:
    """The quantile on the bad side of one result."""
    return np.quantile([one[name] for one in samples], robust.quantile if name in HIGHER_IS_BETTER else 1 - robust.quantile, axis=0)


def _rounded(values: np.ndarray) -> np.ndarray:
    """To 12 digits: what compilers do with the last ones must not decide."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 10.0 ** (11 - np.floor(np.log10(np.abs(values))))
        return np.where(np.isfinite(digits) & np.isfinite(values), np.round(values * digits) / digits, values)
