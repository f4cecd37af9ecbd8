"""One shape for the arrays of every job of a sweep, so that one compilation serves them all."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dse.model import axis_dependence, jax_devices
from dse.model.axis_dependence import LayerGroup
from dse.model.cost.preference import preference
from dse.model.grid import Grid, cut
from dse.model.terms import DECODE, Case, rate_factors
from dse.sweeping.job import Job
from dse.sweeping.plan import Plan

LARGE = 2**22  # designs from which on the structure of the grid is looked for: each part costs at least what is evaluated at once


@dataclass(frozen=True)
class Common:
    """`layers`, `executions`: the most of any part of a network whose layers are added up; `lines`: the most of any whose layers are
    searched, in `steps` at most."""

    parts: Mapping[Case, list[LayerGroup]]  # of the network of each job
    layers: int
    executions: int
    lines: int
    steps: int
    terms: tuple[int, ...]  # those that ever set the time: some run has a gain cap, some a decoder, some device a memory inside
    columns: int  # of a grid, of which `rows` are evaluated at once
    rows: int
    precision: np.dtype
    fixed: bool  # whether layers take time beside that of resources

    @classmethod
    def of(cls, jobs: list[Job], plan: Plan) -> "Common":
        parts = {case: _parts(case, job, plan) for job in jobs for case in job.cases}
        every, precision = [part for found in parts.values() for part in found], np.dtype(plan.spec.store.dtype)
        added, searched = [part for part in every if not part.lines], [part.lines for part in every if part.lines]
        layers = max((len(part.work) for part in added), default=1)
        executions = max((len(part.executions) for part in added), default=1)
        lines = max((len(found.breaks) for found in searched), default=0)
        steps = max((found.table(precision)[1] for found in searched), default=0)
        terms, fixed = _terms(jobs), any(job.case.fixed is not None for job in jobs)
        held = 2 if plan.needs_breakdown else 1  # what resources set, beside the rates
        columns, rows = _at_once(plan, held * executions * len(terms) * precision.itemsize)
        return cls(parts, layers, executions, lines, steps, terms, columns, rows, precision, fixed)

    @property
    def decoders(self) -> bool:
        return DECODE in self.terms

    @property
    def compute(self) -> int:
        """How many of the terms are about the unit."""
        return sum(term < DECODE for term in self.terms)

    @property
    def resources(self) -> int:
        return len(self.terms) - self.compute + 1 + self.fixed

    def work(self, work: np.ndarray) -> np.ndarray:
        """Work [layer, execution, term]: absent layers take no time, absent executions too much."""
        layers, executions, terms = work.shape
        padded = np.zeros((self.layers, self.executions, self.terms[-1] + 1))
        padded[:layers, :executions, :terms] = work
        padded[:layers, executions:, 1] = np.inf
        return padded[..., list(self.terms)].astype(self.precision)

    def ranks(self, preference: np.ndarray) -> np.ndarray:
        """Ranks of the executions in a tie [layer, execution], absent ones last."""
        layers, executions = preference.shape
        absent = ((0, self.layers - layers), (0, self.executions - executions))
        return np.pad(preference, absent, constant_values=self.executions)

    def beside(self, fixed: np.ndarray | None) -> np.ndarray | None:
        """Time of each layer beside that of its resources [layer, execution] in seconds, none of absent ones."""
        if fixed is None:
            return None
        return np.pad(fixed, ((0, self.layers - len(fixed)), (0, self.executions - fixed.shape[1]))).astype(self.precision)

    def grid(self, constant: np.ndarray, factors: list[np.ndarray], sizes: Sequence[int]) -> Grid:
        """The designs that some inverse rates [execution, term] and their factors make; `sizes`: of the axes of the whole sweep."""
        return self.narrow(self._rates(constant), [self._rates(factor) for factor in factors], sizes)

    def narrow(self, constant: np.ndarray, factors: list[np.ndarray], sizes: Sequence[int]) -> Grid:
        """The same where inverse rates stay as they are."""
        return Grid(constant, factors, cut(sizes, self.columns), self.columns, self.rows, self.precision)

    def _rates(self, rates: np.ndarray) -> np.ndarray:
        """Inverse rates [execution, term, ...]; those of absent executions and memories are 1."""
        padding = [(0, self.executions - len(rates)), (0, self.terms[-1] + 1 - rates.shape[1])] + [(0, 0)] * (rates.ndim - 2)
        return np.pad(rates, padding, constant_values=1.0)[:, list(self.terms)]


def _terms(jobs: list[Job]) -> tuple[int, ...]:
    listed = [execution for job in jobs for execution in job.case.executions]
    memories = max(1 + len(execution.inner) for execution in listed)
    needed = (any(e.dense_rate for e in listed), True, any(e.decode_rate for e in listed), *[True] * memories)
    return tuple(term for term, need in enumerate(needed) if need)


def _at_once(plan: Plan, size: int) -> tuple[int, int]:
    """Columns and rows of what is evaluated at once, each design of which takes so many bytes; every device has as many rows."""
    shape = [len(values) for values in plan.rate_axes.values()]
    columns = math.prod(shape[cut(shape) :])
    rows = max(1, min(jax_devices.at_once(size), plan.rate_grid_size) // columns)
    return columns, jax_devices.count() * math.ceil(rows / jax_devices.count())


def _parts(case: Case, job: Job, plan: Plan) -> list[LayerGroup]:
    """By the axes that they depend on, unless more than the time of what runs is asked for: then nothing may be left out."""
    if plan.rate_grid_size < LARGE or plan.needs_breakdown or plan.spec.store.needs_energy:
        return axis_dependence.whole(case.distinct(_preference(case, job, plan)), len(plan.rate_axes))
    (constant, factors), layers = rate_factors(case.executions, job.accelerator, plan.rate_axes), case.distinct()
    sizes = [len(values) for values in plan.rate_axes.values()]
    return axis_dependence.parts(
        layers.work, layers.fixed, constant, [factor.ends for factor in factors], plan.spec.model.resource_overlap, sizes
    )


def _preference(case: Case, job: Job, plan: Plan) -> np.ndarray | None:
    """Ranks of the executions in a tie, where a breakdown shows which one runs."""
    if not plan.needs_breakdown or case is not job.case:
        return None
    return preference(case, job.accelerator, plan.spec.dtype[job.place["dtype"]].compute, plan.accelerators[job.place["accelerator"]])
