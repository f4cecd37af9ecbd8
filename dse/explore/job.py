"""A sweep cut into jobs, each a grid over the rate axes that one compiled function evaluates."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dse.accelerator import Accelerator
from dse.explore.plan import Plan
from dse.model.equation import DECODE, Case, compulsory_case, inverse_rates, with_capacity
from dse.model.grid import Grid, trailing
from dse.workload import Variant


@dataclass(frozen=True)
class Job:
    """One network state on one structure of one accelerator: a grid over the rate axes."""

    place: dict[str, int]
    accelerator: Accelerator
    case: Case
    variants: tuple[int, ...]  # where its latency goes
    baseline: bool


def jobs_of(plan: Plan) -> Iterator[Job]:
    """The dense baselines of each setting first, then the variants."""
    for design, accelerator in plan.designs():
        capacities = plan.sized(accelerator)
        for setting, batch, dtype in plan.settings():
            place = {**design, **setting}
            for state, numbers, baseline in _states(plan):
                found = compulsory_case(accelerator, state, batch, dtype, plan.spec.model)
                for sizes, sized in capacities:
                    yield Job(place | sizes, sized, with_capacity(found, sized, plan.spec.model), numbers, baseline)


def _states(plan: Plan) -> Iterator[tuple[Variant, tuple[int, ...], bool]]:
    for name, dense in plan.dense.items() if plan.needs_dense else ():
        yield dense, tuple(n for n, variant in enumerate(plan.variants) if variant.workload == name), True
    for number, variant in enumerate(plan.variants):
        yield variant, (number,), False


CHUNK = 2**18  # designs evaluated at once, about: enough to hide the call, few enough for their results to stay in the cache


@dataclass(frozen=True)
class Common:
    """One shape for the arrays of every job of a sweep, so that one compilation serves them all. `layers`: distinct ones."""

    layers: int
    executions: int
    terms: tuple[int, ...]  # those that ever set the time: some run has a gain cap, some a decoder, some device a memory inside
    trailing: int  # axes that make up the columns of a grid
    rows: int  # evaluated at once
    precision: np.dtype

    @classmethod
    def of(cls, jobs: list[Job], plan: Plan) -> "Common":
        cases = [case for job in jobs for case in (job.case, job.case.least) if case is not None]
        layers = max(len(case.distinct) for case in cases)
        executions = max(len(job.case.executions) for job in jobs)
        listed = [execution for job in jobs for execution in job.case.executions]
        memories = max(1 + len(e.inner) for e in listed)
        needed = (any(e.dense_rate for e in listed), True, any(e.decode_rate for e in listed), *[True] * memories)
        terms = tuple(term for term, need in enumerate(needed) if need)
        shape = [len(values) for values in plan.rate_axes.values()]
        last = trailing(shape)
        columns = math.prod(shape[len(shape) - last :])
        rows = max(1, min(CHUNK, plan.grid_size) // columns)
        return cls(layers, executions, terms, last, rows, np.dtype(plan.spec.store.dtype))

    @property
    def decoders(self) -> bool:
        return DECODE in self.terms

    @property
    def compute(self) -> int:
        """How many of the terms are about the unit."""
        return sum(term < DECODE for term in self.terms)

    @property
    def resources(self) -> int:
        return len(self.terms) - self.compute + 1

    def work(self, distinct: np.ndarray) -> np.ndarray:
        """Work [layer, execution, term]: absent layers take no time, absent executions too much."""
        layers, executions, terms = distinct.shape
        work = np.zeros((self.layers, self.executions, self.terms[-1] + 1))
        work[:layers, :executions, :terms] = distinct
        work[:layers, executions:, 1] = np.inf
        return work[..., list(self.terms)].astype(self.precision)

    def grid(self, job: Job, axes: dict[str, np.ndarray]) -> Grid:
        """The inverse rates of a job's designs."""
        constant, factors = inverse_rates(job.case.executions, job.accelerator, axes)
        return Grid(self._rates(constant), [self._rates(factor) for factor in factors], self.trailing, self.rows, self.precision)

    def _rates(self, rates: np.ndarray) -> np.ndarray:
        """Inverse rates [execution, term, ...]; those of absent executions and memories are 1."""
        padding = [(0, self.executions - len(rates)), (0, self.terms[-1] + 1 - rates.shape[1])] + [(0, 0)] * (rates.ndim - 2)
        return np.pad(rates, padding, constant_values=1.0)[:, list(self.terms)]
