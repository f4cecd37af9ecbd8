"""Running a sweep: every design under every network state, in chunks of one compiled function."""

import warnings
from functools import partial
from pathlib import Path

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

from dse.explore import cost, results, store
from dse.explore import plan as plans
from dse.explore.job import Common, Job, jobs_of
from dse.explore.plan import Plan
from dse.model import roofline
from dse.model.equation import Case
from dse.model.levels import notes


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
    for remark in [*map(str, plans.idle_axes(plan)), *_unsupported(jobs, plan), *_notes(plan)]:
        warnings.warn(remark, ModelWarning, stacklevel=3)
    common = Common.of(jobs, plan)
    arrays = results.Arrays(plan, _resources(jobs), _executions(jobs), common.decoders)
    energies = cost.Energies.of(jobs, plan, common)
    with (
        jax.enable_x64(True),
        tqdm(total=len(jobs) * plan.grid_size, unit=" designs", delay=2, disable=not progress) as bar,
    ):
        for job in jobs:
            arrays.put(job, _evaluate(job.case, job, plan, common, arrays.breakdown))
            if job.case.least is not None:
                arrays.put_bound(job, _evaluate(job.case.least, job, plan, common, arrays.breakdown))
            if energies is not None and not job.baseline:
                arrays.put_energy(job, energies.dynamic(job))
            bar.update(plan.grid_size)
    return results.dataset(plan, arrays)


def _evaluate(case: Case, job: Job, plan: Plan, common: Common, breakdown: bool) -> np.ndarray:
    """Spent time of a case at the rates of a job, [*rates] or with `breakdown` [execution, resource, *rates]."""
    fixed = {"compute": common.compute, "overlap": plan.spec.model.overlap, "breakdown": breakdown}
    spent = partial(roofline.spent_time, common.work(case.distinct), **fixed)
    return common.grid(job, plan.rate_axes).evaluated(spent, (common.executions, common.resources) if breakdown else ())


def _notes(plan: Plan) -> list[str]:
    """Memory levels that do not count, for lack of a number."""
    return list(dict.fromkeys(note for _, design in plan.designs() for note in notes(design))) if plan.banded else []


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
