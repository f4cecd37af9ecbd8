"""Evaluate designs: the results of every design of a batch, with each network in the variant that suits the objectives."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from dse.base.array_types import AnyArray, ArrayT
from dse.model.cost.area import area
from dse.model.cost.design import Design
from dse.model.cost.power import network_energy, power
from dse.model.efficiency.fitted import LAUNCH_LATENCY
from dse.model.efficiency.protocol import EfficiencyModel
from dse.model.network_terms import efficiency_of
from dse.model.terms import WorkCache
from dse.searching.batch_evaluator import Batch, differentiable_evaluate_batch
from dse.searching.categorical_config import CategoricalConfig, NetworkRun, build_config
from dse.searching.network_results import Allowed, Choice, NetworkResults
from dse.searching.over_networks import Base, Excess, Objectives, evaluate_base, score_designs
from dse.searching.problem import SearchProblem
from dse.searching.robust import EfficiencySamples
from dse.searching.space import DesignMatrix, Space
from dse.searching.variant_results import evaluate_variants
from dse.workload import Variant

MAX_BATCH = 16384  # designs evaluated at once: their rates stay in the cache
MAX_SAMPLED_LATENCIES = 4_000_000  # of variants on designs in samples of efficiencies, in memory at once

Derivatives = Callable[[AnyArray, AnyArray], tuple[Array, Array]]  # objective and excesses, with their Jacobian; see the local search


@dataclass(frozen=True, eq=False)
class BatchResults:
    """Results of a batch of designs.

    `combined`: each result over the networks [design]; `each`: that of every network [network, design]; `choice`: the index of the
    variant that each network runs.
    """

    combined: dict[str, np.ndarray]
    each: dict[str, np.ndarray]
    choice: Choice


class Evaluator:
    """Evaluate the designs of a space.

    `base`: what performance is relative to (default: the dense networks on its accelerator). `work_cache`: that of another evaluator of the
    same variants under the same model options.
    """

    def __init__(self, space: Space, problem: SearchProblem, base: Base | None = None, work_cache: WorkCache | None = None):
        self.space, self.problem = space, problem
        self.variants = [variant for variants in problem.feasible_variants.values() for variant in variants]
        self.numeric_paths = [dimension.path for dimension in space.dimensions if not dimension.categorical]
        self.base = evaluate_base(space, problem) if base is None else base
        self.networks = NetworkResults.of(problem, self.base)
        robust, fidelity = problem.search.robust, problem.options.fidelity
        self.efficiency_samples = EfficiencySamples(robust, fidelity, problem.search.seed) if robust else None
        self._configs: dict[tuple[float, ...], CategoricalConfig] = {}
        self.work_cache = work_cache or WorkCache()  # of the variants and the model options of the search
        self.derivatives: dict[CategoricalConfig, Derivatives] = {}  # compiled ones, of the local search

    @cached_property
    def efficiency(self) -> EfficiencyModel:
        """The best estimate of the efficiency, without samples, which keeps the kernels that it selects."""
        return efficiency_of(self.problem.options, self.problem.kernels, self.space.accelerator, with_samples=False)

    def with_search(self, **options: object) -> "Evaluator":
        """The evaluator of the same designs and scores under other options of the sampler; it shares all compiled functions."""
        problem = replace(self.problem, search=self.problem.search.model_copy(update=options))
        evaluator = Evaluator(self.space, problem, self.base)
        evaluator._configs, evaluator.derivatives = self._configs, self.derivatives
        return evaluator

    @property
    def evaluated_configs(self) -> list[CategoricalConfig]:
        """The categorical configurations of the designs that were evaluated so far."""
        return list(self._configs.values())

    def evaluate(self, designs: DesignMatrix) -> dict[str, Float[np.ndarray, "design"]]:
        """Results of designs over all networks: `performance`, `speedup`, and every result that the search names."""
        return self.evaluate_networks(designs).combined

    def score(self, designs: DesignMatrix) -> tuple[Objectives, Excess]:
        """The objectives, to be minimised, and how far each constraint is exceeded, relative to its bound (at most 0 where it is met).

        Infinite where an expression has no finite real value: such a design is infeasible.
        """
        return self.evaluate_and_score(designs)[1:]

    def evaluate_and_score(self, designs: DesignMatrix) -> tuple[dict[str, Float[np.ndarray, "design"]], Objectives, Excess]:
        """The results of `evaluate` with the scores of `score`."""
        results = self.evaluate_networks(designs)
        return results.combined, *self.score_results(results, len(designs))

    def score_results(self, results: BatchResults, count: int) -> tuple[Objectives, Excess]:
        """Objectives and excesses (see `score`) of `count` designs from their results."""
        return score_designs(self.problem.search, self.networks.over_networks, results.combined, results.each, count)

    def evaluate_networks(self, designs: DesignMatrix) -> BatchResults:
        """Results over the networks and of each network, and the variants that run."""
        (results,) = self.evaluate_choices(designs, [None])
        return results

    def evaluate_choices(self, designs: DesignMatrix, masks: Sequence[Allowed | None]) -> list[BatchResults]:
        """The results of `evaluate_networks` for each of some sets of variants that may be chosen (None: all of them)."""
        networks = len(self.networks.slices)
        merged = [BatchResults({}, {}, np.zeros((networks, len(designs)), int)) for _ in masks]
        for rows, config in self._split_batches(designs):
            for whole, results in zip(merged, self._evaluate_batch(config, designs[rows], masks), strict=True):
                whole.choice[:, rows] = results.choice
                for name, values in results.combined.items():
                    whole.combined.setdefault(name, np.empty(len(designs)))[rows] = values
                for name, values in results.each.items():
                    whole.each.setdefault(name, np.empty((networks, len(designs))))[:, rows] = values
        return merged

    def evaluate_costs(self, designs: DesignMatrix) -> Float[np.ndarray, "design 2"]:
        """Area [m^2] and power [W] of designs, also where the search names neither; raises InputError if they are not known."""
        costs = np.empty((len(designs), 2))
        for rows, config in self._split_batches(designs):
            design = Design(config.accelerator, self.space.numeric_values(designs[rows]), self.space.accelerator.base)
            costs[rows, 0], costs[rows, 1] = area(design), power(design)
        return costs

    def chosen_variants(self, design: Float[np.ndarray, "dimension"]) -> dict[str, Variant]:
        """The variant that each network runs on one design."""
        return self.named_variants(self.evaluate_networks(design[None]).choice[:, 0])

    def named_variants(self, choice: Int[np.ndarray, "network"]) -> dict[str, Variant]:
        """The variant of each network by its name, from the indices of variants."""
        return {name: self.variants[index] for name, index in zip(self.problem.feasible_variants, choice, strict=True)}

    def config(self, design: Float[np.ndarray, "dimension"]) -> CategoricalConfig:
        """The categorical configuration of a design, built when it is first used."""
        key = tuple(value for value, dimension in zip(design.tolist(), self.space.dimensions, strict=True) if dimension.categorical)
        if key not in self._configs:
            accelerator = self.space.accelerator.replace({**self.space.unstated_numbers, **self.space.categorical_values(design)})
            problem, with_energy = self.problem_at(design), self.problem.needs_energy
            runs = [
                NetworkRun(variant, *problem.run_settings(name))
                for name, variants in self.problem.feasible_variants.items()
                for variant in variants
            ]
            self._configs[key] = build_config(accelerator, self.space, problem, runs, with_energy, self.work_cache, self.efficiency)
        return self._configs[key]

    def problem_at(self, design: Float[np.ndarray, "dimension"]) -> SearchProblem:
        """The problem with the batch size and the dtype of a design."""
        return replace(self.problem, **self.space.run_settings(design))

    def differentiable_results(self, config: CategoricalConfig) -> Callable[[Array, Array], tuple[dict[str, Array], dict[str, Array]]]:
        """A function for JAX to differentiate: the results of one design, over the networks and of each.

        Its arguments are the logarithms of the numeric dimensions, and the variants [network], which it reads where they have to be
        compared.
        """
        entries = np.zeros((1 + len(config.capacity_paths), 1), int)

        def results(logarithms: Array, choice: Array) -> tuple[dict[str, Array], dict[str, Array]]:
            columns = jnp.exp(logarithms)[:, None]
            values = self.space.all_values(dict(zip(self.numeric_paths, columns, strict=True)), config.accelerator, jnp)
            linked = {path: jnp.log(column[0]) for path, column in values.items()}
            arrays = config.interpolate(linked | dict(zip(self.numeric_paths, logarithms, strict=True)))
            design = Design(config.accelerator, values, self.space.accelerator.base)
            batch = Batch(
                jnp.stack([*values.values(), jnp.ones(1)])[:-1],
                entries,
                values.get(LAUNCH_LATENCY, jnp.ones(1)),
                np.ones(len(config.executions)),
                config.host_times(values),
                config.action_energies(design),
            )
            latency, dynamic_energy = differentiable_evaluate_batch(batch, arrays, combination=config.combination)
            energy = self._total_energy(dynamic_energy, latency, design)
            if self.networks.rule.deciding_number:
                choice = self.networks.rule.choose_by_one_number(latency, energy, self.networks.slices, jnp)
            else:
                choice = choice[:, None]
            each = self.networks.of_choice(config, latency, energy, self.networks.occupancy(config, design, 1), choice, jnp)
            combined = self.networks.over_networks.combine_results(each, jnp) | self.networks.costs(config, design)
            return {name: jnp.ravel(values)[0] for name, values in combined.items()}, {name: values[:, 0] for name, values in each.items()}

        return results

    def _split_batches(self, designs: DesignMatrix) -> Iterator[tuple[Int[np.ndarray, "row"], CategoricalConfig]]:
        """Split designs into batches of one categorical configuration each, small enough for the cache or for memory."""
        size = MAX_BATCH
        if robust := self.problem.search.robust:
            size = max(1, min(MAX_BATCH, MAX_SAMPLED_LATENCIES // (robust.samples * len(self.variants))))
        config_numbers = self.number_configs(designs)
        for number in np.unique(config_numbers):
            rows = np.flatnonzero(config_numbers == number)
            for start in range(0, len(rows), size):
                yield rows[start : start + size], self.config(designs[rows[0]])

    def number_configs(self, designs: DesignMatrix) -> Int[np.ndarray, "design"]:
        """A number of the categorical configuration of each design."""
        categorical = [number for number, dimension in enumerate(self.space.dimensions) if dimension.categorical]
        if not categorical:
            return np.zeros(len(designs), int)
        sizes = [len(self.space.dimensions[number].axis) for number in categorical]
        return np.asarray(np.ravel_multi_index(tuple(designs[:, categorical].T.astype(int)), sizes))

    def _evaluate_batch(self, config: CategoricalConfig, designs: DesignMatrix, masks: Sequence[Allowed | None]) -> list[BatchResults]:
        values, described = self.space.all_values(self.space.numeric_values(designs), config.accelerator), self.space.accelerator.base
        design = Design(config.accelerator, values, described)
        costs = self.networks.costs(config, design)
        if self.efficiency_samples:
            return self._evaluate_robustly(self.efficiency_samples, config, values, len(designs), costs, masks)
        latency, dynamic_energy = evaluate_variants(config, described, values, len(designs))
        energy = self._total_energy(dynamic_energy, latency, design)
        occupancy = self.networks.occupancy(config, design, len(designs))
        results = []
        for allowed in masks:
            choice = self.networks.choose_variants(config, latency, energy, occupancy, costs, allowed)
            each = self.networks.of_choice(config, latency, energy, occupancy, choice)
            results.append(BatchResults(self.networks.over_networks.combine_results(each) | costs, each, choice))
        return results

    def _evaluate_robustly(
        self,
        samples: EfficiencySamples,
        config: CategoricalConfig,
        values: dict[str, np.ndarray],
        count: int,
        costs: dict[str, np.ndarray],
        masks: Sequence[Allowed | None],
    ) -> list[BatchResults]:
        """Quantiles over samples of efficiencies. The variants are chosen once for all samples, by quantiles of their own results."""
        latencies, energies, described = [], [], self.space.accelerator.base
        design = Design(config.accelerator, values, described)
        for number in range(samples.options.samples):
            slowdown, sampled_values = samples.sample(number, config.executions, values)
            latency, dynamic_energy = evaluate_variants(config, described, values | sampled_values, count, slowdown)
            latencies.append(latency)
            energies.append(self._total_energy(dynamic_energy, latency, design))
        quantile = 1 - samples.options.quantile
        energy = None if energies[0] is None else np.quantile(np.stack(energies), quantile, axis=0)
        occupancy = self.networks.occupancy(config, design, count)
        latency = np.quantile(np.stack(latencies), quantile, axis=0)
        results = []
        for allowed in masks:
            choice = self.networks.choose_variants(config, latency, energy, occupancy, costs, allowed)
            each = [self.networks.of_choice(config, *sampled, occupancy, choice) for sampled in zip(latencies, energies, strict=True)]
            combined = [self.networks.over_networks.combine_results(sampled) for sampled in each]
            quantiles = {name: samples.worse_quantile(name, combined) for name in combined[0]}
            network_quantiles = {name: samples.worse_quantile(name, each) for name in each[0]}
            results.append(BatchResults(quantiles | costs, network_quantiles, choice))
        return results

    def _total_energy(self, dynamic_energy: ArrayT | None, latency: ArrayT, design: Design) -> ArrayT | None:
        """Energy [J] of each network, leakage included; None where energy is not evaluated."""
        return None if dynamic_energy is None else network_energy(design, dynamic_energy, latency, self.problem.options.fidelity)
