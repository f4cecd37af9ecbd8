"""A sweep cut into jobs, each a grid over the rate axes that one compiled function evaluates."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dse.model.efficiency.fitted import finished
from dse.model.terms import Case, compulsory_case
from dse.schema.accelerator import Accelerator
from dse.sweeping.plan import Plan
from dse.workload import Variant


@dataclass(frozen=True)
class Job:
    """One network state on one structure of one accelerator: a grid over the rate axes."""

    place: dict[str, int]
    accelerator: Accelerator
    case: Case
    variants: tuple[int, ...]  # where its latency goes
    baseline: bool

    @property
    def cases(self) -> list[Case]:
        """What runs, what no schedule can beat where that is known, and what else measurements allow."""
        return [self.case, *([self.case.least] if self.case.least else []), *self.case.draws]


def job_count(plan: Plan) -> int:
    """How many jobs a plan has."""
    in_turn = math.prod(len(axis) for axis in plan.axes if axis.is_outer_loop)
    states = len(plan.variants) + (len(plan.dense_variants) if plan.needs_dense_latency else 0)
    return len(plan.accelerators) * in_turn * len(plan.spec.batch) * len(plan.spec.dtype) * states


def jobs_of(plan: Plan) -> Iterator[Job]:
    """The dense baselines of each setting first, then the variants."""
    for design, accelerator in plan.categorical_designs():
        capacities = plan.tabulated_designs(accelerator)
        for setting, batch, dtype in plan.batches_and_dtypes():
            place = {**design, **setting}
            for state, numbers, baseline in _states(plan):
                found = compulsory_case(accelerator, state, batch, dtype, plan.spec.model)
                for sizes, sized in capacities:
                    number = place["accelerator"]
                    made = finished(found, sized, state, dtype, plan.spec.model, plan.fitted_kernels[number], plan.accelerators[number])
                    yield Job(place | sizes, sized, made, numbers, baseline)


def _states(plan: Plan) -> Iterator[tuple[Variant, tuple[int, ...], bool]]:
    for name, dense in plan.dense_variants.items() if plan.needs_dense_latency else ():
        yield dense, tuple(n for n, variant in enumerate(plan.variants) if variant.workload == name), True
    for number, variant in enumerate(plan.variants):
        yield variant, (number,), False
