"""Running a sweep: every design under every network state, in chunks of one compiled function."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

from dse.accelerator import Accelerator
from dse.explore import plan as plans
from dse.explore import results
from dse.explore.plan import Plan
from dse.model import roofline
from dse.model.equation import TERMS, Case, case, inverse_rates

CHUNK = 32768  # designs evaluated at once: their rates and sums stay in the cache


class ModelWarning(UserWarning):
    """Something about the results that a reader would not expect."""


@dataclass(frozen=True)
class Job:
    """One network state on one structure of one accelerator: a grid over the rate axes."""

    place: dict[str, int]
    accelerator: Accelerator
    case: Case
    variants: tuple[int, ...]  # where its latency goes
    baseline: bool


def sweep(spec: str | Path, out: str | Path | None = None) -> xr.Dataset:
    """Evaluate a sweep specification, by name or path; write netCDF to `out` if given.

    Returns a dataset with dims accelerator, one per axis, batch, dtype, variant (and resource, execution), in SI
    units. Raises BadInput with every problem of every file.
    """
    dataset = run(plans.load(spec))
    if out is not None:
        from dse.explore import store

        store.write(dataset, Path(out))
    return dataset


def run(plan: Plan, progress: bool = False) -> xr.Dataset:
    jobs = list(_jobs(plan))
    for remark in [*map(str, plans.idle_axes(plan)), *_unsupported(jobs, plan)]:
        warnings.warn(remark, ModelWarning, stacklevel=3)
    arrays = results.Arrays(plan, _resources(jobs), _executions(jobs))
    layers = max(len(job.case.layers) for job in jobs)
    width = max(len(job.case.executions) for job in jobs)
    with jax.enable_x64(True), tqdm(total=len(jobs) * _grid_size(plan), unit=" designs", delay=2, disable=not progress) as bar:
        for job in jobs:
            arrays.put(job, _evaluate(job, plan, layers, width, arrays.breakdown, bar))
    return results.dataset(plan, arrays)


def _jobs(plan: Plan) -> Iterator[Job]:
    """The dense baselines of each setting first, then the variants."""
    for design, accelerator in plan.designs():
        for setting, batch, dtype in plan.settings():
            place = {**design, **setting}
            for name, dense in plan.dense.items():
                of_workload = tuple(n for n, variant in enumerate(plan.variants) if variant.workload == name)
                yield Job(place, accelerator, case(accelerator, dense, batch, dtype, plan.spec.model), of_workload, True)
            for number, variant in enumerate(plan.variants):
                yield Job(place, accelerator, case(accelerator, variant, batch, dtype, plan.spec.model), (number,), False)


def _evaluate(job: Job, plan: Plan, layers: int, width: int, breakdown: bool, bar: Any) -> np.ndarray:
    """Spent time of one job over the rate axes: [*rates], or [execution, 2, *rates] with `breakdown`."""
    precision = np.dtype(plan.spec.store.dtype)
    work, count = _padded(job.case, layers, width)
    constant, factors = inverse_rates(job.case.executions, job.accelerator, plan.rate_axes)
    padding = ((0, width - len(constant)), (0, 0))
    constant = np.pad(constant, padding, constant_values=1.0)
    factors = tuple(np.pad(factor, (*padding, (0, 0)), constant_values=1.0).astype(precision) for factor in factors)
    shape = tuple(len(values) for values in plan.rate_axes.values())
    size = _grid_size(plan)
    chunk = min(CHUNK, size)
    spent = np.empty((width, 2, size) if breakdown else (size,), precision)
    arguments = (work.astype(precision), count.astype(precision), constant.astype(precision), factors)
    for start in range(0, size, chunk):
        part = roofline.spent_time(start, *arguments, shape=shape, chunk=chunk, overlap=plan.spec.model.overlap, breakdown=breakdown)
        spent[..., start : start + chunk] = np.asarray(part)[..., : size - start]
        bar.update(min(chunk, size - start))
    return spent.reshape(*spent.shape[:-1], *shape)


def _padded(case: Case, layers: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Work and counts of a size common to all jobs, so that one compilation serves them: absent layers take no
    time, absent executions are never chosen."""
    work = np.zeros((layers, width, TERMS))
    own_layers, own_width, _ = case.work.shape
    work[:own_layers, :own_width] = case.work
    work[:own_layers, own_width:, 1] = np.inf
    return work, np.pad(case.count, (0, layers - own_layers))


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
        if not job.baseline and job.case.unsupported.any():
            dtype = plan.spec.dtype[job.place["dtype"]].label
            pattern = plan.variants[job.variants[0]].pattern
            remark = f"'{job.accelerator.name}' has no enabled run for '{pattern}' in {dtype}: its layers run dense"
            remarks[remark] = None
    return list(remarks)
