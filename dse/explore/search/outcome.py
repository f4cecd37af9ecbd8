"""What a search has found: the feasible designs worth keeping, and how near the others came."""

from dataclasses import dataclass, field

import numpy as np

from dse.errors import InfeasibleError
from dse.explore.front import nondominated
from dse.explore.search.designs import Designs
from dse.explore.search.space import Points

KEPT = 1000  # best designs remembered beside the front


@dataclass(eq=False)
class Outcome:
    """Designs judged so far, kept if feasible and either on the front or among the best in the first objective.

    The front is that of the objectives and of what the limits are about, so that it shows what a looser limit would buy.
    """

    designs: Designs
    points: Points = field(init=False)
    values: np.ndarray = field(init=False)
    evaluated: int = 0
    feasible: int = 0
    nearest: np.ndarray | None = None  # excess of each limit at the design that misses least
    least: np.ndarray | None = None  # the least excess of each limit on its own
    history: list[tuple[int, np.ndarray]] = field(default_factory=list)  # evaluations so far, values of the front then

    def __post_init__(self) -> None:
        self.points = np.empty((0, len(self.designs.space.dimensions)))
        self.values = np.empty((0, len(self.columns)))

    @property
    def columns(self) -> list[str]:
        """What `values` are: the objectives, then what the limits are about, all to be minimised."""
        search = self.designs.question.search
        return list(dict.fromkeys([*(str(found) for found, _ in search.objectives), *(str(limit.expression) for limit in search.limits)]))

    @property
    def signs(self) -> np.ndarray:
        search = self.designs.question.search
        known = {str(limit.expression): limit.sign for limit in search.limits} | {str(found): sign for found, sign in search.objectives}
        return np.array([known[name] for name in self.columns])

    def judge(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Judge a batch and keep what is worth it; returns objectives and excesses as `Designs.objectives` does."""
        objectives, excess = self.designs.objectives(points)
        self.take(points, objectives, excess)
        return objectives, excess

    def take(self, points: Points, objectives: np.ndarray, excess: np.ndarray) -> None:
        self.evaluated += len(points)
        if len(points) and excess.shape[1]:
            self._remember_misses(excess)
        meets = (excess <= 0).all(axis=1)
        self.feasible += int(meets.sum())
        if meets.any():
            self._keep(points[meets], self._with_limits(objectives[meets], excess[meets]))
        self.history.append((self.evaluated, self.values[self.front()]))

    def add(self, other: "Outcome") -> None:
        """Take in what another one of the same designs kept."""
        self.evaluated, self.feasible = self.evaluated + other.evaluated, self.feasible + other.feasible
        if len(other.points):
            self._keep(other.points, other.values)
        self.history.append((self.evaluated, self.values[self.front()]))

    def _with_limits(self, objectives: np.ndarray, excess: np.ndarray) -> np.ndarray:
        """The values of `columns`: what a limit is about follows from its excess."""
        search = self.designs.question.search
        named = {str(found): objectives[:, n] for n, (found, _) in enumerate(search.objectives)}
        for number, limit in enumerate(search.limits):
            own = limit.sign * excess[:, number] * abs(limit.bound) + limit.bound
            named.setdefault(str(limit.expression), limit.sign * own)
        return np.stack([named[name] for name in self.columns], axis=1)

    def _keep(self, points: Points, values: np.ndarray) -> None:
        if len(points) > 4 * KEPT:  # most of a large batch is neither
            chosen = nondominated(values)
            chosen[np.argpartition(values[:, 0], KEPT)[:KEPT]] = True
            points, values = points[chosen], values[chosen]
        points, values = np.concatenate([self.points, points]), np.concatenate([self.values, values])
        _, first = np.unique(points, axis=0, return_index=True)
        points, values = points[np.sort(first)], values[np.sort(first)]
        kept = nondominated(values)
        kept[np.argsort(values[:, 0], kind="stable")[:KEPT]] = True
        self.points, self.values = points[kept], values[kept]

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

    def best(self) -> int:
        """The number of the kept design that is best in the first objective, ties by the others."""
        return int(np.lexsort(self.values.T[::-1])[0])

    def check(self) -> None:
        """Raises InfeasibleError if nothing meets every constraint."""
        if self.feasible:
            return
        limits = self.designs.question.search.limits
        assert self.nearest is not None, "only limits make designs infeasible"
        assert self.least is not None
        hardest = int(self.nearest.argmax())
        what = f"no feasible design among {self.evaluated}: '{limits[hardest]}' is hardest to meet"
        alone = f"at best it is missed by {self.least[hardest]:.3g} of its bound" if self.least[hardest] > 0 else "alone it can be met"
        raise InfeasibleError(f"{what}, and missed by {100 * self.nearest[hardest]:.3g}% where all are met best; {alone}")
