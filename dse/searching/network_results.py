"""Results of the networks on a batch of designs, from those of all their variants, and the variants that suit the objectives."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from jaxtyping import Bool, Float, Int

from dse.base.array_types import ArrayT
from dse.model.cost.area import area
from dse.model.cost.design import Design
from dse.model.cost.power import power
from dse.searching.categorical_config import CategoricalConfig
from dse.searching.over_networks import Base, OverNetworks, round_scores, score_designs, take_variants
from dse.searching.problem import SearchProblem
from dse.searching.variant_choice import VariantRule
from dse.sparsity.pattern import FloatOrArray

Choice = Int[np.ndarray, "network design"]
Allowed = Bool[np.ndarray, "variant"]  # variants that may be chosen, among them the dense one of each network


@dataclass(frozen=True, eq=False)
class NetworkResults:
    """How the results of variants become those of networks.

    `slices`: the indices of the variants of each network. `rule`: how objectives and constraints depend on a variant.
    """

    problem: SearchProblem
    over_networks: OverNetworks
    slices: list[slice]
    rule: VariantRule

    @classmethod
    def of(cls, problem: SearchProblem, base: Base) -> "NetworkResults":
        """Those of a problem; `base` is what performance is relative to."""
        sizes = [len(variants) for variants in problem.feasible_variants.values()]
        slices = [slice(int(end) - size, int(end)) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]
        return cls(problem, _over_networks(problem, base), slices, VariantRule.of(problem.search))

    def costs(self, config: CategoricalConfig, design: Design) -> dict[str, FloatOrArray]:
        """The named results that do not depend on the networks."""
        named, batch = self.problem.search.results, np.full(1, float(config.batches[0]))
        functions = (("area", area), ("power", power), ("batch", lambda _: batch))
        return {name: evaluate(design) for name, evaluate in functions if name in named}

    def occupancy(self, config: CategoricalConfig, design: Design, count: int) -> FloatOrArray:
        """Share of the outermost memory that each variant occupies on `count` designs [variant, design]; None if it is not needed.

        0 where the accelerator gives no capacity.
        """
        if "occupancy" not in self.problem.search.results:
            return None
        capacity = design.value(f"memory.{config.accelerator.outermost}.capacity")
        footprints = np.array([terms.footprint.total for terms in config.terms])[:, None] * np.ones(count)
        return footprints / (np.inf if capacity is None else capacity)

    def of_choice(
        self,
        config: CategoricalConfig,
        latency: ArrayT,
        energy: ArrayT | None,
        occupancy: ArrayT | None,
        choice: ArrayT,
        array_module: ModuleType = np,
    ) -> dict[str, ArrayT]:
        """Results of the networks [network, design] in the chosen variants, from those of all variants [variant, design]."""
        dense = array_module.stack([latency[variants.start] for variants in self.slices])
        chosen_energy = None if energy is None else take_variants(energy, choice, array_module)
        chosen_occupancy = None if occupancy is None else take_variants(occupancy, choice, array_module)
        chosen = take_variants(latency, choice, array_module)
        batches = np.array([config.batches[variants.start] for variants in self.slices])
        return self.over_networks.results_of_networks(chosen, chosen_energy, dense, array_module, chosen_occupancy, batches)

    def choose_variants(
        self,
        config: CategoricalConfig,
        latency: Float[np.ndarray, "variant design"],
        energy: Float[np.ndarray, "variant design"] | None,
        occupancy: Float[np.ndarray, "variant design"] | None,
        costs: dict[str, np.ndarray],
        allowed: Allowed | None,
    ) -> Choice:
        """The variant that each network runs on each design, among those that are allowed (None: all)."""
        rows = np.arange(len(latency)) if allowed is None else np.flatnonzero(allowed)
        slices = self.slices if allowed is None else _slices_within(allowed, self.slices)
        own_latency = latency if allowed is None else latency[rows]
        own_energy = energy if allowed is None or energy is None else energy[rows]
        if self.rule.deciding_number:
            return rows[self.rule.choose_by_one_number(own_latency, own_energy, slices)]

        def evaluate_keys(choice: Choice) -> Float[np.ndarray, "key design"]:
            each = self.of_choice(config, latency, energy, occupancy, rows[choice])
            combined = {**self.over_networks.combine_results(each), **costs}
            objectives, excess = score_designs(self.problem.search, self.over_networks, combined, each, latency.shape[1])
            largest_excess = np.maximum(excess, 0.0).max(axis=1, initial=0.0)
            is_undefined = ~np.isfinite(objectives).all(axis=1)
            return np.stack([largest_excess, is_undefined, *objectives.T, round_scores(np.log(each["latency"]).sum(axis=0))])

        energy_or_zeros = np.zeros_like(own_latency) if own_energy is None else own_energy
        return rows[self.rule.choose_by_comparison(own_latency, energy_or_zeros, slices, evaluate_keys)]


def _over_networks(problem: SearchProblem, base: Base) -> OverNetworks:
    search, fixed = problem.search, {name: run.network for name, run in problem.fixed_runs.items()}
    weights = np.array([problem.weights.get(fixed.get(name, name), 1.0) for name in problem.feasible_variants])
    is_worst, has_throughput = search.over_workloads == "worst", "throughput" in search.results
    return OverNetworks(base, weights, is_worst, problem.batch, has_throughput, problem.selections, len(problem.own_networks))


def _slices_within(allowed: Allowed, slices: Sequence[slice]) -> list[slice]:
    """The slice of each network among the variants that are allowed."""
    ends = np.cumsum([0, *(int(allowed[each].sum()) for each in slices)])
    return [slice(int(start), int(end)) for start, end in itertools.pairwise(ends)]
