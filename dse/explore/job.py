"""A sweep cut into jobs, each a grid over the rate axes that one call of the compiled function evaluates."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dse.accelerator import Accelerator
from dse.calibrate.network import finished
from dse.explore.plan import Plan
from dse.model.equation import DECODE, Case, compulsory_case
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
                    number = place["accelerator"]
                    made = finished(found, sized, state, dtype, plan.spec.model, plan.kernels[number], plan.accelerators[number])
                    yield Job(place | sizes, sized, made, numbers, baseline)


def _states(plan: Plan) -> Iterator[tuple[Variant, tuple[int, ...], bool]]:
    for name, dense in plan.dense.items() if plan.needs_dense else ():
        yield dense, tuple(n for n, variant in enumerate(plan.variants) if variant.workload == name), True
    for number, variant in enumerate(plan.variants):
        yield variant, (number,), False


@dataclass(frozen=True)
class Common:
    """One shape for the arrays of every job of a sweep, so that one compilation serves them all. `layers`: distinct ones."""

    layers: int
    executions: int
    terms: tuple[int, ...]  # those that ever set the time: some run has a gain cap, some a decoder, some device a memory inside
    fixed: bool = False  # whether layers take time beside that of resources

    @classmethod
    def of(cls, jobs: list[Job]) -> "Common":
        layers = max(len(job.case.distinct[0]) for job in jobs)
        executions = max(len(job.case.executions) for job in jobs)
        listed = [execution for job in jobs for execution in job.case.executions]
        memories = max(1 + len(e.inner) for e in listed)
        needed = (any(e.dense_rate for e in listed), True, any(e.decode_rate for e in listed), *[True] * memories)
        terms = tuple(term for term, need in enumerate(needed) if need)
        return cls(layers, executions, terms, any(job.case.fixed is not None for job in jobs))

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

    def beside(self, case: Case) -> np.ndarray | None:
        """Time of each layer beside that of its resources [layer, execution] in seconds, none of absent ones."""
        fixed = case.distinct[2]
        return None if fixed is None else np.pad(fixed, ((0, self.layers - len(fixed)), (0, self.executions - fixed.shape[1])))

    def work(self, case: Case) -> tuple[np.ndarray, np.ndarray]:
        """Work [layer, execution, term] and counts [layer]: absent layers take no time, absent executions too much."""
        distinct, count, _ = case.distinct
        layers, executions, terms = distinct.shape
        work = np.zeros((self.layers, self.executions, self.terms[-1] + 1))
        work[:layers, :executions, :terms] = distinct
        work[:layers, executions:, 1] = np.inf
        return work[..., list(self.terms)], np.pad(count, (0, self.layers - layers))

    def rates(self, rates: np.ndarray) -> np.ndarray:
        """Inverse rates [execution, term, ...]; those of absent executions and memories are 1."""
        padding = [(0, self.executions - len(rates)), (0, self.terms[-1] + 1 - rates.shape[1])] + [(0, 0)] * (rates.ndim - 2)
        return np.pad(rates, padding, constant_values=1.0)[:, list(self.terms)]
