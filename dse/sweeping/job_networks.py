"""The layers of a job as the evaluator takes them: distinct layers with all of their repeats, grouped by the axes that they depend on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dse.model.axis_dependence import LayerGroup, group_layers, single_group
from dse.model.cost.preference import execution_preference
from dse.model.grid import Samples
from dse.model.rates import factored_inverse_rates
from dse.model.roofline import NetworkWork
from dse.model.terms import DistinctLayers, LayerTerms, distinct_layers
from dse.sweeping.job import Job
from dse.sweeping.plan import Plan

LARGE_GRID = 2**22  # designs from which on layers are grouped: every group costs at least one call


@dataclass(frozen=True, eq=False)
class JobNetworks:
    """`latency` and `lower_bound`: the groups whose latencies add up; `samples`: all layers in each sample of the fitted parameters;
    `distinct`: which layers of the terms they are of. None where a sweep does not ask for it."""

    distinct: DistinctLayers
    latency: Sequence[LayerGroup]
    lower_bound: Sequence[LayerGroup] | None
    samples: Samples | None

    @classmethod
    def of_job(cls, job: Job, plan: Plan) -> "JobNetworks":
        ranks = _preference(job, plan) if plan.needs_breakdown else None
        distinct = distinct_layers([job.terms], *([] if ranks is None else [ranks]))
        latency = _groups(network_work(job.terms, distinct, ranks), job, plan)
        lower_bound = None
        if (bound := job.terms.lower_bound) is not None and plan.has_lower_bound:
            lower_bound = _groups(network_work(bound, distinct_layers([bound])), job, plan)
        return cls(distinct, latency, lower_bound, _samples(job.terms, distinct) if plan.has_intervals else None)

    @property
    def summed(self) -> list[NetworkWork]:
        """The networks whose layers are summed, in contrast to looked up."""
        groups = [*self.latency, *(self.lower_bound or ())]
        samples = [] if self.samples is None else [NetworkWork(self.samples.work[0], self.samples.legal, self.samples.overhead[0])]
        return [group.network for group in groups if group.piecewise_linear is None] + samples


def network_work(
    terms: LayerTerms, distinct: DistinctLayers, preference: np.ndarray | None = None, energy: np.ndarray | None = None
) -> NetworkWork:
    """The best estimate of the distinct layers; `preference` and `energy` are [layer, execution], for one instance of each layer."""
    first, count = distinct.first, distinct.count
    overhead = None if terms.overhead is None else terms.overhead[0, first] * count[:, None]
    return NetworkWork(
        terms.slowed_work[0, first] * count[:, None, None],
        terms.legal[first],
        overhead,
        None if energy is None else energy[first] * count[:, None],
        None if preference is None else preference[first],
    )


def _samples(terms: LayerTerms, distinct: DistinctLayers) -> Samples:
    """Every sample but the best estimate, which stands alone where there are no others."""
    assert terms.overhead is not None, "samples come with fitted kernels"
    first, count = distinct.first, distinct.count
    chosen = slice(1, None) if len(terms.slowed_work) > 1 else slice(None)
    work = terms.slowed_work[chosen, first] * count[:, None, None]
    return Samples(work, terms.legal[first], terms.overhead[chosen, first] * count[:, None])


def _groups(network: NetworkWork, job: Job, plan: Plan) -> list[LayerGroup]:
    """Group layers by axes, unless the grid is small, or more than the fastest time is asked for: then nothing may be dropped."""
    if plan.rate_grid_size < LARGE_GRID or plan.needs_breakdown or plan.spec.store.needs_energy:
        return [single_group(network, len(plan.rate_axes))]
    constant, factors = factored_inverse_rates(job.terms.executions, job.accelerator, plan.rate_axes)
    lengths = [len(values) for values in plan.rate_axes.values()]
    return group_layers(network, constant, [factor.extremes for factor in factors], plan.spec.model.resource_overlap, lengths)


def _preference(job: Job, plan: Plan) -> np.ndarray:
    dtype = plan.spec.dtype[job.indices["dtype"]].compute
    return execution_preference(job.terms, job.accelerator, dtype, plan.accelerators[job.indices["accelerator"]])
