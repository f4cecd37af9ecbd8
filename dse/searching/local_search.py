"""Improving a design that was found: gradients on what is continuous, steps on everything else.

It never makes a design worse, nor breaks a constraint: only what was judged feasible and better is taken.
"""

import itertools
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from scipy.optimize import NonlinearConstraint, minimize

from dse.searching.archive import Archive
from dse.searching.categorical_config import CategoricalConfig
from dse.searching.evaluator import Evaluator
from dse.searching.space import Space

ROUNDS = 50
MOST = 1800  # designs judged, or a round more
STARTS = 8  # designs that are polished: the best of each choice of patterns and switches
REACHES = (1, 3, 5)  # steps along an ordered axis that are tried in pairs: wider where narrower ones find nothing
FRONT, NUDGES = 20, (0.9, 0.98, 1.02, 1.1)  # designs of a front looked around at once; factors on a continuous axis
FAR = (-16, -8, 8, 16)  # steps that are tried alone
SHARES = np.concatenate([np.linspace(0, 1, 33), 1 - np.geomspace(1e-9, 1e-2, 15)])  # of the way to where a gradient leads


def run(archive: Archive) -> None:
    """Polish the best designs of a search, of several objectives the front; what is found on the way is kept too."""
    search = archive.evaluator.problem.search
    if not archive.feasible:
        return
    last = archive.evaluated + MOST
    if len(search.objectives) > 1:
        _spread(archive, last)
        return
    for start in _starts(archive):
        if archive.evaluated >= last:
            return
        _climb(archive, start, last, gradients=search.robust is None)


def _spread(archive: Archive, last: int) -> None:
    """Judge the neighbours of every design on the front that was not looked around yet (Pareto local search, Paquete et al. 2004)."""
    seen: set[bytes] = set()
    while archive.evaluated < last:
        fresh = [point for point in archive.points[archive.front()] if point.tobytes() not in seen][:FRONT]
        if not fresh:
            return
        seen |= {point.tobytes() for point in fresh}
        space = archive.evaluator.space
        around = [row for point in fresh for row in (*neighbours(space, point, 1, pairs=False), *_nudged(space, point))]
        archive.judge(np.unique(space.canonical(np.stack(around)), axis=0))


def _nudged(space: Space, point: np.ndarray) -> np.ndarray:
    """A design with one continuous dimension a little less or more."""
    rows = np.repeat(point[None], len(NUDGES) * len(space.continuous), axis=0)
    for row, (number, factor) in zip(rows, itertools.product(space.continuous, NUDGES), strict=True):
        row[number] = np.clip(row[number] * factor, *space.dimensions[number].axis.values)
    return rows


def _starts(archive: Archive) -> list[np.ndarray]:
    """The best kept design of each structure, the best first."""
    structural = [n for n, d in enumerate(archive.evaluator.space.dimensions) if d.categorical]
    order = np.argsort(archive.values[:, 0], kind="stable")
    _, first = np.unique(archive.points[order][:, structural], axis=0, return_index=True)
    return [archive.points[order[number]] for number in np.sort(first)[:STARTS]]


def _climb(archive: Archive, start: np.ndarray, last: int, gradients: bool) -> None:
    """From a design to better ones, until none is better or `last` designs are judged. On slopes of its own: an Archive keeps the
    best of all, which may be elsewhere."""
    here = Archive(archive.evaluator)
    here.judge(start[None])
    for _ in range(ROUNDS):
        before = here.values[here.best(), 0]
        if gradients:
            slopes(here, here.points[here.best()])
        for reach in REACHES:
            if here.values[here.best(), 0] >= before:
                steps(here, here.points[here.best()], reach)
        if here.values[here.best(), 0] >= before or archive.evaluated + here.evaluated >= last:
            break
    archive.add(here)


def steps(archive: Archive, point: np.ndarray, reach: int) -> None:
    """Judge the neighbours of a design: every other label, steps near and far along every ordered axis, and pairs of the near ones."""
    archive.judge(np.unique(archive.evaluator.space.canonical(neighbours(archive.evaluator.space, point, reach)), axis=0))


def neighbours(space: Space, point: np.ndarray, reach: int, pairs: bool = True) -> np.ndarray:
    moves: list[tuple[int, float, bool]] = []
    for number, dimension in enumerate(space.dimensions):
        if dimension.continuous:
            continue
        here = dimension.chosen(point[number])
        near = range(dimension.choices) if dimension.categorical else [here + step for step in range(-reach, reach + 1)]
        far = [] if dimension.categorical else [here + step for step in FAR]
        known = [(float(to), True) for to in near] + [(float(to), False) for to in far]
        moves += [(number, to, pair) for to, pair in known if to != point[number] and 0 <= to < dimension.choices]
    paired = [(number, to) for number, to, pair in moves if pair and pairs]
    changes = [[(number, to)] for number, to, _ in moves] + [[a, b] for a in paired for b in paired if a[0] < b[0]]
    rows = np.repeat(point[None], len(changes) + 1, axis=0)
    for row, change in zip(rows[1:], changes, strict=True):
        for number, to in change:
            row[number] = to
    return rows


def slopes(archive: Archive, point: np.ndarray) -> None:
    """Follow the gradient on the continuous dimensions within the limits (sequential quadratic programming), then judge the way there;
    capacities are rounded down on it, so what that leaves is then spent on the others."""
    space = archive.evaluator.space
    if not space.continuous:
        return
    archive.judge(space.canonical(_descended(archive.evaluator, point, held=[])))
    if tabulated := [number for number in space.continuous if space.dimensions[number].grid is not None]:
        archive.judge(space.canonical(_descended(archive.evaluator, archive.points[archive.best()], tabulated)))


def _descended(evaluator: Evaluator, point: np.ndarray, held: list[int]) -> np.ndarray:
    """Designs on the line to where the gradient leads, the dimensions `held` left as they are."""
    start, low, high, at = _coordinates(evaluator, point)
    idle = [number for number in evaluator.space.continuous if not evaluator.space.dimensions[number].holds(point[None])[0]]
    held = [*held, *idle]  # and what no condition lets vary
    still = np.isin(evaluator.space.continuous, held)
    low, high = np.where(still, start, low), np.where(still, start, high)
    with jax.enable_x64(True):
        goal, limits = _functions(evaluator, point, at)
        bounded = [NonlinearConstraint(limits[0], -np.inf, 0.0, jac=limits[1])] if evaluator.problem.search.bounds else []
        ends = list(zip(low, high, strict=True))
        found = minimize(goal[0], start, jac=goal[1], bounds=ends, constraints=bounded, method="SLSQP", options={"maxiter": 200})
    if not np.isfinite(found.x).all():
        return point[None]
    way = np.clip(start + SHARES[:, None] * (found.x - start), low, high)
    rows = np.repeat(point[None], len(way), axis=0)
    rows[:, evaluator.space.continuous] = np.clip(np.exp(way), *_ends(evaluator.space))
    rows[:, held] = point[held]
    return rows


def _ends(space: Space) -> tuple[np.ndarray, np.ndarray]:
    ends = np.array([space.dimensions[number].axis.values for number in space.continuous])
    return ends[:, 0], ends[:, 1]


def _coordinates(evaluator: Evaluator, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Logarithms of the continuous dimensions, their ends, and which of the numeric dimensions they are."""
    low, high = _ends(evaluator.space)
    at = [evaluator.numeric.index(evaluator.space.dimensions[number].path) for number in evaluator.space.continuous]
    return np.log(point[evaluator.space.continuous]), np.log(low), np.log(high), at


def _functions(evaluator: Evaluator, point: np.ndarray, at: list[int]) -> tuple[Any, Any]:
    """The objective and the excesses of the limits, each with its derivative, over the continuous logarithms."""
    goal, limits, slope = derivatives(evaluator, evaluator.config(point))
    own, choice = evaluator.space.values(point[None]), variants(evaluator, point)
    fixed = np.log([own[path][0] for path in evaluator.numeric])

    def whole(moving: np.ndarray) -> np.ndarray:
        logarithms = fixed.copy()
        logarithms[at] = moving
        return logarithms

    scale = abs(float(goal(fixed, choice)[0])) or 1.0
    goals = (lambda z: float(goal(whole(z), choice)[0]) / scale, lambda z: np.asarray(goal(whole(z), choice)[1])[at] / scale)
    return goals, (lambda z: np.asarray(limits(whole(z), choice)), lambda z: np.asarray(slope(whole(z), choice))[:, at])


def variants(evaluator: Evaluator, point: np.ndarray) -> np.ndarray:
    """The numbers of the variants that a design runs [network]; any, where the derivatives find them."""
    return np.zeros(len(evaluator.parts), int) if evaluator.rule.single else evaluator.scores(point[None]).choice[:, 0]


@lru_cache(maxsize=STARTS)
def derivatives(evaluator: Evaluator, config: CategoricalConfig) -> tuple[Any, Any, Any]:
    """The objective with its gradient, the excesses of the limits, and their slopes, over the logarithms of all numeric dimensions and
    the variants that run: compiled once for all designs of this structure."""
    import jax.numpy as jnp

    search, results = evaluator.problem.search, evaluator.smooth(config)
    (objective, sign), *_ = search.objectives

    def limits(logarithms: Any, choice: Any) -> Any:
        combined, each = results(logarithms, choice)
        return jnp.stack([jnp.asarray(evaluator.networks.excess(limit, combined, each, jnp), float) for limit in search.bounds])

    goal = jax.value_and_grad(lambda logarithms, choice: sign * objective.evaluate(results(logarithms, choice)[0], jnp))
    return jax.jit(goal), jax.jit(limits), jax.jit(jax.jacobian(limits))
