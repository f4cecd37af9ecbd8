"""Running a sweep: every design under every network state, in chunks of one compiled function."""

import math
import warnings
from typing import Any

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

from dse.explore import plan as plans
from dse.explore import results
from dse.explore.job import Common, Job
from dse.explore.plan import Plan
from dse.explore.prepared import Prepared
from dse.model import roofline
from dse.model.equation import inverse_rates
from dse.model.levels import notes

CHUNK = 65536  # designs evaluated at once, at most: enough to hide the call, few enough for their sums to stay in the cache
SILENT = tqdm(disable=True)


class ModelWarning(UserWarning):
    """Something about the results that a reader would not expect."""


def run(plan: Plan, progress: bool = False) -> xr.Dataset:
    """The results of a plan, in memory; raises BadInput where they are too large for it."""
    plans.check_memory(plan)
    prepared = Prepared.of(plan)
    for remark in remarks(prepared):
        warnings.warn(remark, ModelWarning, stacklevel=3)
    with tqdm(total=len(prepared.jobs) * _grid_size(plan), unit=" designs", delay=2, disable=not progress) as bar:
        return evaluate(prepared, bar)


def remarks(prepared: Prepared) -> list[str]:
    """What a reader of the results should know about them."""
    plan = prepared.plan
    return [*map(str, plans.idle_axes(plan)), *_unsupported(prepared.jobs, plan), *_notes(plan)]


def evaluate(prepared: Prepared, bar: Any = SILENT) -> xr.Dataset:
    """The results of a sweep, or of a piece of one."""
    plan, common, energies = prepared.plan, prepared.common, prepared.energies
    arrays = results.Arrays(plan, prepared.resources, prepared.executions, common.decoders)
    with jax.enable_x64(True):
        for job in prepared.jobs:
            spent, least = _evaluate(job, plan, common, arrays.breakdown, bar)
            arrays.put(job, spent)
            if job.case.least is not None:
                arrays.put_bound(job, least)
            if energies is not None and not job.baseline:
                arrays.put_energy(job, energies.dynamic(job, CHUNK))
    return results.dataset(plan, arrays)


def _evaluate(job: Job, plan: Plan, common: Common, breakdown: bool, bar: Any) -> tuple[np.ndarray, np.ndarray]:
    """Spent time of one job over the rate axes, [*rates] or with `breakdown` [execution, resource, *rates]; what no schedule can beat."""
    precision = np.dtype(plan.spec.store.dtype)
    constant, factors = inverse_rates(job.case.executions, job.accelerator, plan.rate_axes)
    least = common.work(job.case.least) if job.case.least else None
    arrays = (*common.work(job.case), common.rates(constant), tuple(map(common.rates, factors)), least)
    arguments = jax.tree.map(lambda array: array.astype(precision), arrays)
    shape, size = tuple(len(values) for values in plan.rate_axes.values()), _grid_size(plan)
    chunk = math.ceil(size / math.ceil(size / CHUNK))
    fixed = {"shape": shape, "chunk": chunk, "compute": common.compute, "overlap": plan.spec.model.overlap, "breakdown": breakdown}
    spent = np.empty((common.executions, common.resources, size) if breakdown else (size,), precision)
    fastest = np.empty(size if least else 0, precision)
    for start in range(0, size, chunk):
        part, bound = roofline.spent_time(start, *arguments, **fixed)
        spent[..., start : start + chunk] = np.asarray(part)[..., : size - start]
        if bound is not None:
            fastest[start : start + chunk] = np.asarray(bound)[: size - start]
        bar.update(min(chunk, size - start))
    return spent.reshape((*spent.shape[:-1], *shape)), fastest.reshape(shape if least else 0)


def _notes(plan: Plan) -> list[str]:
    """Memory levels that do not count, for lack of a number."""
    return list(dict.fromkeys(note for _, design in plan.designs() for note in notes(design))) if plan.banded else []


def _grid_size(plan: Plan) -> int:
    return int(np.prod([len(values) for values in plan.rate_axes.values()], dtype=np.int64))


def _unsupported(jobs: tuple[Job, ...], plan: Plan) -> list[str]:
    """Pruned layers that run dense because the device lists no run for their pattern."""
    remarks = {}
    for job in jobs:
        if not job.baseline and job.case.unsupported:
            dtype = plan.spec.dtype[job.place["dtype"]].label
            pattern = plan.variants[job.variants[0]].pattern
            remark = f"'{job.accelerator.name}' has no enabled run for '{pattern}' in {dtype}: its layers run dense"
            remarks[remark] = None
    return list(remarks)
