"""A sweep made ready: what its pieces share, so that none of them assembles work or compiles again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dse.base.available_memory import available_bytes
from dse.base.errors import InputError
from dse.base.progress import progress_bar
from dse.model.efficiency.fitted import kernels_used
from dse.model.terms import Case
from dse.sweeping.chunk import Chunk, restrict_plan
from dse.sweeping.common import Common
from dse.sweeping.cost import Energies
from dse.sweeping.job import Job, job_count, jobs_of
from dse.sweeping.plan import Plan
from dse.sweeping.results import KernelNames
from dse.sweeping.times import Block, Times

JOB_BYTES = 12_000  # that a job takes beside its arrays, measured on small networks
JOB_ARRAYS = 6  # arrays as large as its work


@dataclass(frozen=True, eq=False)
class Prepared:
    """The jobs of a plan, and what is the same for all of the sweep that it is of: one shape for the arrays of every job, and names.

    `resources`: what can bound a layer of some design; `executions`: how one may run.
    """

    plan: Plan
    jobs: tuple[Job, ...]
    common: Common
    resources: tuple[str, ...]
    executions: tuple[str, ...]
    kernels: KernelNames
    energies: Energies | None
    all_times: Mapping[Case, Times]  # over all of the sweep's grid
    block: Block  # of that grid
    warned: set[str] = field(default_factory=set)  # accelerators whose power was warned of, in any piece

    @classmethod
    def of(cls, plan: Plan, progress: bool = False) -> "Prepared":
        """Raises InputError where the jobs would take more memory than there is."""
        jobs, total = list[Job](), job_count(plan)
        with progress_bar("preparing", total, progress) as advance:
            for job in jobs_of(plan):
                if not jobs:
                    _check_memory(plan, job, total)
                jobs.append(job)
                advance()
        common = Common.of(jobs, plan)
        resources = dict.fromkeys(resource for job in jobs for resource in job.case.resources)
        executions = dict.fromkeys(execution.name for job in jobs for execution in job.case.executions)
        block = (slice(None),) * len(plan.rate_axes)
        times = {case: Times(case, job, plan, common) for job in jobs for case in job.cases}
        energies = Energies.of(jobs, plan, common)
        return cls(plan, tuple(jobs), common, tuple(resources), tuple(executions), _kernels(jobs), energies, times, block)

    def cut(self, piece: Chunk) -> "Prepared":
        """What is left of it for one piece, with the names of the whole sweep."""
        plan = restrict_plan(self.plan, piece)
        jobs = tuple(replace(job, place=dict.fromkeys(job.place, 0)) for job in self._at[_key(piece.setting)])
        block = tuple(piece.region[path] for path in self.plan.rate_axes)
        return replace(self, plan=plan, jobs=jobs, energies=self.energies and replace(self.energies, plan=plan), block=block)

    def times(self, case: Case) -> tuple[np.ndarray, np.ndarray | None]:
        """What a case takes on the designs of the plan, and the least latency where that is known: latencies, or what `Times.spent`
        tells where a breakdown is asked for."""
        if self.plan.needs_breakdown:
            return self.all_times[case].spent(self.block)
        return self.latency(case), None if case.least is None else self.latency(case.least)

    def latency(self, case: Case) -> np.ndarray:
        return self.all_times[case].latency(self.block)

    @cached_property
    def _at(self) -> dict[frozenset[tuple[str, int]], list[Job]]:
        """The jobs of each setting."""
        found: dict[frozenset[tuple[str, int]], list[Job]] = {}
        for job in self.jobs:
            found.setdefault(_key(job.place), []).append(job)
        return found


def _check_memory(plan: Plan, job: Job, total: int) -> None:
    """Raises InputError where jobs as large as this one would take more memory than there is."""
    size = total * (JOB_BYTES + JOB_ARRAYS * sum(case.work.nbytes for case in job.cases))
    if size > available_bytes():
        counts = {name: plan.dims[name] for name in ("accelerator", "batch", "dtype", "variant")}
        counts |= {axis.path: len(axis) for axis in plan.axes if axis.is_outer_loop}
        largest = max(counts, key=lambda name: counts[name])
        what = f"{total} combinations of network states and what changes their work would take about {size / 1e9:.3g} GB to prepare"
        fix = f"there are {available_bytes() / 1e9:.3g} GB: write fewer of the {counts[largest]} values of '{largest}', or several sweeps"
        raise InputError.from_problems([plan.document.make_problem(("axes", largest) if "." in largest else (), what, fix)])


def _kernels(jobs: list[Job]) -> KernelNames:
    """The measured kernels that some layer may take."""
    found: dict[str, dict[str, list[str]]] = {}
    for job in jobs:
        for execution, used in kernels_used(job.case).items():
            by_execution = found.setdefault(job.accelerator.name, {})
            by_execution[execution] = sorted({*by_execution.get(execution, []), *used})
    return found


def _key(place: Mapping[str, int]) -> frozenset[tuple[str, int]]:
    return frozenset(place.items())
