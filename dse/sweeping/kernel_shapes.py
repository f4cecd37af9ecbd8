"""One shape for the arrays of every job of a sweep, so that each function is compiled once for all of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from dse.base.array_types import AnyArray
from dse.model import jax_devices
from dse.model.grid import MOST_COLUMNS, Grid, Samples, first_column_axis
from dse.model.rates import METADATA_BYTES, UNIT_TERMS
from dse.model.roofline import Combination, NetworkWork
from dse.sweeping.chunk import chunk_lengths, max_chunk_designs
from dse.sweeping.job import Job, JobNetworks
from dse.sweeping.plan import Plan

LEAST_ROWS = 16  # of a chunk, nearly: the rates of all columns are multiplied out once for each chunk


@dataclass(frozen=True)
class KernelShapes:
    """The array shapes that all jobs of a sweep are padded to.

    `layers`, `executions`: the maximum over the networks whose layers are summed. `pieces`, `halvings`: the maximum over the
    piecewise-linear sums. `terms`: the terms that can set the time of some layer (the gain cap, a decoder and inner memories only where a
    device has them). `all_legal`: every layer may take every execution, so kernels need no mask.
    """

    layers: int
    executions: int
    pieces: int
    halvings: int
    terms: tuple[int, ...]
    columns_at_once: int
    rows_at_once: int
    precision: np.dtype
    has_overhead: bool
    all_legal: bool
    combination: Combination

    @classmethod
    def of_jobs(cls, jobs: Sequence[Job], networks: Sequence[JobNetworks], plan: Plan) -> "KernelShapes":
        precision = np.dtype(plan.spec.store.dtype)
        summed = [network for each in networks for network in each.summed]
        groups = [group for each in networks for group in (*each.latency, *each.lower_bound)]
        functions = [group.piecewise_linear for group in groups if group.piecewise_linear]
        executions = max((network.work.shape[1] for network in summed), default=1)
        terms = _terms(jobs)
        numbers_per_design = (2 if plan.needs_breakdown else 1) * executions * len(terms)
        if plan.has_intervals:
            numbers_per_design += 2 * max(len(samples.work) for each in networks for samples in (*each.samples, *each.unpruned_samples))
        columns, rows = _designs_at_once(plan, numbers_per_design * precision.itemsize)
        return cls(
            layers=max((len(network.work) for network in summed), default=1),
            executions=executions,
            pieces=max((len(function.breakpoints) for function in functions), default=0),
            halvings=max((function.table(precision)[1] for function in functions), default=0),
            terms=terms,
            columns_at_once=columns,
            rows_at_once=rows,
            precision=precision,
            has_overhead=any(job.terms.overhead is not None for job in jobs),
            all_legal=all(network.work.shape[1] == executions and np.all(network.legal_mask) for network in summed),
            combination=Combination(sum(term < UNIT_TERMS for term in terms), plan.spec.model.resource_overlap),
        )

    @property
    def has_decoders(self) -> bool:
        return METADATA_BYTES in self.terms

    @property
    def resources(self) -> int:
        """Number of resources of a breakdown: the unit, every other term, and the overhead."""
        return len(self.terms) - self.combination.unit_terms + 1 + self.has_overhead

    def pad(self, network: NetworkWork) -> NetworkWork:
        """To the common shape: missing layers take no time under the first execution, missing executions are not legal."""
        return NetworkWork(
            self._pad_work(network.work),
            None if self.all_legal else self._pad_legal(network.legal_mask),
            self._pad_numbers(network.overhead),
            self._pad_numbers(network.energy),
            None if network.preference is None else self._pad_last(network.preference, self.executions),
        )

    def pad_samples(self, samples: Samples) -> Samples:
        """Samples with layers up to a power of two, so that few shapes are compiled, and with the common terms."""
        layers = 1 << (samples.work.shape[1] - 1).bit_length()
        missing = layers - samples.work.shape[1]
        terms = ((0, 0), (0, missing), (0, 0), (0, self.terms[-1] + 1 - samples.work.shape[3]))
        legal = np.pad(samples.legal, ((0, missing), (0, 0)), constant_values=False)
        legal[layers - missing :, 0] = True
        overhead = np.pad(samples.overhead, ((0, 0), (0, missing), (0, 0)))
        work = np.pad(samples.work, terms)[..., list(self.terms)]
        return Samples(work.astype(self.precision), legal, overhead.astype(self.precision), samples.executions)

    def grid(self, constant: np.ndarray, factors: Sequence[np.ndarray], lengths: Sequence[int]) -> Grid:
        """The grid of some inverse rates [execution, term]; `lengths`: of the axes of the whole sweep."""
        return self.grid_of_rates(self._pad_rates(constant), [self._pad_rates(factor) for factor in factors], lengths)

    def grid_of_rates(self, constant: np.ndarray, factors: Sequence[np.ndarray], lengths: Sequence[int]) -> Grid:
        """A grid whose inverse rates need no padding."""
        first_column = first_column_axis(lengths, self.columns_at_once)
        return Grid(constant, factors, first_column, self.columns_at_once, self.rows_at_once, self.precision)

    def _pad_work(self, work: Float[AnyArray, "layer execution term"]) -> Float[np.ndarray, "_ _ _"]:
        layers, executions, terms = work.shape
        padded = np.zeros((self.layers, self.executions, self.terms[-1] + 1))
        padded[:layers, :executions, :terms] = work
        return padded[..., list(self.terms)].astype(self.precision)

    def _pad_legal(self, legal: Bool[AnyArray, "layer execution"]) -> Bool[np.ndarray, "_ _"]:
        padded = self._pad_last(legal, False)
        padded[len(legal) :, 0] = True
        return padded

    def _pad_numbers(self, values: AnyArray | None) -> np.ndarray | None:
        return None if values is None else self._pad_last(values, 0.0).astype(self.precision)

    def _pad_last(self, values: AnyArray, fill: float) -> np.ndarray:
        missing = [(0, self.layers - values.shape[0]), (0, self.executions - values.shape[1])] + [(0, 0)] * (values.ndim - 2)
        return np.pad(values, missing, constant_values=fill)

    def pad_energies(self, energies: Float[AnyArray, "execution action entry"]) -> Float[np.ndarray, "_ _ _"]:
        """With missing executions, which take none."""
        return np.pad(energies, [(0, self.executions - len(energies)), (0, 0), (0, 0)]).astype(self.precision)

    def _pad_rates(self, rates: np.ndarray) -> np.ndarray:
        """Inverse rates [execution, term, ...]; those of missing executions and memories are 1. Samples may take more executions."""
        missing = [(0, max(0, self.executions - len(rates))), (0, self.terms[-1] + 1 - rates.shape[1])] + [(0, 0)] * (rates.ndim - 2)
        return np.pad(rates, missing, constant_values=1.0)[:, list(self.terms)]


def _terms(jobs: Sequence[Job]) -> tuple[int, ...]:
    executions = [execution for job in jobs for execution in job.terms.executions]
    memories = max(1 + len(execution.inner_memories) for execution in executions)
    needed = (any(e.capped_rate for e in executions), True, any(e.decode_rate for e in executions), *[True] * memories)
    return tuple(term for term, is_needed in enumerate(needed) if is_needed)


def _designs_at_once(plan: Plan, bytes_per_design: int) -> tuple[int, int]:
    """Columns and rows of one call, no more than a chunk has; every device has as many rows."""
    shape, most = [len(values) for values in plan.rate_axes.values()], max_chunk_designs(plan)
    columns = math.prod(shape[first_column_axis(shape, min(MOST_COLUMNS, most // LEAST_ROWS)) :])
    lengths = chunk_lengths(plan, most)
    in_chunk = math.prod(lengths[path] for path in plan.rate_axes)
    rows = max(1, min(jax_devices.designs_at_once(bytes_per_design), in_chunk) // columns)
    return columns, jax_devices.count() * math.ceil(rows / jax_devices.count())
