"""The jobs of a sweep, and their layers as the evaluator takes them.

A job is one variant, with those of equal layers, on one assignment of the outer-loop axes, to be evaluated on the grid of all rate axes.
Its proportional layers are merged, and its layers are grouped by the axes that they depend on.

Variants that differ in labels or accuracy only are evaluated once: several methods that prune to the same densities, or one method with
several recipes or tasks, give the same layers.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from dse.model.axis_dependence import LayerGroup, drop_dominated, group_layers, single_group
from dse.model.cost.energy import execution_preference
from dse.model.grid import Samples
from dse.model.merge_layers import LayerMerge, merge_proportional
from dse.model.network_terms import complete_terms, efficiency_of
from dse.model.rates import factored_inverse_rates
from dse.model.roofline import NetworkWork
from dse.model.terms import LayerTerms, compulsory_terms
from dse.networks.layers import LayerArrays
from dse.schema.accelerator import Accelerator
from dse.sweeping.plan import Plan
from dse.workload import Variant

LARGE_GRID = 2**22  # designs from which on layers are grouped: every group costs at least one call
LARGE_SAMPLES = 2**14  # the same of samples: every shape of groups is compiled
LABELS = {
    *("method", "nominal_sparsity", "densities_from", "combined_with", "metric"),
    *("accuracy", "accuracy_low", "accuracy_high", "dense_accuracy", "accuracy_kind", "accuracy_source", "assumed_drop"),
}
"""The fields of a variant on which no latency depends."""


@dataclass(frozen=True)
class Job:
    """One job of a sweep. `indices`: its position on each outer-loop dimension; `variants`: indices of the variants that it evaluates.

    These have equal layers. The job of a dense baseline (`is_dense_baseline`) belongs to all variants of its workload.
    """

    indices: dict[str, int]
    accelerator: Accelerator
    terms: LayerTerms
    variants: tuple[int, ...]
    is_dense_baseline: bool


def job_count(plan: Plan) -> int:
    """How many jobs a plan has."""
    assignments = math.prod(len(axis) for axis in plan.axes if axis.is_outer_loop)
    variants = len(group_equal_variants(plan.variants)) + (len(plan.dense_variants) if plan.needs_dense_latency else 0)
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
    for numbers in group_equal_variants(plan.variants):
        yield plan.variants[numbers[0]], numbers, False


@dataclass(frozen=True, eq=False)
class JobNetworks:
    """The layers of one job, merged and grouped.

    `latency` and `lower_bound`: the groups whose latencies add up; `samples`: groups of layers in each sample of the fitted parameters, and
    on large grids `unpruned_samples`, groups of those layers that are the same in all variants; `merge`: which layers of the terms they are
    of. `lower_bound` and both samples are empty where a sweep does not need them.
    """

    merge: LayerMerge
    latency: Sequence[LayerGroup]
    lower_bound: Sequence[LayerGroup]
    samples: Sequence[Samples]
    unpruned_samples: Sequence[Samples]

    @classmethod
    def of_job(cls, job: Job, plan: Plan) -> "JobNetworks":
        ranks = _preference(job, plan) if plan.needs_breakdown or plan.spec.store.needs_energy else None
        merge = _merge(job.terms, ranks)
        latency = _groups(network_work(job.terms, merge, ranks if plan.needs_breakdown else None), job, plan)
        bound = job.terms.lower_bound if plan.has_lower_bound else None
        lower_bound = [] if bound is None else _groups(network_work(bound, _merge(bound)), job, plan)
        return cls(merge, latency, lower_bound, *(_sample_groups(job, plan) if plan.has_intervals else ([], [])))

    @property
    def summed(self) -> list[NetworkWork]:
        """The networks whose layers are summed, in contrast to looked up."""
        return [group.network for group in (*self.latency, *self.lower_bound) if group.piecewise_linear is None]


def _merge(terms: LayerTerms, ranks: np.ndarray | None = None) -> LayerMerge:
    overhead = None if terms.overhead is None else terms.overhead[:1]
    return merge_proportional(terms.slowed_work[:1], terms.legal, overhead, equal=[] if ranks is None else [ranks])


def network_work(
    terms: LayerTerms, merge: LayerMerge, preference: np.ndarray | None = None, energy: np.ndarray | None = None
) -> NetworkWork:
    """The best estimate of the merged layers; `preference` [layer, execution] and `energy` [layer, execution, ...] are for one instance."""
    count = terms.count[:, None]
    return NetworkWork(
        merge.total(terms.slowed_work[0] * count[:, :, None]),
        terms.legal[merge.first],
        None if terms.overhead is None else merge.total(terms.overhead[0] * count),
        None if energy is None else merge.total(energy * count.reshape(-1, *(1,) * (energy.ndim - 1))),
        None if preference is None else preference[merge.first],
    )


def _sample_groups(job: Job, plan: Plan) -> tuple[list[Samples], list[Samples]]:
    """Every sample of the layers, and of those that no variant prunes, without the best estimate; only that if there are no samples.

    On a large grid, executions that another one beats in every sample are dropped, and layers are grouped by the executions that are left.
    """
    terms, count = job.terms, job.terms.count[:, None]
    assert terms.overhead is not None, "samples come with fitted kernels"
    chosen = slice(1, None) if len(terms.slowed_work) > 1 else slice(None)
    work, overhead, legal = terms.slowed_work[chosen] * count[:, :, None], terms.overhead[chosen] * count, terms.legal
    if plan.rate_grid_size < LARGE_SAMPLES:
        return [_merged_samples(work, overhead, legal, tuple(range(legal.shape[1])))], []
    legal, pruned, unpruned = _undominated(work, overhead, legal, job, plan), list[Samples](), list[Samples]()
    for *mask, is_prunable in np.unique(np.column_stack([legal, terms.layers.prunable]), axis=0):
        layers, executions = (legal == mask).all(axis=1) & (terms.layers.prunable == is_prunable), np.flatnonzero(mask)
        part = work[:, layers][:, :, executions], overhead[:, layers][:, :, executions], legal[layers][:, executions]
        (pruned if is_prunable else unpruned).append(_merged_samples(*part, tuple(executions.tolist())))
    return pruned, unpruned


def _merged_samples(work: np.ndarray, overhead: np.ndarray, legal: np.ndarray, executions: tuple[int, ...]) -> Samples:
    merge = merge_proportional(work, legal, overhead)
    totals = [np.moveaxis(merge.total(np.moveaxis(values, 1, 0)), 1, 0) for values in (work, overhead)]
    return Samples(totals[0], legal[merge.first], totals[1], executions)


def _undominated(work: np.ndarray, overhead: np.ndarray, legal: np.ndarray, job: Job, plan: Plan) -> np.ndarray:
    """Which legal executions [layer, execution] are the fastest on some design in some sample."""
    samples = len(work)
    stacked = NetworkWork(work.reshape(-1, *work.shape[2:]), np.tile(legal, (samples, 1)), overhead.reshape(-1, overhead.shape[2]))
    constant, factors = factored_inverse_rates(job.terms.executions, job.accelerator, plan.rate_axes)
    undominated = drop_dominated(stacked, constant, [factor.extremes for factor in factors], plan.spec.model.resource_overlap)
    return np.any(np.reshape(undominated.legal_mask, (samples, *legal.shape)), axis=0)


def _groups(network: NetworkWork, job: Job, plan: Plan) -> list[LayerGroup]:
    """Group layers by axes; all in one group if the grid is small, or if shares or energies need executions that
    grouping drops."""
    if plan.rate_grid_size < LARGE_GRID or plan.needs_breakdown or plan.spec.store.needs_energy:
        return [single_group(network, len(plan.rate_axes))]
    constant, factors = factored_inverse_rates(job.terms.executions, job.accelerator, plan.rate_axes)
    lengths = [len(values) for values in plan.rate_axes.values()]
    return group_layers(network, constant, [factor.extremes for factor in factors], plan.spec.model.resource_overlap, lengths)


def _preference(job: Job, plan: Plan) -> np.ndarray:
    return execution_preference(job.terms, job.accelerator, plan.accelerators[job.indices["accelerator"]])


def group_equal_variants(variants: Sequence[Variant]) -> list[tuple[int, ...]]:
    """Indices of the variants of each kind of work, in the order of the first of each."""
    groups: dict[Hashable, list[int]] = {}
    for number, variant in enumerate(variants):
        groups.setdefault(_work_key(variant), []).append(number)
    return [tuple(numbers) for numbers in groups.values()]


def _work_key(variant: Variant) -> Hashable:
    """Equal for variants whose layers are stored and executed in the same way."""
    return tuple(_hashable(getattr(variant, field.name)) for field in fields(variant) if field.name not in LABELS)


def _hashable(value: object) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(each)) for key, each in value.items())
    return id(value) if isinstance(value, LayerArrays) else value  # the variants of a workload share their layers
