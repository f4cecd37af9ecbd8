"""A compiled sweep: what its chunks share, so that none of them assembles terms or compiles again."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dse.base.available_memory import available_bytes
from dse.base.errors import InputError
from dse.base.progress import progress_bar
from dse.model.cost.design import Design
from dse.model.cost.energy import action_energies
from dse.model.efficiency.fitted import kernels_by_execution
from dse.sweeping import provenance
from dse.sweeping.chunk import Chunk, restrict_plan
from dse.sweeping.job import Job, JobNetworks, job_count, jobs_of
from dse.sweeping.job_evaluator import Block, JobEvaluator
from dse.sweeping.kernel_shapes import KernelShapes
from dse.sweeping.linked_axes import changes_energy
from dse.sweeping.plan import Plan

BYTES_PER_JOB = 12_000  # that a job takes besides its arrays, measured on small networks
ARRAYS_PER_JOB = 6  # arrays as large as its work


@dataclass(frozen=True, eq=False)
class CompiledSweep:
    """The jobs of a plan with their evaluators.

    `resources`: names of what can bound a layer of some design; `executions`: names of how one may run; `attributes`: the provenance of the
    results; `block`: the part of the rate axes of the whole sweep that the plan covers.
    """

    plan: Plan
    jobs: tuple[Job, ...]
    evaluators: tuple[JobEvaluator, ...]
    shapes: KernelShapes
    resources: tuple[str, ...]
    executions: tuple[str, ...]
    attributes: Mapping[str, str]
    block: Block
    warned_accelerators: set[str] = field(default_factory=set)  # whose power some chunk has warned of

    @classmethod
    def of_plan(cls, plan: Plan, progress: bool = False) -> "CompiledSweep":
        """Raises InputError where the jobs would take more memory than there is."""
        jobs, total = list[Job](), job_count(plan)
        with progress_bar("preparing", total, progress) as advance:
            for job in jobs_of(plan):
                if not jobs:
                    _check_memory(plan, job, total)
                jobs.append(job)
                advance()
        networks = [JobNetworks.of_job(job, plan) for job in jobs]
        shapes = KernelShapes.of_jobs(jobs, networks, plan)
        evaluators = tuple(JobEvaluator(job, each, shapes, plan) for job, each in zip(jobs, networks, strict=True))
        resources = dict.fromkeys(resource for job in jobs for resource in job.terms.resources)
        executions = dict.fromkeys(execution.name for job in jobs for execution in job.terms.executions)
        block = (slice(None),) * len(plan.rate_axes)
        names, kernels = (tuple(resources), tuple(executions)), _kernel_names(jobs)
        attributes = provenance.attributes(plan) | ({"kernels": json.dumps(kernels)} if kernels else {})
        return cls(plan, tuple(jobs), evaluators, shapes, *names, attributes, block)

    def restrict(self, chunk: Chunk) -> "CompiledSweep":
        """The part of the sweep that one chunk covers, with the names of the whole sweep."""
        numbers = self._jobs_by_setting[_key(chunk.setting)]
        jobs = tuple(replace(self.jobs[number], indices=dict.fromkeys(self.jobs[number].indices, 0)) for number in numbers)
        evaluators = tuple(self.evaluators[number] for number in numbers)
        block = tuple(chunk.region[path] for path in self.plan.rate_axes)
        return replace(self, plan=restrict_plan(self.plan, chunk), jobs=jobs, evaluators=evaluators, block=block)

    def energy(self, job: Job, evaluator: JobEvaluator) -> np.ndarray:
        """Energy of the work [J] over the axes that are not outer loops; of length 1 on an axis on which it does not depend."""
        axes = [axis for axis in self.plan.axes if axis.path not in job.indices]
        accelerator, names = job.accelerator, [axis.path for axis in self.plan.axes]
        varied = [axis for axis in axes if changes_energy(accelerator, axis.path, names)]
        values = np.meshgrid(*(axis.values for axis in varied), indexing="ij")
        base = self.plan.accelerators[job.indices["accelerator"]].base
        replaced = {axis.path: each.ravel() for axis, each in zip(varied, values, strict=True)}
        energies = action_energies(job.terms.executions, Design(accelerator, replaced, base))
        if energies.shape[-1] == 1:  # no axis changes the energy of an operation or of a byte
            at_first = {path: each[0] for path, each in replaced.items()}
            energy = evaluator.energy(self.block, Design(accelerator, at_first, base))
            return energy.reshape([len(axis) if axis.role == "rate" else 1 for axis in axes])
        further = [axis for axis in varied if axis.role != "rate"]
        grid_axes = [*further, *(axis for axis in axes if axis.role == "rate")]
        strides = [math.prod(len(each) for each in varied[varied.index(axis) + 1 :]) if axis in varied else 0 for axis in grid_axes]
        energy = evaluator.varied_energy(self.block, np.asarray(energies), [len(axis) for axis in further], strides)
        in_order = energy.transpose([grid_axes.index(axis) for axis in axes if axis in grid_axes])
        return in_order.reshape([len(axis) if axis in grid_axes else 1 for axis in axes])

    @cached_property
    def _jobs_by_setting(self) -> dict[frozenset[tuple[str, int]], list[int]]:
        """Numbers of the jobs of each assignment of the outer-loop axes."""
        numbers: dict[frozenset[tuple[str, int]], list[int]] = {}
        for number, job in enumerate(self.jobs):
            numbers.setdefault(_key(job.indices), []).append(number)
        return numbers


def _key(indices: Mapping[str, int]) -> frozenset[tuple[str, int]]:
    return frozenset(indices.items())


def _check_memory(plan: Plan, job: Job, total: int) -> None:
    """Raises InputError where jobs as large as this one would take more memory than there is."""
    copies = len(job.terms.slowed_work) + (job.terms.traffic_bound is not None)
    size = total * (BYTES_PER_JOB + ARRAYS_PER_JOB * copies * job.terms.work.nbytes)
    if size > available_bytes():
        counts = {name: plan.dims[name] for name in ("accelerator", "batch", "dtype", "variant")}
        counts |= {axis.path: len(axis) for axis in plan.axes if axis.is_outer_loop}
        largest = max(counts, key=lambda name: counts[name])
        what = f"{total} combinations of variants and outer-loop axes would take about {size / 1e9:.3g} GB to prepare"
        fix = f"there are {available_bytes() / 1e9:.3g} GB: write fewer of the {counts[largest]} values of '{largest}', or several sweeps"
        raise InputError.from_problems([plan.document.make_problem(("axes", largest) if "." in largest else (), what, fix)])


def _kernel_names(jobs: Sequence[Job]) -> dict[str, dict[str, list[str]]]:
    """The fitted kernels that some layer may take, by accelerator and execution."""
    names: dict[str, dict[str, list[str]]] = {}
    for job in jobs:
        for execution, used in kernels_by_execution(job.terms).items():
            by_execution = names.setdefault(job.accelerator.name, {})
            by_execution[execution] = sorted({*by_execution.get(execution, []), *used})
    return names
