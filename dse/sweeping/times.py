"""The time of a network state on the designs of a job, each part of it on the axes that it depends on."""

import math
from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np

from dse.model import piecewise_linear, roofline
from dse.model.axis_dependence import LayerGroup
from dse.model.piecewise_linear import Table
from dse.model.terms import Case, rate_factors
from dse.sweeping.common import Common
from dse.sweeping.job import Job
from dse.sweeping.plan import Plan

TABLE = 2**24  # designs of a part that are kept, at most

Block = Sequence[slice]  # of each rate axis


class Times:
    """Of one case at the rates of a job, over all of a sweep's grid; what is worked out of its parts serves any block of it."""

    def __init__(self, case: Case, job: Job, plan: Plan, common: Common):
        self.common, self.parts, self.least = common, common.parts[case], case.least
        self.constant, self.factors = rate_factors(case.executions, job.accelerator, plan.rate_axes)
        self.options = {"compute": common.compute, "overlap": plan.spec.model.resource_overlap}
        self.whole = (slice(None),) * len(self.factors)

    def spent(self, block: Block) -> tuple[np.ndarray, np.ndarray | None]:
        """Time [execution, resource, *rates] in each execution while bound by each resource, on each design of a block; and the least
        latency [*rates], where that is known."""
        (everything,), shape = self.parts, (self.common.executions, self.common.resources)
        ranks = {} if everything.preference is None else {"preference": self.common.ranks(everything.preference)}
        if self.least is None:
            return self._evaluated(everything, block, shape, breakdown=True, **ranks), None
        least = self.common.work(self.common.parts[self.least][0].work)
        both = self._evaluated(everything, block, (math.prod(shape) + 1,), breakdown=True, least=least, **ranks)
        return both[:-1].reshape((*shape, *both.shape[1:])), both[-1]

    def latency(self, block: Block) -> np.ndarray:
        """Latency [*rates] of each design of a block."""
        found = [self._spread(part, block) for part in self.parts]
        total = np.broadcast_to(found[0], np.broadcast_shapes(*(value.shape for value in found))).copy()
        for value in found[1:]:
            total += value
        return np.broadcast_to(total, [factor.values[at].size for factor, at in zip(self.factors, block, strict=True)])

    def _spread(self, part: LayerGroup, block: Block) -> np.ndarray:
        """The latency of a part, with axes of length 1 where it depends on none."""
        kept = self.tables.get(part)
        value = self._latency(part, block) if kept is None else kept[tuple(block[axis] for axis in part.axes)]
        return np.expand_dims(value, [axis for axis in range(len(block)) if axis not in part.axes])

    @cached_property
    def tables(self) -> dict[LayerGroup, np.ndarray]:
        """The latency of each part that doesn't depend on all axes, on all of the axes that it does depend on."""
        small = [part for part in self.parts if len(part.axes) < len(self.factors) and math.prod(self._sizes(part)) <= TABLE]
        return {part: self._latency(part, self.whole) for part in small}

    def _latency(self, part: LayerGroup, block: Block) -> np.ndarray:
        return self._evaluated(part, block) if part.lines is None else self._searched(part, block)

    def _searched(self, part: LayerGroup, block: Block) -> np.ndarray:
        executions, terms = zip(*part.rates, strict=True)
        factors = [self.factors[axis].at(block[axis])[executions, terms][None] for axis in part.axes]
        search = partial(piecewise_linear.looked_up, self.searches[part], steps=self.common.steps)
        return self.common.narrow(np.ones((1, 2)), factors, self._sizes(part)).evaluated(search)

    @cached_property
    def searches(self) -> dict[LayerGroup, Table]:
        return {part: part.lines.table(self.common.precision, self.common.lines)[0] for part in self.parts if part.lines}

    def _evaluated(
        self, part: LayerGroup, block: Block, outer: tuple[int, ...] = (), breakdown: bool = False, **more: np.ndarray
    ) -> np.ndarray:
        executions = list(part.executions)
        factors = [self.factors[axis].at(block[axis])[executions] for axis in part.axes]
        spent = partial(
            roofline.spent_time,
            self.common.work(part.work),
            fixed=self.common.beside(part.fixed),
            breakdown=breakdown,
            **self.options,
            **more,
        )
        return self.common.grid(self.constant[executions], factors, self._sizes(part)).evaluated(spent, outer)

    def _sizes(self, part: LayerGroup) -> list[int]:
        return [len(self.factors[axis].values) for axis in part.axes]
