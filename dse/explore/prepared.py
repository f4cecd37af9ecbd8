"""A sweep made ready: what its pieces share, so that none of them assembles work or compiles again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dse.explore.cost import Energies
from dse.explore.job import Common, Job, jobs_of
from dse.explore.piece import Piece, cut
from dse.explore.plan import Plan


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
    energies: Energies | None

    @classmethod
    def of(cls, plan: Plan) -> "Prepared":
        jobs = list(jobs_of(plan))
        common = Common.of(jobs)
        resources = dict.fromkeys(resource for job in jobs for resource in job.case.resources)
        executions = dict.fromkeys(execution.name for job in jobs for execution in job.case.executions)
        return cls(plan, tuple(jobs), common, tuple(resources), tuple(executions), Energies.of(jobs, plan, common))

    def cut(self, piece: Piece) -> "Prepared":
        """What is left of it for one piece, with the names of the whole sweep."""
        plan = cut(self.plan, piece)
        jobs = tuple(replace(job, place=dict.fromkeys(job.place, 0)) for job in self._at[_key(piece.setting)])
        return replace(self, plan=plan, jobs=jobs, energies=self.energies and replace(self.energies, plan=plan))

    @cached_property
    def _at(self) -> dict[frozenset[tuple[str, int]], list[Job]]:
        """The jobs of each setting."""
        found: dict[frozenset[tuple[str, int]], list[Job]] = {}
        for job in self.jobs:
            found.setdefault(_key(job.place), []).append(job)
        return found


def _key(place: Mapping[str, int]) -> frozenset[tuple[str, int]]:
    return frozenset(place.items())
