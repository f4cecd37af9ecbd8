"""How sure a time by measured kernels is: the limits of nine tenths of what their parameters leave open, at a few designs.

The variant of each network is the one that it runs by the best parameters; the draws are those of a sweep, the same ones for every kernel,
for the dense network and for the pruned one.
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from dse.model import roofline
from dse.model.efficiency.fitted import case
from dse.model.efficiency.interval import QUANTILES
from dse.model.peak import Execution
from dse.model.terms import DECODE, Case, inverse_rates
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ResourceOverlap
from dse.searching.evaluator import Evaluator
from dse.searching.space import Points
from dse.workload import Variant


@dataclass(frozen=True, eq=False)
class _Draws:
    """A network state: work that would take as long at the speed of light, and what a layer takes beside [s], in each draw."""

    executions: tuple[Execution, ...]
    work: Float[np.ndarray, "term draw layer execution"]
    fixed: Float[np.ndarray, "draw layer execution"]
    count: Float[np.ndarray, "layer"]

    @classmethod
    def of(cls, found: Case) -> "_Draws":
        draws = found.draws or (found,)
        work = np.stack([np.moveaxis(draw.timed, -1, 0) for draw in draws], axis=1)
        return cls(found.executions, work, np.stack([draw.fixed for draw in draws if draw.fixed is not None]), found.count)

    def latency(self, chip: Accelerator, overlap: ResourceOverlap) -> Float[np.ndarray, "draw"]:
        """On a device that differs in rates alone [s]."""
        inverse, _ = inverse_rates(self.executions, chip, {})
        with jax.enable_x64(True):
            time = roofline.layer_time(roofline.seconds(self.work, inverse.T, DECODE), overlap, self.fixed)
            return np.asarray(time).min(axis=-1) @ self.count


def limits(evaluator: Evaluator, points: Points) -> dict[str, np.ndarray]:
    """`latency_low`, `latency_high` and the same of performance and speedup [design]; nothing without measured kernels, or where designs
    are judged by random efficiencies anyway."""
    if not evaluator.problem.kernels or evaluator.problem.search.robust or not len(points):
        return {}
    cases: dict[Any, _Draws] = {}
    base = _drawn(evaluator, None, {name: states[0] for name, states in evaluator.problem.feasible_variants.items()}, cases)
    drawn = [_worth(evaluator, point, base, cases) for point in points]
    ends = {f"{name}_{end}": (name, share) for name in drawn[0] for end, share in QUANTILES.items()}
    return {key: np.array([np.quantile(each[name], share) for each in drawn]) for key, (name, share) in ends.items()}


def _worth(evaluator: Evaluator, point: np.ndarray, base: np.ndarray, cases: dict[Any, _Draws]) -> dict[str, np.ndarray]:
    """The times of one design, and what they are worth, in each draw."""
    chosen = evaluator.chosen(point)
    latency = _drawn(evaluator, point, chosen, cases)
    dense = _drawn(evaluator, point, {name: states[0] for name, states in evaluator.problem.feasible_variants.items()}, cases)
    return {
        name: evaluator.networks.together(name, found)
        for name, found in {"performance": base / latency, "speedup": dense / latency, "latency": latency}.items()
    }


def _drawn(evaluator: Evaluator, point: np.ndarray | None, chosen: dict[str, Variant], cases: dict[Any, _Draws]) -> np.ndarray:
    """Latencies [network, draw] of states on a design, or on the accelerator as described. Designs that differ in rates share a case."""
    asked, space = evaluator.problem, evaluator.space
    chip = space.accelerator if point is None else space.accelerator_at(point)
    key = None if point is None else tuple(point[[not dimension.changes_rates_only for dimension in space.dimensions]])
    for state in chosen.values():
        if (key, state) not in cases:
            made = case(chip, state, asked.batch, asked.dtype, asked.options, asked.kernels, space.accelerator)
            cases[key, state] = _Draws.of(made)
    return np.stack([cases[key, state].latency(chip, asked.options.resource_overlap) for state in chosen.values()])
