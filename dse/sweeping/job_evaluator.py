"""Evaluate one job on any block of the rate axes: latency, breakdown, lower bound, intervals and energy."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from dse.model import grid
from dse.model.axis_dependence import LayerGroup
from dse.model.cost.design import Design
from dse.model.cost.energy import count_actions, layer_energy
from dse.model.efficiency.interval import QUANTILES
from dse.model.grid import Samples
from dse.model.piecewise_linear import Table, evaluate_table
from dse.model.rates import factored_inverse_rates
from dse.sweeping.job import Job, JobNetworks, network_work
from dse.sweeping.kernel_shapes import KernelShapes
from dse.sweeping.plan import Plan

MOST_TABULATED = 2**24  # designs of a group whose latencies are tabulated for all blocks

Block = Sequence[slice]  # of each rate axis
Results = Float[np.ndarray, "*rates"]
ActionEnergies = Float[np.ndarray, "execution action entry"]


@dataclass(frozen=True, eq=False)
class DenseSamples:
    """Latencies of a dense network in each sample, one array [sample, row, column] for each call, which stay where they were computed.

    `of_unpruned`: those of the groups `unpruned`, which pruned networks share, or None where there is none.
    """

    latency: list[Array]
    of_unpruned: list[Array | None]
    unpruned: Sequence[Samples]

    def shares(self, groups: Sequence[Samples]) -> bool:
        """Whether `groups` are those of the unpruned layers."""
        pairs = zip(groups, self.unpruned, strict=False)
        return len(groups) == len(self.unpruned) and all(map(np.array_equal, a, b) for a, b in pairs)


class JobEvaluator:
    """Results of a job on blocks of a sweep's rate axes; what is computed for its smaller groups serves every block."""

    def __init__(self, job: Job, networks: JobNetworks, shapes: KernelShapes, plan: Plan):
        self.job, self.networks, self.shapes = job, networks, shapes
        self.samples, self.unpruned_samples = (
            [shapes.pad_samples(group) for group in groups] for groups in (networks.samples, networks.unpruned_samples)
        )
        self.constant, self.factors = factored_inverse_rates(job.terms.executions, job.accelerator, plan.rate_axes)
        self.lengths = [len(factor.values) for factor in self.factors]

    def latency(self, block: Block) -> Results:
        """Latency [s] of each design of a block."""
        return self.with_host(self._sum_of_groups(self.networks.latency, block))

    def lower_bound(self, block: Block) -> Results | None:
        """Latency [s] that no schedule can beat, where it is known."""
        return self.with_host(self._sum_of_groups(self.networks.lower_bound, block)) if self.networks.lower_bound else None

    def with_host(self, latency: Results) -> Results:
        """At least the time that the host takes [s]."""
        host = self.job.terms.host
        return latency if host is None else np.maximum(latency, latency.dtype.type(host.time[0]))

    def breakdown(self, block: Block) -> tuple[Float[np.ndarray, "execution resource *rates"], Results | None]:
        """Time [s] in each execution while bound by each resource of the device, and the lower bound of the latency, where it is known."""
        (group,), bound = self.networks.latency, None
        shape = self.shapes.executions, self.shapes.resources
        function = partial(self._call(grid.breakdown_on_grid), self.shapes.pad(group.network))
        if not self.networks.lower_bound:
            return self._evaluate(group, block, function, parts=(math.prod(shape),)).reshape((*shape, *self._sizes(block))), None
        (bound,) = self.networks.lower_bound
        function = partial(function, lower_bound=self.shapes.pad(bound.network))
        parts = self._evaluate(group, block, function, parts=(math.prod(shape) + 1,))
        return parts[:-1].reshape((*shape, *parts.shape[1:])), self.with_host(parts[-1])

    def intervals(self, block: Block, dense: DenseSamples | None) -> tuple[Float[np.ndarray, "quantile *rates"], DenseSamples]:
        """Quantiles of the latency, then those of the speedup over a dense network; without one, also the samples of the latency."""
        unpruned = self.unpruned_samples
        is_shared, samples = dense is not None and dense.shares(unpruned), DenseSamples([], [], unpruned)
        host = self._sampled_host_time

        def function(rows: Any, columns: Any, of_dense: tuple[Array | None, Array | None] = (None, None)) -> Array:
            others = of_dense[1] if is_shared else self._sample_latencies(unpruned, rows, columns)
            latency = self._sample_latencies(self.samples, rows, columns, others)
            latency = latency if host is None else jnp.maximum(latency, host)
            if dense is None:
                samples.latency.append(latency)
                samples.of_unpruned.append(others)
            return grid.intervals(latency, of_dense[0])

        axes, executions = range(len(self.factors)), range(len(self.constant))
        quantiles = len(QUANTILES) * (1 if dense is None else 2)
        inputs = None if dense is None else list(zip(dense.latency, dense.of_unpruned, strict=True))
        return self._grid(axes, executions, block).evaluate(function, (quantiles,), inputs), samples

    @cached_property
    def _sampled_host_time(self) -> Float[np.ndarray, "sample 1 1"] | None:
        """Time of the host in each sample [s], without the best estimate; only that if there are no samples."""
        host = self.job.terms.host
        if host is None:
            return None
        time = host.time[1:] if len(host.time) > 1 else host.time
        return time.astype(self.shapes.precision)[:, None, None]

    def _sample_latencies(self, groups: Sequence[Samples], rows: Any, columns: Any, others: Array | None = None) -> Any:
        return self._call(grid.samples_on_grid)(groups, rows, columns, others) if groups else others

    def energy(self, block: Block, design: Design) -> Results:
        """Energy [J] of the work on each design of a block, where all have the energies per operation and byte of `design`."""
        (group,) = self.networks.latency
        energy = layer_energy(self.job.terms, design)
        network = self.shapes.pad(network_work(self.job.terms, self.networks.merge, energy=energy))
        return self._evaluate(group, block, partial(self._call(grid.energy_on_grid), network))

    def varied_energy(self, block: Block, energies: ActionEnergies, lengths: Sequence[int], strides: Sequence[int]) -> Results:
        """Energy [J] of the work on each design of a block, where designs differ in the energies per operation and byte.

        Designs vary along further axes, of these `lengths`, before those of the block. `strides`: what a step along each of all these axes
        adds to the index of a design in the last axis of `energies`.
        """
        (group,) = self.networks.latency
        network = self.shapes.pad(network_work(self.job.terms, self.networks.merge, energy=count_actions(self.job.terms)))
        executions = list(group.executions)
        factors = [factor.at(part)[executions] for factor, part in zip(self.factors, block, strict=True)]
        constant = self.constant[executions]
        further = [np.ones((*constant.shape, length)) for length in lengths]
        designs = self.shapes.grid(constant, [*further, *factors], [*lengths, *self.lengths])
        row_entries, column_entries = designs.entries(strides)
        function = partial(self._call(grid.varied_energy_on_grid), network, self.shapes.pad_energies(energies[executions]), column_entries)
        return designs.evaluate(function, inputs=row_entries)

    def _sum_of_groups(self, groups: Sequence[LayerGroup], block: Block) -> Results:
        latencies = [self._broadcastable(group, block) for group in groups]
        total = np.broadcast_to(latencies[0], np.broadcast_shapes(*(latency.shape for latency in latencies))).copy()
        for latency in latencies[1:]:
            total += latency
        return np.broadcast_to(total, self._sizes(block))

    def _broadcastable(self, group: LayerGroup, block: Block) -> np.ndarray:
        """The latency of a group, with axes of length 1 where it does not depend on them."""
        table = self._tables.get(group)
        latency = self._group_latency(group, block) if table is None else table[tuple(block[axis] for axis in group.axes)]
        return np.expand_dims(latency, [axis for axis in range(len(block)) if axis not in group.axes])

    @cached_property
    def _tables(self) -> dict[LayerGroup, np.ndarray]:
        """The latency of each group that does not depend on all axes, on the axes that it depends on."""
        whole = (slice(None),) * len(self.factors)
        groups = [*self.networks.latency, *self.networks.lower_bound]
        small = [g for g in groups if len(g.axes) < len(self.factors) and math.prod(self._group_lengths(g)) <= MOST_TABULATED]
        return {group: self._group_latency(group, whole) for group in small}

    def _group_latency(self, group: LayerGroup, block: Block) -> np.ndarray:
        if group.piecewise_linear is not None:
            return self._looked_up(group, block)
        return self._evaluate(group, block, partial(self._call(grid.latency_on_grid), self.shapes.pad(group.network)))

    def _looked_up(self, group: LayerGroup, block: Block) -> np.ndarray:
        executions, terms = zip(*group.rates, strict=True)
        factors = [self.factors[axis].at(block[axis])[executions, terms][None] for axis in group.axes]
        function = partial(evaluate_table, self._function_tables[group], halvings=self.shapes.halvings)
        return self.shapes.grid_of_rates(np.ones((1, 2)), factors, self._group_lengths(group)).evaluate(function)

    @cached_property
    def _function_tables(self) -> dict[LayerGroup, Table]:
        groups = [*self.networks.latency, *self.networks.lower_bound]
        return {g: g.piecewise_linear.table(self.shapes.precision, self.shapes.pieces)[0] for g in groups if g.piecewise_linear}

    def _evaluate(self, group: LayerGroup, block: Block, function: Callable[..., Any], parts: tuple[int, ...] = ()) -> np.ndarray:
        return self._grid(group.axes, group.executions, block).evaluate(function, parts)

    def _grid(self, axes: Sequence[int], executions: Sequence[int], block: Block) -> grid.Grid:
        """The inverse rates of some executions on the designs of a block that differ in some axes."""
        factors = [self.factors[axis].at(block[axis])[list(executions)] for axis in axes]
        return self.shapes.grid(self.constant[list(executions)], factors, [self.lengths[axis] for axis in axes])

    def _call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return partial(function, combination=self.shapes.combination)

    def _group_lengths(self, group: LayerGroup) -> list[int]:
        return [self.lengths[axis] for axis in group.axes]

    def _sizes(self, block: Block) -> list[int]:
        return [factor.values[part].size for factor, part in zip(self.factors, block, strict=True)]
