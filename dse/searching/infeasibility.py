"""Prove that no design of a space meets the constraints, from bounds by monotonicity.

Area and power increase with every number of a design, and latency decreases with every rate, capacity and gain. So in a box of designs (one
categorical configuration, a range of each numeric dimension) the lower corner has the least area and power, the upper corner the least
latency. A box in which one of them exceeds its limit has no feasible design; other boxes are halved along their longest side (branch and
bound), until all are excluded, a corner is feasible, or `MAX_CORNERS` corners are evaluated.
"""

import ast
import itertools
import math
import re
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from dse.base.errors import InfeasibleError
from dse.base.expression import split_brackets
from dse.schema.search import ResultConstraint
from dse.searching.evaluator import Evaluator
from dse.searching.space import DesignMatrix, Dimension

MAX_CORNERS = 4096  # evaluated before nothing is proved
MAX_CONFIGS = 64  # categorical configurations: the functions of each take a second to compile
MARGINS = (2.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)  # by which constraints that exclude each other are exceeded at least
POSITIONS = 1024  # of a continuous dimension, between which boxes end
INCREASING, DECREASING = ("area", "power"), ("latency",)  # with the numbers of a design
INCREASING_IF_FASTEST = ("performance", "throughput")  # with the numbers of a design, as latency decreases
# Numbers that change area, power or latency in other directions: a higher clock takes fewer multipliers for the same peak.
OTHER_NUMBER = re.compile(r"(cost|overhead)\..*|units\.\w+\.clock|memory\.\w+\.(width|rate)")

LOWER, UPPER = 0, 1  # corners


@dataclass(frozen=True)
class _Boxes:
    """Boxes of designs: for each dimension the index, on its scale, of the least and of the largest value [corner, box, dimension]."""

    ends: Int[np.ndarray, "2 box dimension"]

    @property
    def widths(self) -> Int[np.ndarray, "box dimension"]:
        return self.ends[UPPER] - self.ends[LOWER]

    def halve(self, scales: "list[_Scale]") -> "_Boxes":
        """Both halves of each box along its longest side. Halves share an end where the dimension is continuous."""
        side = (self.widths / [max(len(scale.values) - 1, 1) for scale in scales]).argmax(axis=1)
        rows, middle = np.arange(len(side)), self.ends.sum(axis=0) // 2
        is_discrete = np.array([not scale.continuous for scale in scales])
        first, second = self.ends.copy(), self.ends.copy()
        first[UPPER, rows, side] = middle[rows, side]
        second[LOWER, rows, side] = middle[rows, side] + is_discrete[side]
        return _Boxes(np.concatenate([first, second], axis=1))

    def can_be_halved(self, scales: "list[_Scale]") -> bool:
        """Whether each box has a side with values in between or, where the dimension is not continuous, with two values."""
        return bool((self.widths > [scale.continuous for scale in scales]).any(axis=1).all())


@dataclass(frozen=True)
class _Scale:
    """The values of a dimension, as designs have them, in ascending order; of a continuous one at many positions."""

    values: Float[np.ndarray, "value"]
    continuous: bool

    @classmethod
    def of(cls, dimension: Dimension) -> "_Scale":
        if dimension.continuous:
            return cls(dimension.from_unit(np.linspace(0, 1, POSITIONS)), True)
        order = np.arange(dimension.choices)
        return cls((order if dimension.categorical else np.argsort(dimension.axis.values[: dimension.choices])).astype(float), False)


@dataclass(frozen=True)
class _Proof:
    """`least`: a lower bound of the excess of each constraint over all designs; `excluding`: the constraints that exclude some box."""

    least: Float[np.ndarray, "constraint"]
    excluding: list[int]


def check_infeasibility(evaluator: Evaluator) -> None:
    """Raise InfeasibleError if it is certain that no design meets the constraints; nothing is certain if it does not."""
    bounds = evaluator.problem.search.bounds
    corners = [_corner_of_least_excess(bound, evaluator) for bound in bounds]
    if all(corner is None for corner in corners) or not _is_monotonic(evaluator):
        return
    proof = _prove(evaluator, corners, 0.0)
    if proof is None:
        return
    margin = next(margin for margin in (*MARGINS, 0.0) if margin == 0 or _prove(evaluator, corners, margin))
    raise InfeasibleError(_describe(bounds, proof, margin))


def _prove(evaluator: Evaluator, corners: list[int | None], margin: float) -> _Proof | None:
    """A proof that each design exceeds some constraint by more than `margin`, relative to its bound; None without one."""
    scales, least, excluding, evaluated = [_Scale.of(each) for each in evaluator.space.dimensions], None, set[int](), 0
    boxes = _whole_space(evaluator, scales)
    while boxes.ends.shape[1]:
        evaluated += 2 * boxes.ends.shape[1]
        if evaluated > MAX_CORNERS:
            return None
        excess = np.stack([_excess(evaluator, scales, ends) for ends in boxes.ends])
        if (excess <= margin).all(axis=2).any():
            return None
        bound_excess = _least_excess(excess, corners)
        least = bound_excess.min(axis=0) if least is None else least
        excluding |= set(np.flatnonzero((bound_excess > margin).any(axis=0)).tolist())
        boxes = _Boxes(boxes.ends[:, (bound_excess <= margin).all(axis=1)])
        if not boxes.can_be_halved(scales):
            return None
        boxes = boxes.halve(scales)
    assert least is not None, "a space has designs"
    return _Proof(least, sorted(excluding))


def _corner_of_least_excess(bound: ResultConstraint, evaluator: Evaluator) -> int | None:
    """The corner of a box at which a constraint is exceeded least; None if it is not known."""
    if not isinstance(bound.expression.tree, ast.Name):
        return None
    name = split_brackets(bound.expression.names[0])[0]
    is_fastest = evaluator.networks.rule.deciding_number == ("latency", 1)
    if name in INCREASING or (name in INCREASING_IF_FASTEST and is_fastest):
        return LOWER if bound.sign > 0 else UPPER
    if name in DECREASING and is_fastest:
        return UPPER if bound.sign > 0 else LOWER
    return None


def _is_monotonic(evaluator: Evaluator) -> bool:
    """Whether area, power and latency are known to change in one direction with each number that the search changes."""
    problem, space = evaluator.problem, evaluator.space
    configs = math.prod(dimension.choices for dimension in space.dimensions if dimension.categorical)
    return (
        configs <= MAX_CONFIGS
        and problem.options.fidelity != "calibrated"
        and not space.accelerator.links.formulas
        and not any(OTHER_NUMBER.fullmatch(dimension.path) for dimension in space.dimensions)
    )


def _whole_space(evaluator: Evaluator, scales: list[_Scale]) -> _Boxes:
    """One box for each categorical configuration; dimensions whose condition does not hold have one value."""
    dimensions = evaluator.space.dimensions
    labels = [range(dimension.choices) if dimension.categorical else [0] for dimension in dimensions]
    lower = np.array(list(itertools.product(*labels)))
    numeric = np.array([0 if d.categorical else len(scale.values) - 1 for d, scale in zip(dimensions, scales, strict=True)])
    is_active = np.stack([dimension.is_active(lower.astype(float)) for dimension in dimensions], axis=1)
    return _Boxes(np.stack([lower, lower + numeric * is_active]))


def _excess(evaluator: Evaluator, scales: list[_Scale], indices: Int[np.ndarray, "box dimension"]) -> Float[np.ndarray, "box constraint"]:
    """How far the design at each corner exceeds each constraint."""
    designs: DesignMatrix = np.stack([scale.values[column] for scale, column in zip(scales, indices.T, strict=True)], axis=1)
    return evaluator.score(evaluator.space.canonicalize(designs))[1]


def _least_excess(excess: Float[np.ndarray, "2 box constraint"], corners: list[int | None]) -> Float[np.ndarray, "box constraint"]:
    """The least excess of each constraint in each box; minus infinity where it is not known."""
    columns = [np.full(excess.shape[1], -np.inf) if corner is None else excess[corner, :, n] for n, corner in enumerate(corners)]
    return np.stack(columns, axis=1)


def _describe(bounds: list[ResultConstraint], proof: _Proof, margin: float) -> str:
    """Which constraints cannot be met, and by how far one is exceeded at least."""
    if proof.least.max() > 0:
        hardest = int(proof.least.argmax())
        excess = f"exceeded by at least {100 * proof.least[hardest]:.3g}% of its bound"
        return f"no design is feasible: '{bounds[hardest]}' cannot be met, it is {excess}"
    names = " and ".join(f"'{bounds[number]}'" for number in proof.excluding)
    how_far = f"one of them is exceeded by at least {100 * margin:g}% of its bound" if margin else "though each of them alone can"
    return f"no design is feasible: {names} cannot be met together, {how_far}"
