"""Evaluate a sweep: every design for every network variant, by functions that are compiled once."""

import math
import warnings
from collections.abc import Callable

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

from dse.base.progress import no_progress
from dse.sweeping.model_warnings import ModelWarning, collect_power_warnings, collect_warnings
from dse.sweeping.plan import Plan
from dse.sweeping.plan_checks import check_result_size
from dse.sweeping.prepared import Prepared
from dse.sweeping.reduce import stream
from dse.sweeping.results import ResultArrays, set_attributes


def run_in_memory(plan: Plan, progress: bool = False) -> xr.Dataset:
    """The results of a sweep, or their reduction, in memory; raises InputError where they are too large for it."""
    check_result_size(plan)
    prepared = Prepared.of(plan, progress)
    for text in collect_warnings(prepared):
        warnings.warn(text, ModelWarning, stacklevel=3)
    reduced = plan.spec.keep != "all"
    total = math.prod(plan.dims.values()) // len(plan.variants) if reduced else len(prepared.jobs) * plan.rate_grid_size
    with tqdm(total=total, unit=" designs", delay=2, disable=not progress) as bar:
        return stream.run_reduced(prepared, evaluate, bar.update) if reduced else evaluate(prepared, bar.update)


def evaluate(prepared: Prepared, advance: Callable[[int], object] = no_progress) -> xr.Dataset:
    """The results of a sweep or of one chunk of it; `advance` is called with the number of designs of each job that is done."""
    plan = prepared.plan
    arrays = ResultArrays(plan, prepared.resources, prepared.executions, prepared.common.decoders, prepared.kernels)
    with jax.enable_x64(True):
        for job in prepared.jobs:
            time, lower_bound = prepared.times(job.case)
            arrays.add_latency(job, time)
            if lower_bound is not None:
                arrays.add_lower_bound(job, lower_bound)
            if plan.has_intervals:
                arrays.add_samples(job, np.stack([prepared.latency(case) for case in job.case.draws or (job.case,)]))
            if prepared.energies is not None and not job.baseline:
                arrays.add_energy(job, prepared.energies.dynamic(job))
            advance(plan.rate_grid_size)
    results = arrays.to_dataset()
    for accelerator, text in collect_power_warnings(results, plan).items():
        if accelerator not in prepared.warned:
            prepared.warned.add(accelerator)
            warnings.warn(text, ModelWarning, stacklevel=4)
    return set_attributes(results[plan.result_variables], plan)
