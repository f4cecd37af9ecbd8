"""Running a sweep: every design under every network state, in chunks of one compiled function."""

import math
import warnings
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

from dse.model import compaction, fusion
from dse.model.efficiency.constant import unstated
from dse.model.efficiency.fitted import remarks as kernel_remarks
from dse.model.levels import notes
from dse.model.peak import Execution
from dse.schema.model_options import CAPACITY_FIDELITIES
from dse.sweeping import cost, results
from dse.sweeping.job import Job
from dse.sweeping.plan import Plan, check_result_size, list_unused_axes
from dse.sweeping.prepared import Prepared
from dse.sweeping.reduce import stream

SILENT = SimpleNamespace(update=lambda count: None)  # a bar of tqdm holds a lock, which a killed worker leaves behind


class ModelWarning(UserWarning):
    """Something about the results that a reader would not expect."""


def run(plan: Plan, progress: bool = False) -> xr.Dataset:
    """The results of a plan, in memory; raises InputError where they are too large for it."""
    check_result_size(plan)
    prepared = Prepared.of(plan, progress)
    for remark in remarks(prepared):
        warnings.warn(remark, ModelWarning, stacklevel=3)
    whole = plan.spec.keep == "all"
    total = len(prepared.jobs) * plan.rate_grid_size if whole else math.prod(plan.dims.values()) // len(plan.variants)
    with tqdm(total=total, unit=" designs", delay=2, disable=not progress) as bar:
        return evaluate(prepared, bar) if whole else stream.run(prepared, evaluate, bar)


def remarks(prepared: Prepared) -> list[str]:
    """What a reader of the results should know about them."""
    plan = prepared.plan
    return [
        *map(str, list_unused_axes(plan)),
        *_unsupported(prepared.jobs, plan),
        *_notes(plan),
        *_unstated(prepared.jobs, plan),
        *_assumed(plan),
        *_unmeasured(prepared.jobs),
    ]


def evaluate(prepared: Prepared, bar: Any = SILENT) -> xr.Dataset:
    """The results of a sweep, or of a piece of one."""
    plan, energies = prepared.plan, prepared.energies
    arrays = results.Arrays(plan, prepared.resources, prepared.executions, prepared.common.decoders, prepared.kernels)
    with jax.enable_x64(True):
        for job in prepared.jobs:
            spent, least = prepared.times(job.case)
            arrays.put(job, spent)
            if least is not None:
                arrays.put_bound(job, least)
            if plan.has_intervals:
                arrays.put_draws(job, np.stack([prepared.latency(case) for case in job.case.draws or (job.case,)]))
            if energies is not None and not job.baseline:
                arrays.put_energy(job, energies.dynamic(job))
            bar.update(plan.rate_grid_size)
    every = results.every(plan, arrays)
    for name, warning in cost.power_warnings(every, plan).items():
        if name not in prepared.warned:
            prepared.warned.add(name)
            warnings.warn(warning, ModelWarning, stacklevel=4)
    return results.described(every[plan.result_variables], plan)


def _notes(plan: Plan) -> list[str]:
    """Memory levels that do not count, for lack of a number."""
    return (
        list(dict.fromkeys(note for _, design in plan.categorical_designs() for note in notes(design)))
        if plan.spec.model.fidelity in CAPACITY_FIDELITIES
        else []
    )


def _unstated(jobs: tuple[Job, ...], plan: Plan) -> list[str]:
    """Devices that state no efficiency for the fidelity on any of their designs."""
    executions: dict[tuple[str, int], list[Execution]] = {}
    for job in jobs:
        executions.setdefault((job.accelerator.name, job.place["dtype"]), []).extend(job.case.candidates)
    found = (
        unstated(name, (execution.how for execution in some), plan.spec.dtype[n].label, plan.spec.model.fidelity)
        for (name, n), some in executions.items()
    )
    return list(dict.fromkeys(text for texts in found for text in texts))


def _assumed(plan: Plan) -> list[str]:
    """What is assumed about the networks because nothing says which of their layers reads which."""
    each = [note for variant in plan.variants for note in (*compaction.notes(variant), *fusion.notes(variant, plan.spec.model))]
    return list(dict.fromkeys(each))


def _unmeasured(jobs: tuple[Job, ...]) -> list[str]:
    """Executions whose kernels were measured elsewhere, or not at all."""
    return list(dict.fromkeys(remark for job in jobs for remark in kernel_remarks(job.case, job.accelerator.name)))


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
