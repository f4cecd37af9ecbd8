"""Results of a design over several networks, by which it is scored: those of each network, combined to one figure.

Seconds and joules of different networks are not comparable. Their weighted geometric mean is: a change of scale of one network changes
the mean of every design by the same factor. The worst network is the one with the worst figure relative to its base: the same network,
dense, on the accelerator as described. Latency, energy and EDP of the worst network are then scaled by the geometric mean of the bases, so
that the design with the least `latency` is the one with the most `performance`.

Designs are ranked by their scores: objectives to be minimised, and how far each constraint is exceeded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import jax
import numpy as np
from jaxtyping import Float

from dse.base.array_types import ArrayT
from dse.base.expression import split_brackets
from dse.model.cost.design import Design
from dse.model.cost.energy import action_energies
from dse.model.cost.power import network_energy
from dse.model.layer_times import latency_samples
from dse.model.network_terms import efficiency_of, network_terms
from dse.model.terms import WorkCache
from dse.schema.search import ResultConstraint, SearchSpec
from dse.searching.batch_evaluator import Batch, compiled_evaluate_batch
from dse.searching.categorical_config import NetworkRun, build_config
from dse.searching.problem import SearchProblem
from dse.searching.space import Space

HIGHER_IS_BETTER = ("performance", "speedup", "throughput")
RATIOS = ("performance", "speedup", "occupancy")  # comparable between networks as they are
SIGNIFICANT_DIGITS = 12  # of scores: differences between compilers must not decide

Results = Mapping[str, ArrayT]  # by name
Objectives = Float[np.ndarray, "design objective"]  # to be minimised
Excess = Float[np.ndarray, "design constraint"]  # how far each constraint is exceeded


@dataclass(frozen=True, eq=False)
class Base:
    """Latency [s] and energy [J] of the dense networks on the accelerator as described."""

    latency: Float[np.ndarray, "network"]
    energy: Float[np.ndarray, "network"] | None = None

    def of(self, name: str) -> Float[np.ndarray, "network"]:
        """The base of `latency`, `throughput` (but for the batch size, a factor of all networks), `energy` or `edp`."""
        if name in ("latency", "throughput"):
            return self.latency if name == "latency" else 1 / self.latency
        assert self.energy is not None, "energy is evaluated wherever it is named"
        return self.energy if name == "energy" else self.energy * self.latency


@dataclass(frozen=True, eq=False)
class OverNetworks:
    """Combines the results of several networks: the geometric mean with `weights`, or the `worst` network relative to `base`.

    `batch`: the batch size of the base; `has_throughput`: whether the search names it; `selections`: the indices of the networks of each
    name with brackets; `own_count`: how many of the networks, the first ones, the results without brackets combine (default: all).
    """

    base: Base
    weights: Float[np.ndarray, "network"]
    worst: bool
    batch: int = 1
    has_throughput: bool = False
    selections: Mapping[str, Sequence[int]] = field(default_factory=dict)
    own_count: int | None = None

    def results_of_networks(
        self,
        latency: Float[ArrayT, "network *design"],
        energy: Float[ArrayT, "network *design"] | None,
        dense: Float[ArrayT, "network *design"],
        array_module: ModuleType = np,
        occupancy: Float[ArrayT, "network *design"] | None = None,
        batch: Float[np.ndarray, "network"] | int | None = None,
    ) -> dict[str, ArrayT]:
        """Results of each network [network, ...].

        `latency` [s] and `energy` [J] are those of the chosen variants, `dense` [s] is the latency without pruning on the same design.
        `batch`: its batch size, or that of each network, as that of the base if not given; performance compares the times of one sample.
        """
        columns = (-1, *(1,) * (array_module.ndim(latency) - 1))
        base, batch = self.base.latency.reshape(columns), np.reshape(self.batch if batch is None else batch, columns)
        results = {"performance": batch / self.batch * base / latency, "speedup": dense / latency, "latency": latency}
        results |= {"throughput": batch / latency} if self.has_throughput else {}
        results |= {} if energy is None else {"energy": energy, "edp": energy * latency}
        return results if occupancy is None else results | {"occupancy": occupancy}

    def combine_results(self, each: Results[ArrayT], array_module: ModuleType = np) -> dict[str, ArrayT]:
        """One figure for each result, from those of the networks, and for each name with brackets from those of its networks."""
        combined = {name: self.combine(name, values, array_module) for name, values in each.items()}
        return combined | {name: self._combine_selected(name, each, array_module) for name in self.selections}

    def combine(self, name: str, values: ArrayT, array_module: ModuleType = np) -> ArrayT:
        """One figure from those of the networks, along the first axis."""
        own = list(range(len(values)))[: self.own_count]
        return self._combine(name, values[: self.own_count], own, array_module)

    def _combine_selected(self, name: str, each: Results[ArrayT], array_module: ModuleType) -> ArrayT:
        networks, result = list(self.selections[name]), split_brackets(name)[0]
        return self._combine(result, each[result][array_module.asarray(networks)], networks, array_module)

    def _combine(self, name: str, values: ArrayT, networks: list[int], array_module: ModuleType) -> ArrayT:
        """One figure from `values` of the networks with these indices."""
        if len(values) == 1:
            return array_module.squeeze(values, axis=0)
        if name == "occupancy":  # each network has the memory for itself, so the largest one decides
            return array_module.max(values, axis=0)
        if not self.worst:
            weights = self.weights[networks]
            return array_module.exp(weights @ array_module.log(values) / weights.sum())
        if name in RATIOS:
            return array_module.min(values, axis=0)
        base = self.base.of(name)[networks]
        relative = values / base.reshape(-1, *(1,) * (array_module.ndim(values) - 1))
        worst = relative.min(axis=0) if name in HIGHER_IS_BETTER else relative.max(axis=0)
        return worst * np.exp(np.log(base).mean())

    def excess(
        self, constraint: ResultConstraint, combined: Results[ArrayT], each: Results[ArrayT], array_module: ModuleType = np
    ) -> ArrayT:
        """How far a constraint is exceeded, relative to its bound: at most 0 where it is met.

        With `worst`, it must be met by each network.
        """
        if not self.worst:
            return constraint.excess(constraint.expression.evaluate(combined, array_module))
        networks = range(len(each["latency"]))[: self.own_count]
        results = [{**combined, **{name: values[network] for name, values in each.items()}} for network in networks]
        excesses = [constraint.excess(constraint.expression.evaluate(one, array_module)) + 0 * one["latency"] for one in results]
        return array_module.stack(excesses).max(axis=0)


def score_designs(
    search: SearchSpec, over_networks: OverNetworks, combined: Results[np.ndarray], each: Results[np.ndarray], count: int
) -> tuple[Objectives, Excess]:
    """Objectives and excesses of `count` designs from their results, over the networks and of each.

    Infinite where an expression has no finite real value.
    """
    with np.errstate(all="ignore"):
        objectives = [sign * expression.evaluate(combined) * np.ones(count) for expression, sign in search.objectives]
        excess = [over_networks.excess(bound, combined, each) * np.ones(count) for bound in search.bounds]
    return _stack(objectives, count), _stack(excess, count)


def round_scores(values: np.ndarray) -> np.ndarray:
    """Values to `SIGNIFICANT_DIGITS`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (SIGNIFICANT_DIGITS - 1 - np.floor(np.log10(np.abs(values))))
        return np.where(np.isfinite(scale) & np.isfinite(values), np.round(values * scale) / scale, values)


def _stack(columns: Sequence[np.ndarray], count: int) -> Float[np.ndarray, "design column"]:
    return round_scores(np.stack([_to_finite(column) for column in columns], axis=1)) if columns else np.zeros((count, 0))


def _to_finite(values: np.ndarray) -> np.ndarray:
    """Replace what is not a finite real number by infinity, the worst value."""
    return np.where(np.isfinite(values) & (np.imag(values) == 0), np.real(values), np.inf)


def take_variants(values: ArrayT, choice: ArrayT, array_module: ModuleType = np) -> ArrayT:
    """Values of the chosen variants [network, design], from `values` [variant, design] and `choice` [network, design]."""
    return array_module.take_along_axis(values, choice, axis=0)


def evaluate_base(space: Space, problem: SearchProblem) -> Base:
    """Latencies [s] of the dense networks; also energies [J], if the search scores the worst network by energy."""
    needs_energy = problem.needs_energy and problem.search.over_workloads == "worst"
    return Base(_dense_latencies(space, problem), _dense_energies(space, problem) if needs_energy else None)


def _dense_latencies(space: Space, problem: SearchProblem) -> Float[np.ndarray, "network"]:
    accelerator, latencies = space.accelerator.base, dict[str, float]()
    efficiency = efficiency_of(problem.options, problem.kernels, accelerator, with_samples=False)
    for name in problem.own_networks:
        dense = problem.feasible_variants[name][0]
        terms = network_terms(accelerator, dense, problem.batch, problem.dtype, problem.options, efficiency)
        latencies[name] = float(latency_samples(terms, accelerator, problem.options)[0].sum())
    fixed = [latencies[run.network] for run in problem.fixed_runs.values()]
    return np.array([*latencies.values(), *fixed])


def _dense_energies(space: Space, problem: SearchProblem) -> Float[np.ndarray, "network"]:
    """Energy [J] with leakage."""
    described, own = Space(space.accelerator.base, ()), problem.own_networks
    runs = [NetworkRun(problem.feasible_variants[name][0], problem.batch, problem.dtype) for name in own]
    efficiency = efficiency_of(problem.options, problem.kernels, described.accelerator, with_samples=False)
    config = build_config(described.accelerator, described, problem, runs, True, WorkCache(), efficiency)
    entries = np.zeros((1 + len(config.capacity_paths), 1), int)
    energies = action_energies(config.executions, Design(described.accelerator))
    batch = Batch(np.empty((0, 1)), entries, np.ones(1), np.ones(len(config.executions)), config.host_times({}), np.asarray(energies))
    with jax.enable_x64(True):
        latency, energy = compiled_evaluate_batch(batch, config.arrays, combination=config.combination)
    design = Design(described.accelerator)
    energies = np.asarray(network_energy(design, np.asarray(energy), np.asarray(latency), problem.options.fidelity))[:, 0]
    return energies[[*range(len(own)), *(own.index(run.network) for run in problem.fixed_runs.values())]]
