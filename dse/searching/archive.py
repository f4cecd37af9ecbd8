"""The archive of a search: the feasible designs of the front and the best ones, and how near the others came to feasible."""

from dataclasses import dataclass, field

import numpy as np

from dse.base.errors import InfeasibleError
from dse.searching.evaluator import Evaluator
from dse.searching.simplicity import complexity
from dse.searching.space import Points
from dse.sweeping.pareto_front import nondominated

KEPT = 1000  # best designs remembered beside the front
MOST_TIED = 100_000  # designs that are equal in all objectives are counted up to so many


@dataclass(eq=False)
class Archive:
    """Designs evaluated so far, kept if feasible and either on the front or among the best in the first objective.

    The front is that of the objectives and of what the limits are about, so that it shows what a looser limit would buy. A design of
    which an objective or a constraint has no finite value is infeasible; `undefined` counts those by the text of the expression.
    """

    evaluator: Evaluator
    points: Points = field(init=False)
    values: np.ndarray = field(init=False)
    evaluated: int = 0
    feasible: int = 0
    nearest: np.ndarray | None = None  # excess of each limit at the design that misses least
    least: np.ndarray | None = None  # the least excess of each limit on its own
    history: list[tuple[int, np.ndarray]] = field(default_factory=list)  # evaluations so far, values of the front then
    undefined: dict[str, int] = field(default_factory=dict)
    tied: np.ndarray = field(init=False)  # distinct designs evaluated that are equal to the best one in all objectives

    def __post_init__(self) -> None:
        self.points = np.empty((0, len(self.evaluator.space.dimensions)))
        self.values = np.empty((0, len(self.columns)))
        self.tied = self.points

    @property
    def columns(self) -> list[str]:
        """What `values` are: the objectives, then what the limits are about, all to be minimised."""
        search = self.evaluator.problem.search
        return list(dict.fromkeys([*(str(found) for found, _ in search.objectives), *(str(limit.expression) for limit in search.bounds)]))

    @property
    def signs(self) -> np.ndarray:
        search = self.evaluator.problem.search
        known = {str(limit.expression): limit.sign for limit in search.bounds} | {str(found): sign for found, sign in search.objectives}
        return np.array([known[name] for name in self.columns])

    def judge(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate a batch and keep the best of it; returns objectives and excesses as `Evaluator.objectives` does."""
        objectives, excess = self.evaluator.objectives(points)
        self.take(points, objectives, excess)
        return objectives, excess

    def take(self, points: Points, objectives: np.ndarray, excess: np.ndarray) -> None:
        self.evaluated += len(points)
        if len(points) and excess.shape[1]:
            self._remember_misses(excess)
        self._count_undefined(objectives, excess)
        meets = (excess <= 0).all(axis=1) & np.isfinite(objectives).all(axis=1)
        self.feasible += int(meets.sum())
        if meets.any():
            self._count_ties(points[meets], objectives[meets])
            self._keep(points[meets], self._with_limits(objectives[meets], excess[meets]))
        self.history.append((self.evaluated, self.values[self.front()]))

    def _count_undefined(self, objectives: np.ndarray, excess: np.ndarray) -> None:
        search = self.evaluator.problem.search
        texts = [*(str(found) for found, _ in search.objectives), *(str(limit) for limit in search.bounds)]
        counts = (~np.isfinite(np.concatenate([objectives, excess], axis=1))).sum(axis=0)
        for text, count in zip(texts, counts, strict=True):
            if count:
                self.undefined[text] = self.undefined.get(text, 0) + int(count)

    def _count_ties(self, points: Points, objectives: np.ndarray) -> None:
        """Remember the designs that are equal to the best one in all objectives; the best: the least in the first objective, then in the
        next ones."""
        least = objectives[np.lexsort(objectives.T[::-1])[0]]
        known = self.values[self.best(), : len(least)] if len(self.values) else None
        if known is not None and tuple(known) < tuple(least):
            return
        equal = points[(objectives == least).all(axis=1)]
        before = self.tied if known is not None and (known == least).all() else self.tied[:0]
        self.tied = np.unique(np.concatenate([before, equal]), axis=0)[:MOST_TIED]

    def add(self, other: "Archive") -> None:
        """Take in what another one of the same designs kept."""
        self.evaluated, self.feasible = self.evaluated + other.evaluated, self.feasible + other.feasible
        for text, count in other.undefined.items():
            self.undefined[text] = self.undefined.get(text, 0) + count
        if len(other.points):
            number = len(self.evaluator.problem.search.objectives)
            self._count_ties(other.tied, np.repeat(other.values[[other.best()], :number], len(other.tied), axis=0))
            self._keep(other.points, other.values)
        self.history.append((self.evaluated, self.values[self.front()]))

    def _with_limits(self, objectives: np.ndarray, excess: np.ndarray) -> np.ndarray:
        """The values of `columns`: what a limit is about follows from its excess."""
        search = self.evaluator.problem.search
        named = {str(found): objectives[:, n] for n, (found, _) in enumerate(search.objectives)}
        for number, limit in enumerate(search.bounds):
            own = limit.sign * excess[:, number] * abs(limit.bound) + limit.bound
            named.setdefault(str(limit.expression), limit.sign * own)
        return np.stack([named[name] for name in self.columns], axis=1)

    def _keep(self, points: Points, values: np.ndarray) -> None:
        if len(points) > 4 * KEPT:  # most of a large batch is neither
            chosen = nondominated(values) | self._among_best(points, values)
            points, values = points[chosen], values[chosen]
        points, values = np.concatenate([self.points, points]), np.concatenate([self.values, values])
        _, first = np.unique(points, axis=0, return_index=True)
        points, values = points[np.sort(first)], values[np.sort(first)]
        kept = nondominated(values) | self._among_best(points, values)
        self.points, self.values = points[kept], values[kept]

    def _among_best(self, points: Points, values: np.ndarray) -> np.ndarray:
        """Which designs are among the `KEPT` best [design]."""
        if len(values) <= KEPT:
            return np.ones(len(values), bool)
        near = np.flatnonzero(values[:, 0] <= np.partition(values[:, 0], KEPT - 1)[KEPT - 1])
        found = np.zeros(len(values), bool)
        found[near[self._order(points[near], values[near])[:KEPT]]] = True
        return found

    def _order(self, points: Points, values: np.ndarray) -> np.ndarray:
        """Numbers of designs, the best first: by the objectives, then by what the limits are about, of equal ones the simplest."""
        simplest = np.lexsort((*points.T[::-1], *complexity(self.evaluator.space, points).T[::-1]))
        return simplest[np.lexsort(values[simplest].T[::-1])]

    def _remember_misses(self, excess: np.ndarray) -> None:
        worst = excess.max(axis=1)
        nearest = excess[int(worst.argmin())]
        if self.nearest is None or nearest.max() < self.nearest.max():
            self.nearest = nearest
        least = excess.min(axis=0)
        self.least = least if self.least is None else np.minimum(self.least, least)

    def front(self) -> np.ndarray:
        """Numbers of the kept designs that none dominates."""
        return np.flatnonzero(nondominated(self.values)) if len(self.values) else np.empty(0, int)

    def ranked(self) -> np.ndarray:
        """Numbers of the kept designs, the best in the first objective first, ties by the other ones, by the limits, then the simplest."""
        return self._order(self.points, self.values)

    def best(self) -> int:
        """The number of the kept design that is best."""
        equal = np.flatnonzero(self.values[:, 0] == self.values[:, 0].min())
        return int(equal[self._order(self.points[equal], self.values[equal])[0]])

    def replace(self, points: Points, simpler: Points) -> None:
        """Put equivalent designs in the place of kept ones."""
        objectives, excess = self.evaluator.objectives(simpler)
        values = self._with_limits(objectives, excess)
        gone = {point.tobytes() for point in points}
        left = np.array([point.tobytes() not in gone for point in self.points], bool)
        points, values = np.concatenate([simpler, self.points[left]]), np.concatenate([values, self.values[left]])
        _, first = np.unique(points, axis=0, return_index=True)
        self.points, self.values = points[np.sort(first)], values[np.sort(first)]

    def check(self) -> None:
        """Raises InfeasibleError if no design meets every constraint and has finite objectives."""
        if self.feasible:
            return
        if everywhere := [text for text, count in self.undefined.items() if count == self.evaluated]:
            raise InfeasibleError(f"no feasible design among {self.evaluated}: '{everywhere[0]}' is a finite number at none of them")
        if self.nearest is None or not np.isfinite(self.nearest).all() or self.nearest.max() <= 0:
            texts = ", ".join(f"'{text}' at {count}" for text, count in self.undefined.items())
            raise InfeasibleError(f"no feasible design among {self.evaluated}: not a finite number are {texts}")
        limits = self.evaluator.problem.search.bounds
        assert self.least is not None, "known with the nearest"
        hardest = int(self.nearest.argmax())
        what = f"no feasible design among {self.evaluated}: '{limits[hardest]}' is hardest to meet"
        alone = f"at best it is missed by {self.least[hardest]:.3g} of its bound" if self.least[hardest] > 0 else "alone it can be met"
        raise InfeasibleError(f"{what}, and missed by {100 * self.nearest[hardest]:.3g}% where all are met best; {alone}")
