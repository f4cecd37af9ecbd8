"""Running a sweep: every design under every network state, in chunks of one compiled function."""

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

from dse.calibrate.network import remarks
from dse.explore import cost, results, store
from dse.explore import plan as plans
from dse.explore.job import Common, Job, jobs_of
from dse.explore.plan import Plan
from dse.model import roofline
from dse.model.equation import inverse_rates
from dse.model.levels import notes
from dse.model.options import BY_CAPACITY

CHUNK = 65536  # designs evaluated at once, at most: enough to hide the call, few enough for their sums to stay in the cache


class ModelWarning(UserWarning):
    """Something about the results that a reader would not expect."""


def sweep(spec: str | Path, out: str | Path | None = None) -> xr.Dataset:
    """Evaluate a sweep specification, by name or path; write netCDF to `out` if given.

    Returns a dataset with dims accelerator, one per axis, batch, dtype, variant (and resource, execution), in SI
    units. Raises BadInput with every problem of every file.
    """
    plan = plans.load(spec)
    if out is not None:
        store.check_writable(Path(out))
    dataset = run(plan)
    if out is not None:
        store.write(dataset, Path(out))
    return dataset


def run(plan: Plan, progress: bool = False) -> xr.Dataset:
    jobs = list(jobs_of(plan))
    for remark in [*map(str, plans.idle_axes(plan)), *_unsupported(jobs, plan), *_notes(plan), *_unmeasured(jobs)]:
        warnings.warn(remark, ModelWarning, stacklevel=3)
    common = Common.of(jobs)
    arrays = results.Arrays(plan, _resources(jobs), _executions(jobs), common.decoders)
    energies = cost.Energies.of(jobs, plan, common)
    with (
        jax.enable_x64(True),
        tqdm(
            total=sum(1 + plan.sampled * len(job.case.draws) for job in jobs) * _grid_size(plan),
            unit=" designs",
            delay=2,
            disable=not progress,
        ) as bar,
    ):
        for job in jobs:
            spent, least = _evaluate(job, plan, common, arrays.breakdown, bar)
            arrays.put(job, spent)
            if plan.sampled:
                drawn = [replace(job, case=case) for case in job.case.draws or (job.case,)]
                arrays.put_draws(job, np.stack([_evaluate(one, plan, common, False, bar)[0] for one in drawn]))
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
    arrays = (*common.work(job.case), common.rates(constant), tuple(map(common.rates, factors)), least, common.beside(job.case))
    arguments = jax.tree.map(lambda array: array.astype(precision), arrays)
    shape, size = tuple(len(values) for values in plan.rate_axes.values()), _grid_size(plan)
    chunk = math.ceil(size / math.ceil(size / CHUNK))
    fixed = {"shape": shape, "chunk": chunk, "compute": common.compute, "overlap": plan.spec.model.combined, "breakdown": breakdown}
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
    counts = plan.spec.model.fidelity in BY_CAPACITY
    return list(dict.fromkeys(note for _, design in plan.designs() for note in notes(design))) if counts else []


def _unmeasured(jobs: list[Job]) -> list[str]:
    """Executions whose kernels were measured elsewhere, or not at all."""
    calibrated = [job for job in jobs if job.case.kernels is not None]
    return list(dict.fromkeys(remark for job in calibrated for remark in remarks(job.case, job.accelerator.name)))


def _grid_size(plan: Plan) -> int:
    return int(np.prod([len(values) for values in plan.rate_axes.values()], dtype=np.int64))


def _resources(jobs: list[Job]) -> list[str]:
    return list(dict.fromkeys(resource for job in jobs for resource in job.case.resources))


def _executions(jobs: list[Job]) -> list[str]:
    return list(dict.fromkeys(execution.name for job in jobs for execution in job.case.executions))


def _unsupported(jobs: list[Job], plan: Plan) -> list[str]:
    """Pruned layers that run dense because the device lists no run for their pattern."""
    remarks = {}
    for job in jobs:
        if not job.baseline and job.case.unsupported:
            dtype = plan.spec.dtype[job.place["dtype"]].label
            pattern = plan.variants[job.variants[0]].pattern
            remark = f"'{job.accelerator.name}' has no enabled run for '{pattern}' in {dtype}: its layers run dense"
            remarks[remark] = None
    return list(remarks)
