"""Refine the best designs of a search: gradient descent on continuous axes, coordinate search on all others.

A design is only replaced by a feasible one that was evaluated and is better.
"""

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import NonlinearConstraint, minimize

from dse.searching.archive import Archive
from dse.searching.categorical_config import CategoricalConfig
from dse.searching.evaluator import Evaluator
from dse.searching.space import DesignMatrix, Space

MAX_ROUNDS = 50
MAX_EVALUATIONS = 1800  # checked after each round
MAX_STARTS = 8  # designs that are refined: the best of each categorical configuration
PAIRED_STEPS = (1, 3, 5)  # maximum steps along two ordered axes at once: more where fewer find nothing better
SINGLE_STEPS = (-16, -8, 8, 16)  # further steps along one ordered axis
FRONT_DESIGNS = 20  # designs of a front whose neighbours are evaluated at once
NUDGES = (0.9, 0.98, 1.02, 1.1)  # factors on a continuous axis, around the designs of a front
LINE_FRACTIONS = np.concatenate([np.linspace(0, 1, 33), 1 - np.geomspace(1e-9, 1e-2, 15)])  # of the way to the optimum by gradients

Design = Float[np.ndarray, "dimension"]
Compiled = Callable[[Any, Any], Any]  # of logarithms and of the variants that run


def refine(archive: Archive) -> None:
    """Refine the best designs of an archive or, with several objectives, its front; all evaluated designs are added to the archive."""
    search = archive.evaluator.problem.search
    if not archive.feasible_count:
        return
    max_evaluated = archive.evaluated_count + MAX_EVALUATIONS
    if len(search.objectives) > 1:
        _refine_front(archive, max_evaluated)
        return
    for start in _select_starts(archive):
        if archive.evaluated_count >= max_evaluated:
            return
        _refine_design(archive, start, max_evaluated, with_gradients=search.robust is None)


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
        archive.evaluate(np.unique(space.canonicalize(np.stack(rows)), axis=0))


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
    """Move from a design to better ones, until none is better.

    The moves have an archive of their own, since the best design of the search may belong to another start.
    """
    local = Archive(archive.evaluator)
    local.evaluate(start[None])
    for _ in range(MAX_ROUNDS):
        before = local.values[local.best_index(), 0]
        if with_gradients:
            follow_gradient(local, local.designs[local.best_index()])
        for steps in PAIRED_STEPS:
            if local.values[local.best_index(), 0] >= before:
                evaluate_neighbours(local, local.designs[local.best_index()], steps)
        if local.values[local.best_index(), 0] >= before or archive.evaluated_count + local.evaluated_count >= max_evaluated:
            break
    archive.merge(local)


def evaluate_neighbours(archive: Archive, design: Design, max_steps: int) -> None:
    space = archive.evaluator.space
    archive.evaluate(np.unique(space.canonicalize(list_neighbours(space, design, max_steps)), axis=0))


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


def follow_gradient(archive: Archive, design: Design) -> None:
    """Evaluate designs on the line to the optimum of the continuous dimensions within the constraints.

    Tabulated dimensions are rounded down to their grid, which leaves some of the constraints unused. So the others are optimised again
    with these fixed.
    """
    space = archive.evaluator.space
    if not space.continuous:
        return
    archive.evaluate(space.canonicalize(_line_to_optimum(archive.evaluator, design, fixed=[])))
    if tabulated := [number for number in space.continuous if space.dimensions[number].grid is not None]:
        best = archive.designs[archive.best_index()]
        archive.evaluate(space.canonicalize(_line_to_optimum(archive.evaluator, best, tabulated)))


def _line_to_optimum(evaluator: Evaluator, design: Design, fixed: list[int]) -> DesignMatrix:
    """Designs on the line to the optimum by sequential quadratic programming, with some dimensions fixed."""
    space = evaluator.space
    low, high = _bounds(space)
    start, lower, upper = np.log(design[space.continuous]), np.log(low), np.log(high)
    inactive = [number for number in space.continuous if not space.dimensions[number].is_active(design[None])[0]]
    is_fixed = np.isin(space.continuous, [*fixed, *inactive])
    lower, upper = np.where(is_fixed, start, lower), np.where(is_fixed, start, upper)
    with jax.enable_x64(True):
        optimum = _minimise(evaluator, design, start, lower, upper)
    if not np.isfinite(optimum).all():
        return design[None]
    line = np.clip(start + LINE_FRACTIONS[:, None] * (optimum - start), lower, upper)
    rows = np.repeat(design[None], len(line), axis=0)
    rows[:, space.continuous] = np.clip(np.exp(line), low, high)
    rows[:, [*fixed, *inactive]] = design[[*fixed, *inactive]]
    return rows


def _bounds(space: Space) -> tuple[Float[np.ndarray, "continuous"], Float[np.ndarray, "continuous"]]:
    ends = np.array([space.dimensions[number].axis.values for number in space.continuous])
    return ends[:, 0], ends[:, 1]


def _minimise(
    evaluator: Evaluator,
    design: Design,
    start: Float[np.ndarray, "continuous"],
    lower: Float[np.ndarray, "continuous"],
    upper: Float[np.ndarray, "continuous"],
) -> Float[np.ndarray, "continuous"]:
    """The logarithms of the continuous dimensions that minimise the objective within the constraints."""
    objective, excess, excess_jacobian = compile_derivatives(evaluator, evaluator.config(design))
    values, choice = evaluator.space.numeric_values(design[None]), variants_of(evaluator, design)
    others = np.log([values[path][0] for path in evaluator.numeric_paths])
    positions = [evaluator.numeric_paths.index(evaluator.space.dimensions[number].path) for number in evaluator.space.continuous]

    def with_others(logarithms: np.ndarray) -> np.ndarray:
        """The logarithms of all numeric dimensions."""
        complete = others.copy()
        complete[positions] = logarithms
        return complete

    scale = abs(float(objective(others, choice)[0])) or 1.0
    constraint = NonlinearConstraint(
        lambda z: np.asarray(excess(with_others(z), choice)),
        -np.inf,
        0.0,
        jac=lambda z: np.asarray(excess_jacobian(with_others(z), choice))[:, positions],  # pyright: ignore[reportArgumentType]
    )
    return minimize(
        lambda z: float(objective(with_others(z), choice)[0]) / scale,
        start,
        jac=lambda z: np.asarray(objective(with_others(z), choice)[1])[positions] / scale,
        bounds=list(zip(lower, upper, strict=True)),
        constraints=[constraint] if evaluator.problem.search.bounds else [],
        method="SLSQP",
        options={"maxiter": 200},
    ).x


def variants_of(evaluator: Evaluator, design: Design) -> Int[np.ndarray, "network"]:
    """The variants that a design runs; zeros where the differentiated function chooses them itself."""
    return (
        np.zeros(len(evaluator.network_slices), int)
        if evaluator.variant_rule.deciding_number
        else evaluator.evaluate_networks(design[None]).choice[:, 0]
    )


@lru_cache(maxsize=MAX_STARTS)
def compile_derivatives(
    evaluator: Evaluator, config: CategoricalConfig
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """The objective with its gradient, the excesses of the constraints, and their Jacobian, for all designs of a configuration.

    They are functions of the logarithms of all numeric dimensions and of the variants that run.
    """
    search, results = evaluator.problem.search, evaluator.differentiable_results(config)
    (objective, sign), *_ = search.objectives

    def excess(logarithms: Any, choice: Any) -> Any:
        combined, each = results(logarithms, choice)
        return jnp.stack([jnp.asarray(evaluator.over_networks.excess(bound, combined, each, jnp), float) for bound in search.bounds])

    value = jax.value_and_grad(lambda logarithms, choice: sign * objective.evaluate(results(logarithms, choice)[0], jnp))
    return jax.jit(value), jax.jit(excess), jax.jit(jax.jacobian(excess))
