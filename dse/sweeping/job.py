"""The jobs of a sweep: one variant on one assignment of the outer-loop axes, to be evaluated on the grid of all rate axes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dse.model.network_terms import complete_terms, efficiency_of
from dse.model.terms import LayerTerms, compulsory_terms
from dse.schema.accelerator import Accelerator
from dse.sweeping.plan import Plan
from dse.workload import Variant


@dataclass(frozen=True)
class Job:
    """One job of a sweep. `indices`: its position on each outer-loop dimension; `variants`: indices of the variants that it evaluates.

    The job of a dense baseline (`is_dense_baseline`) belongs to all variants of its workload.
    """

    indices: dict[str, int]
    accelerator: Accelerator
    terms: LayerTerms
    variants: tuple[int, ...]
    is_dense_baseline: bool


def job_count(plan: Plan) -> int:
    """How many jobs a plan has."""
    assignments = math.prod(len(axis) for axis in plan.axes if axis.is_outer_loop)
    variants = len(plan.variants) + (len(plan.dense_variants) if plan.needs_dense_latency else 0)
    return len(plan.accelerators) * assignments * len(plan.spec.batch) * len(plan.spec.dtype) * variants


def jobs_of(plan: Plan) -> Iterator[Job]:
    """All jobs of a plan; of each setting the dense baselines come first."""
    options = plan.spec.model
    for design, categorical in plan.categorical_designs():
        number = design["accelerator"]
        efficiency = efficiency_of(options, plan.fitted_kernels[number], plan.accelerators[number], plan.has_intervals)
        tabulated = plan.tabulated_designs(categorical)
        for setting, batch, dtype in plan.batches_and_dtypes():
            for variant, numbers, is_dense_baseline in _variants(plan):
                compulsory = compulsory_terms(categorical, variant, batch, dtype, options)
                for indices, accelerator in tabulated:
                    terms = complete_terms(compulsory, accelerator, variant, dtype, options, efficiency)
                    yield Job({**design, **setting, **indices}, accelerator, terms, numbers, is_dense_baseline)


def _variants(plan: Plan) -> Iterator[tuple[Variant, tuple[int, ...], bool]]:
    for name, dense in plan.dense_variants.items() if plan.needs_dense_latency else ():
        yield dense, tuple(number for number, variant in enumerate(plan.variants) if variant.workload == name), True
    for number, variant in enumerate(plan.variants):
        yield variant, (number,), False
