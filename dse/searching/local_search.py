"""Refine the best designs of a search: gradient descent on continuous axes, coordinate search on all others.

A design is only replaced by a feasible one that was evaluated and is better.
"""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int
from scipy.optimize import NonlinearConstraint, minimize

from dse.searching.archive import Archive
from dse.searching.categorical_config import CategoricalConfig
from dse.searching.evaluator import Derivatives, Evaluator
from dse.searching.space import DesignMatrix, Space

MAX_ROUNDS = 50
MAX_STARTS = 8  # designs that are refined: the best of each categorical configuration
MIN_SHARE = 100  # of the evaluations, for one start
PAIRED_STEPS = (1, 3, 5)  # maximum steps along two ordered axes at once: more where fewer find nothing better
SINGLE_STEPS = (-16, -8, 8, 16)  # further steps along one ordered axis
FRONT_DESIGNS = 20  # designs of a front whose neighbours are evaluated at once
NUDGES = (0.9, 0.98, 1.02, 1.1)  # factors on a continuous axis, around the designs of a front
LINE_FRACTIONS = np.array(
    [0.25, 0.5, 0.75, 0.9, 0.97, 0.99, 0.999, 1 - 1e-4, 1 - 1e-6, 1 - 1e-8, 1 - 1e-9, 1]
)  # of the way to the optimum by gradients

Design = Float[np.ndarray, "dimension"]


def refine(archive: Archive, max_evaluated: int) -> None:
    """Refine the best designs of an archive or, with several objectives, its front.

    All evaluated designs are added to the archive, until it has `max_evaluated` evaluations, those of derivatives included.
    """
    search = archive.evaluator.problem.search
    if not archive.feasible_count:
        return
    if len(search.objectives) > 1:
        _refine_front(archive, max_evaluated)
        return
    starts = _select_starts(archive)
    for number, start in enumerate(starts):
        remaining = max_evaluated - archive.evaluated_count
        share = min(remaining, max(MIN_SHARE, remaining // (len(starts) - number)))
        if share > 0:
            _refine_design(archive, start, share, with_gradients=search.robust is None)


def _refine_front(archive: Archive, max_evaluated: int) -> None:
    """Evaluate the neighbours of every design on the front and of those that join it (Pareto local search, Paquete et al. 2004)."""
    space, explored = archive.evaluator.space, set[bytes]()
    while archive.evaluated_count < max_evaluated:
        front = archive.designs[archive.front_indices()]
        unexplored = [design for design in front if design.tobytes() not in explored][:FRONT_DESIGNS]
        if not unexplored:
            return
        explored |= {design.tobytes() for design in unexplored}
        rows = [row for design in unexplored for row in (*list_neighbours(space, design, 1, in_pairs=False), *_nudge(space, design))]
        _evaluate_within(archive, np.stack(rows), max_evaluated)


def _evaluate_within(archive: Archive, designs: DesignMatrix, max_evaluated: int) -> None:
    """Evaluate the distinct designs, as many of the first ones as the budget allows."""
    _, first = np.unique(designs := archive.evaluator.space.canonicalize(designs), axis=0, return_index=True)
    selected = np.sort(first)[: max(0, max_evaluated - archive.evaluated_count)]
    if len(selected):
        archive.evaluate(designs[selected])


def _nudge(space: Space, design: Design) -> DesignMatrix:
    """A design with one continuous dimension slightly changed."""
    rows = np.repeat(design[None], len(NUDGES) * len(space.continuous), axis=0)
    for row, (number, factor) in zip(rows, itertools.product(space.continuous, NUDGES), strict=True):
        row[number] = np.clip(row[number] * factor, *space.dimensions[number].axis.values)
    return rows


def _select_starts(archive: Archive) -> list[Design]:
    """The best design in the archive for each categorical configuration, best first."""
    categorical = [number for number, dimension in enumerate(archive.evaluator.space.dimensions) if dimension.categorical]
    order = np.argsort(archive.values[:, 0], kind="stable")
    _, first = np.unique(archive.designs[order][:, categorical], axis=0, return_index=True)
    return [archive.designs[order[number]] for number in np.sort(first)[:MAX_STARTS]]


def _refine_design(archive: Archive, start: Design, max_evaluated: int, with_gradients: bool) -> None:
    """Move from a design to better ones, until none is better, with at most `max_evaluated` evaluations.

    The moves have an archive of their own, since the best design of the search may belong to another start.
    """
    local = Archive(archive.evaluator)
    local.evaluate(start[None])
    for _ in range(MAX_ROUNDS):
        before = local.values[local.best_index(), 0]
        if with_gradients:
            follow_gradient(local, local.designs[local.best_index()], max_evaluated)
        for steps in PAIRED_STEPS:
            if local.values[local.best_index(), 0] >= before:
                evaluate_neighbours(local, local.designs[local.best_index()], steps, max_evaluated)
        if local.values[local.best_index(), 0] >= before or local.evaluated_count >= max_evaluated:
            break
    archive.merge(local)


def evaluate_neighbours(archive: Archive, design: Design, max_steps: int, max_evaluated: int) -> None:
    _evaluate_within(archive, list_neighbours(archive.evaluator.space, design, max_steps), max_evaluated)


def list_neighbours(space: Space, design: Design, max_steps: int, in_pairs: bool = True) -> DesignMatrix:
    """The design itself and its neighbours.

    These have another label of a categorical axis, or are some steps away along an ordered axis (up to `max_steps`, and further ones),
    or differ by two such changes of up to `max_steps` each.
    """
    single = [(number, value) for number in range(len(space.dimensions)) for value in _near_values(space, design, number, max_steps)]
    further = [(number, value) for number in range(len(space.dimensions)) for value in _far_values(space, design, number)]
    pairs = [[a, b] for a in single for b in single if a[0] < b[0]] if in_pairs else []
    changes = [*([change] for change in (*single, *further)), *pairs]
    rows = np.repeat(design[None], len(changes) + 1, axis=0)
    for row, change in zip(rows[1:], changes, strict=True):
        for number, value in change:
            row[number] = value
    return rows


def _near_values(space: Space, design: Design, number: int, max_steps: int) -> list[float]:
    dimension = space.dimensions[number]
    if dimension.continuous:
        return []
    current = dimension.nearest_choice(design[number])
    values = range(dimension.choices) if dimension.categorical else [current + step for step in range(-max_steps, max_steps + 1)]
    return [float(value) for value in values if value != design[number] and 0 <= value < dimension.choices]


def _far_values(space: Space, design: Design, number: int) -> list[float]:
    dimension = space.dimensions[number]
    if dimension.continuous or dimension.categorical:
        return []
    values = [dimension.nearest_choice(design[number]) + step for step in SINGLE_STEPS]
    return [float(value) for value in values if value != design[number] and 0 <= value < dimension.choices]


def follow_gradient(archive: Archive, design: Design, max_evaluated: int) -> None:
    """Evaluate designs on the line to the optimum of the continuous dimensions within the constraints.

    Tabulated dimensions are rounded down to their grid, which leaves some of the constraints unused. So the others are optimised again
    with these fixed.
    """
    space = archive.evaluator.space
    if not space.continuous:
        return
    _evaluate_line_to_optimum(archive, design, [], max_evaluated)
    if tabulated := [number for number in space.continuous if space.dimensions[number].grid is not None]:
        _evaluate_line_to_optimum(archive, archive.designs[archive.best_index()], tabulated, max_evaluated)


def _evaluate_line_to_optimum(archive: Archive, design: Design, fixed: list[int], max_evaluated: int) -> None:
    """Evaluate designs on the line to the optimum by sequential quadratic programming, with some dimensions fixed."""
    space = archive.evaluator.space
    low, high = _bounds(space)
    start, lower, upper = np.log(design[space.continuous]), np.log(low), np.log(high)
    inactive = [number for number in space.continuous if not space.dimensions[number].is_active(design[None])[0]]
    is_fixed = np.isin(space.continuous, [*fixed, *inactive])
    lower, upper = np.where(is_fixed, start, lower), np.where(is_fixed, start, upper)
    max_derivatives = max_evaluated - archive.evaluated_count - len(LINE_FRACTIONS)
    with jax.enable_x64(True):
        optimum, evaluations = _minimise(archive.evaluator, design, (start, lower, upper), max_derivatives)
    archive.evaluated_count += evaluations
    if not np.isfinite(optimum).all():
        return
    line = np.clip(start + LINE_FRACTIONS[:, None] * (optimum - start), lower, upper)
    rows = np.repeat(design[None], len(line), axis=0)
    rows[:, space.continuous] = np.clip(np.exp(line), low, high)
    rows[:, [*fixed, *inactive]] = design[[*fixed, *inactive]]
    _evaluate_within(archive, rows[::-1], max_evaluated)


def _bounds(space: Space) -> tuple[Float[np.ndarray, "continuous"], Float[np.ndarray, "continuous"]]:
    ends = np.array([space.dimensions[number].axis.values for number in space.continuous])
    return ends[:, 0], ends[:, 1]


class _BudgetExhaustedError(Exception):
    """Ends an optimisation."""


@dataclass(eq=False)
class _Derivatives:
    """Objective and excesses with their derivatives, as functions of the logarithms of the continuous dimensions of one design.

    `evaluations` counts a point once for its values and once for the gradient of each of them.
    """

    evaluator: Evaluator
    design: Design
    max_evaluations: int
    evaluations: int = 0

    def __post_init__(self) -> None:
        space = self.evaluator.space
        values = space.numeric_values(self.design[None])
        self._function = compile_derivatives(self.evaluator, self.evaluator.config(self.design))
        self._choice = variants_of(self.evaluator, self.design)
        self._logarithms = np.log([values[path][0] for path in self.evaluator.numeric_paths])
        self._positions = [self.evaluator.numeric_paths.index(space.dimensions[number].path) for number in space.continuous]
        self._points: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def at(self, point: Float[np.ndarray, "continuous"]) -> tuple[Float[np.ndarray, "output"], Float[np.ndarray, "output continuous"]]:
        """Values and Jacobian at a point; raises if the budget is exhausted."""
        if (key := point.tobytes()) not in self._points:
            cost = 2 + len(self.evaluator.problem.search.bounds)
            if self.evaluations + cost > self.max_evaluations:
                raise _BudgetExhaustedError
            self.evaluations += cost
            logarithms = self._logarithms.copy()
            logarithms[self._positions] = point
            values, jacobian = self._function(logarithms, self._choice)
            self._points[key] = np.asarray(values), np.asarray(jacobian)[:, self._positions]
        return self._points[key]

    def latest(self, default: np.ndarray) -> Float[np.ndarray, "continuous"]:
        """The point that was evaluated last."""
        return np.frombuffer(list(self._points)[-1]) if self._points else default


def _minimise(
    evaluator: Evaluator,
    design: Design,
    bounds: tuple[Float[np.ndarray, "continuous"], Float[np.ndarray, "continuous"], Float[np.ndarray, "continuous"]],
    max_evaluations: int,
) -> tuple[Float[np.ndarray, "continuous"], int]:
    """The logarithms of the continuous dimensions that minimise the objective within the constraints, and the number of evaluations.

    `bounds`: of these logarithms: where the optimisation begins, the least and the largest ones.
    """
    derivatives, (start, lower, upper) = _Derivatives(evaluator, design, max_evaluations), bounds
    try:
        scale = abs(float(derivatives.at(start)[0][0])) or 1.0
        constraint = NonlinearConstraint(
            lambda z: derivatives.at(z)[0][1:],
            -np.inf,
            0.0,
            jac=lambda z: derivatives.at(z)[1][1:],  # pyright: ignore[reportArgumentType]
        )
        optimum = minimize(
            lambda z: float(derivatives.at(z)[0][0]) / scale,
            start,
            jac=lambda z: derivatives.at(z)[1][0] / scale,
            bounds=list(zip(lower, upper, strict=True)),
            constraints=[constraint] if evaluator.problem.search.bounds else [],
            method="SLSQP",
            options={"maxiter": 200},
        ).x
    except _BudgetExhaustedError:
        optimum = derivatives.latest(start)
    return optimum, derivatives.evaluations


def variants_of(evaluator: Evaluator, design: Design) -> Int[np.ndarray, "network"]:
    """The variants that a design runs; zeros where the differentiated function chooses them itself."""
    return (
        np.zeros(len(evaluator.networks.slices), int)
        if evaluator.networks.rule.deciding_number
        else evaluator.evaluate_networks(design[None]).choice[:, 0]
    )


def compile_derivatives(evaluator: Evaluator, config: CategoricalConfig) -> Derivatives:
    """The first objective and the excess of each constraint, with their Jacobian, for all designs of a configuration.

    A function of the logarithms of all numeric dimensions and of the variants that run, compiled once for each configuration.
    """
    if config not in evaluator.derivatives:
        evaluator.derivatives[config] = _compile_derivatives(evaluator, config)
    return evaluator.derivatives[config]


def _compile_derivatives(evaluator: Evaluator, config: CategoricalConfig) -> Derivatives:
    search, results = evaluator.problem.search, evaluator.differentiable_results(config)
    (objective, sign), *_ = search.objectives

    def outputs(logarithms: Array, choice: Array) -> tuple[Array, Array]:
        combined, each = results(logarithms, choice)
        excess = [evaluator.networks.over_networks.excess(bound, combined, each, jnp) for bound in search.bounds]
        values = jnp.stack([jnp.asarray(value, float) for value in (sign * objective.evaluate(combined, jnp), *excess)])
        return values, values

    def values_and_jacobian(logarithms: Array, choice: Array) -> tuple[Array, Array]:
        jacobian, values = jax.jacrev(outputs, has_aux=True)(logarithms, choice)
        return values, jacobian

    return jax.jit(values_and_jacobian)
