"""The arrays of one categorical configuration: one choice of everything that is not a number (patterns, formats, switches).

Traffic is tabulated over the on-chip capacities that designs may have, the work of fitted kernels over all combinations of the numbers that
their slowdown depends on: each table once, for every variant, layer and execution.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree import map as tree_map
from jaxtyping import Float, Int

from dse.base.array_types import AnyArray
from dse.base.dtype import OperandDtypes
from dse.model.cost.design import Design
from dse.model.cost.energy import action_energies, count_actions
from dse.model.efficiency.fitted import LAUNCH_LATENCY
from dse.model.efficiency.protocol import EfficiencyModel
from dse.model.executions import Execution
from dse.model.host_time import HOST_LAUNCH, HOST_PATHS, HOST_RUN
from dse.model.memory_levels import memory_levels
from dse.model.merge_layers import merge_proportional
from dse.model.network_terms import complete_terms
from dse.model.rates import STORED_FLOPS, TRAFFIC, UNIT_TERMS, factored_inverse_rates
from dse.model.roofline import Combination, layers_per_step
from dse.model.terms import LayerTerms, WorkCache, compulsory_terms
from dse.schema.accelerator import Accelerator
from dse.searching.batch_evaluator import BatchArrays, LayerTables
from dse.searching.problem import SearchProblem
from dse.searching.space import Space, grid_index
from dse.workload import Variant

LEAST_BYTES = 1e-300  # represents zero bytes, which have no logarithm
NEAR = 1e-9  # logarithmic distance at which a value is on the grid
MOST_LAYERS_PER_STEP = 8  # of the scan: the layers of a variant are filled up to whole steps
UNIT_WORK = 1.0  # FLOPs of missing layers and of executions that are not legal: the time of none has no derivative


@dataclass(frozen=True)
class NetworkRun:
    """One variant of a network at a batch size and in a dtype."""

    variant: Variant
    batch: int
    dtype: OperandDtypes


@dataclass(frozen=True, eq=False)
class CategoricalConfig:
    """The arrays that evaluate every design of one categorical configuration.

    `batches`: the batch size of each variant. `terms`: its layer terms at the smallest tabulated values. `capacity_paths`: the tabulated
    axis, if any, that decides the traffic of each memory, outermost first. `slowdown_paths`: the tabulated axes that decide the slowdown.
    `grids`: the values of all tabulated axes.
    """

    accelerator: Accelerator
    batches: tuple[int, ...]
    terms: list[LayerTerms]
    executions: tuple[Execution, ...]
    arrays: BatchArrays
    combination: Combination
    capacity_paths: tuple[str | None, ...]
    slowdown_paths: tuple[str, ...]
    grids: Mapping[str, np.ndarray]

    def table_entries(self, values: Mapping[str, np.ndarray], designs: int) -> Int[np.ndarray, "table design"]:
        """Entry of `designs` designs in the FLOP tables and in those of each memory: that of the next smaller tabulated values."""
        first = np.zeros(designs, int)
        entries = {path: grid_index(grid, values[path]) for path, grid in self.grids.items()}
        joint = (
            np.ravel_multi_index([entries[path] for path in self.slowdown_paths], self._slowdown_sizes) if self.slowdown_paths else first
        )
        return np.stack([joint, *(entries[path] if path else first for path in self.capacity_paths)])

    def host_times(self, values: Mapping[str, AnyArray]) -> Float[AnyArray, "variant design"] | None:
        """Time of the host [s] for each variant on designs with the given values [variant, design]; None if it counts for none."""
        hosts = [terms.host for terms in self.terms]
        if not any(hosts):
            return None
        run = np.array([0.0 if host is None else host.run[0] for host in hosts])
        launches = np.array([0.0 if host is None else host.time[0] - host.run[0] for host in hosts])
        return run[:, None] * values.get(HOST_RUN, np.ones(1)) + launches[:, None] * values.get(HOST_LAUNCH, np.ones(1))

    def action_energies(self, design: Design) -> Float[AnyArray, "execution action *design"] | None:
        """Energy of an operation [J/FLOP] and of a byte at each memory [J/B] on designs; None where energy is not evaluated."""
        return None if self.arrays.layers.actions is None else action_energies(self.executions, design)

    def interpolate(self, logarithms: Mapping[str, Array]) -> BatchArrays:
        """The arrays at one design, smooth in the logarithms of the tabulated values, for JAX to differentiate."""

        def at(table: AnyArray, path: str | None) -> AnyArray:
            return table[..., 0] if path is None else _interpolate(table, self.grids[path], logarithms[path])

        def by_path(tables: AnyArray, paths: Sequence[str | None]) -> Array:
            columns = [at(tables[..., column, :], path) for column, path in enumerate(paths)]
            return jnp.stack(columns, axis=-1)[..., None]

        arrays = self.arrays.one_layer_a_step()
        layers = arrays.layers
        flops = layers.flops.reshape(*layers.flops.shape[:-1], *self._slowdown_sizes)
        for path in reversed(self.slowdown_paths or (None,)):
            flops = at(flops, path)
        actions = None if layers.actions is None else by_path(layers.actions, [self.capacity_paths[0], *self.capacity_paths])
        traffic = by_path(layers.traffic, self.capacity_paths)
        return arrays._replace(layers=layers._replace(flops=flops[..., None], traffic=traffic, actions=actions))

    @property
    def _slowdown_sizes(self) -> list[int]:
        return [len(self.grids[path]) for path in self.slowdown_paths] or [1]


def _interpolate(table: AnyArray, grid: np.ndarray, at: Array) -> AnyArray:
    """Log-log lines through a table [..., entry]; on a tabulated value, the line to the next one."""
    if len(grid) == 1:
        return table[..., 0]
    steps, logarithms = jnp.log(grid), jnp.log(jnp.maximum(table, LEAST_BYTES))
    low = jnp.clip(jnp.searchsorted(steps, at + NEAR) - 1, 0, len(grid) - 2)
    share = (at - steps[low]) / (steps[low + 1] - steps[low])
    return jnp.exp((1 - share) * logarithms[..., low] + share * logarithms[..., low + 1])


def build_config(
    accelerator: Accelerator,
    space: Space,
    problem: SearchProblem,
    runs: Sequence[NetworkRun],
    with_energy: bool,
    cache: WorkCache,
    efficiency: EfficiencyModel,
) -> CategoricalConfig:
    """The arrays of variants under one categorical configuration; raises InputError if it has no unit for the dtype of one.

    `cache` shares the work of executions, and `efficiency` the kernels of executions, among the configurations of a search.
    """
    grids = space.grids
    by_capacity, by_slowdown = _tabulated_accelerators(accelerator, space, grids)
    tabulated = [_tabulated_terms(run, [*by_capacity, *by_slowdown], problem, cache, efficiency) for run in runs]
    used = {execution for each in tabulated for execution in each[0].executions}
    candidates = dict.fromkeys(execution for each in tabulated for execution in each[0].candidates)
    executions = tuple(execution for execution in candidates if execution in used)
    numeric = space.all_values({d.path: np.ones(1) for d in space.dimensions if not d.categorical}, accelerator)
    constant, factors = factored_inverse_rates(executions, by_capacity[0], numeric)
    depends = np.stack([factor.depends for factor in factors]) if factors else np.zeros((0, *constant.shape), bool)
    flop_terms = [term for term in range(TRAFFIC) if term == STORED_FLOPS or constant[:, term].any()]
    overlap = problem.options.resource_overlap
    step = layers_per_step(MOST_LAYERS_PER_STEP, len(executions), overlap)
    tables = _TableBuilder(executions, flop_terms, step, len(by_capacity), with_energy)
    layers = [tables.build(each) for each in tabulated]
    stacked = tree_map(lambda *parts: np.concatenate(parts), *layers)
    steps = np.repeat(np.arange(len(layers)), [len(each.is_layer) for each in layers])
    terms = [*flop_terms, *range(TRAFFIC, constant.shape[1])]
    arrays = BatchArrays(stacked, np.equal.outer(np.arange(len(layers)), steps).astype(float), constant[:, terms], depends[:, :, terms])
    inside = (level.reuse_capacity for level in memory_levels(by_capacity[0], problem.options.fidelity))
    return CategoricalConfig(
        accelerator,
        tuple(run.batch for run in runs),
        [each[0] for each in tabulated],
        executions,
        arrays,
        Combination(sum(term < UNIT_TERMS for term in flop_terms), overlap),
        tuple(path if path in grids else None for path in inside),
        _slowdown_paths(grids),
        grids,
    )


def _slowdown_paths(grids: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    return tuple(path for path in grids if path.startswith("units."))


def _tabulated_accelerators(
    accelerator: Accelerator, space: Space, grids: Mapping[str, np.ndarray]
) -> tuple[list[Accelerator], list[Accelerator]]:
    """The accelerator at each capacity, and with each other combination of what its slowdown depends on, everything else at its smallest
    value.

    The traffic of each memory depends on one capacity, so all capacities grow together; shorter grids stay at their end.
    """
    units, slowdown_paths = space.units, _slowdown_paths(grids)
    varied = {*units, *accelerator.links.dependents(units)}
    factors = {path: "1 s" for path in (LAUNCH_LATENCY, *HOST_PATHS) if path in varied}  # what the values of designs multiply

    def at(values: Mapping[str, float]) -> Accelerator:
        given = {path: values.get(path, grid[0]) for path, grid in grids.items()}
        return accelerator.replace({path: f"{float(value)!r} {units[path]}".strip() for path, value in given.items()} | factors)

    capacities = {path: grid for path, grid in grids.items() if path not in slowdown_paths}
    longest = max(map(len, capacities.values()), default=1)
    by_capacity = [at({path: grid[min(n, len(grid) - 1)] for path, grid in capacities.items()}) for n in range(longest)]
    combinations = itertools.islice(itertools.product(*(grids[path] for path in slowdown_paths)), 1, None)
    return by_capacity, [at(dict(zip(slowdown_paths, values, strict=True))) for values in combinations]


def _tabulated_terms(
    run: NetworkRun, accelerators: Sequence[Accelerator], problem: SearchProblem, cache: WorkCache, efficiency: EfficiencyModel
) -> list[LayerTerms]:
    compulsory = compulsory_terms(accelerators[0], run.variant, run.batch, run.dtype, problem.options, cache)
    return [complete_terms(compulsory, one, run.variant, run.dtype, problem.options, efficiency) for one in accelerators]


@dataclass(frozen=True)
class _TableBuilder:
    """Builds the tables of one variant from its terms at each tabulated value.

    The first `capacities` terms vary the capacities; the first one and all others vary what the slowdown depends on.
    """

    executions: Sequence[Execution]
    flop_terms: Sequence[int]
    layers_per_step: int
    capacities: int
    with_energy: bool

    def build(self, tabulated: Sequence[LayerTerms]) -> LayerTables:
        """The merged layers of a variant, in whole steps."""
        terms, by_capacity = tabulated[0], tabulated[: self.capacities]
        count = terms.count[:, None, None]
        work = np.stack([each.slowed_work[0] * count for each in tabulated])
        overhead = None if terms.overhead is None else terms.overhead[:1] * terms.count[:, None]
        actions = np.stack([count_actions(each) * count for each in by_capacity], axis=-1) if self.with_energy else None
        merge = merge_proportional(work, terms.legal, overhead, [] if actions is None else [actions])
        legal = terms.legal[merge.first]
        merged = [merge.total(each) for each in work]
        flops = np.stack([each[:, :, self.flop_terms] for each in (merged[0], *merged[self.capacities :])], axis=-1)
        traffic = np.stack([each[:, :, TRAFFIC:] for each in merged[: self.capacities]], axis=-1)
        has_work = np.any(flops > 0, axis=(1, 2, 3)) | np.any(traffic > 0, axis=(1, 2, 3))  # a row of parameters has none
        flops = np.where(legal[:, :, None, None], flops, UNIT_WORK)

        def place(values: np.ndarray, missing_execution: float, missing_layer: float) -> np.ndarray:
            """`values` of the layers with work, with every execution, in whole steps of layers."""
            shape = has_work.sum() + -has_work.sum() % self.layers_per_step, len(self.executions), *values.shape[2:]
            placed = np.full(shape, missing_layer, values.dtype)
            placed[: has_work.sum()] = missing_execution
            placed[: has_work.sum(), [self.executions.index(execution) for execution in terms.executions]] = values[has_work]
            return placed.reshape(-1, self.layers_per_step, *shape[1:])

        is_layer = np.pad(np.ones(has_work.sum()), (0, -has_work.sum() % self.layers_per_step))
        return LayerTables(
            place(flops, UNIT_WORK, UNIT_WORK),
            place(traffic, 0.0, 0.0),
            place(legal, False, True),
            is_layer.reshape(-1, self.layers_per_step),
            None if overhead is None else place(merge.total(overhead[0]), 0.0, 0.0),
            None if actions is None else place(merge.total(actions), 0.0, 0.0),
        )
