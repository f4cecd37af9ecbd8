"""The archive of a search: the designs of the Pareto front, the best designs, and how close the others came to being feasible."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from dse.base.errors import InfeasibleError, InputError
from dse.searching.evaluator import Evaluator
from dse.searching.simplicity import complexity
from dse.searching.space import DesignMatrix
from dse.sweeping.pareto_front import nondominated, round_to_bits

MAX_BEST = 1000  # designs in the archive besides the front
MAX_NEAREST = 20  # infeasible designs in the archive, until there are feasible ones
MAX_TIED = 100_000  # designs equal to the best one that are counted

Values = Float[np.ndarray, "design value"]
Objectives = Float[np.ndarray, "design objective"]
Excess = Float[np.ndarray, "design constraint"]


@dataclass(eq=False)
class Archive:
    """The feasible designs evaluated so far that are on the Pareto front, or among the best in the first objective.

    `values` holds the objectives, then the results that constraints limit, all to be minimised. The front is that of the objectives; of a
    single objective it is that of all values, so it shows what tighter limits would cost. A design without a finite value of some
    objective or constraint is infeasible.
    """

    evaluator: Evaluator
    designs: DesignMatrix = field(init=False)
    values: Values = field(init=False)
    evaluated_count: int = 0
    feasible_count: int = 0
    nearest_excess: Float[np.ndarray, "constraint"] | None = None  # of the design whose largest excess is least
    least_excess: Float[np.ndarray, "constraint"] | None = None  # of each constraint by itself
    nearest_designs: DesignMatrix = field(init=False)  # infeasible ones, by their largest excess
    history: list[tuple[int, Values]] = field(default_factory=list)  # after each batch: number of evaluations, values of the front
    undefined_counts: dict[str, int] = field(default_factory=dict)  # designs without a finite value, by the text of the expression
    tied_designs: DesignMatrix = field(init=False)  # distinct designs that equal the best one in all objectives
    preferred: Float[np.ndarray, "dimension"] | None = None  # the design that is reported as the best, if that is not the best one itself
    near_tied_count: int = 1  # designs in the archive within the tie tolerance of the best one

    def __post_init__(self) -> None:
        self.designs = np.empty((0, len(self.evaluator.space.dimensions)))
        self.values = np.empty((0, len(self.value_names)))
        self.tied_designs = self.designs
        self.nearest_designs, self._nearest = self.designs, np.empty(0)

    @property
    def value_names(self) -> list[str]:
        """Names of the columns of `values`."""
        search = self.evaluator.problem.search
        limited = [str(constraint.expression) for constraint in search.bounds]
        return list(dict.fromkeys([*(str(objective) for objective, _ in search.objectives), *limited]))

    @property
    def value_signs(self) -> Float[np.ndarray, "value"]:
        """The sign of each column of `values`: -1 where the result is to be maximised."""
        search = self.evaluator.problem.search
        signs = {str(constraint.expression): constraint.sign for constraint in search.bounds}
        signs |= {str(objective): sign for objective, sign in search.objectives}
        return np.array([signs[name] for name in self.value_names])

    @property
    def front_names(self) -> list[str]:
        """Names of the first columns of `values`, between which the front is the trade-off."""
        objectives = len(self.evaluator.problem.search.objectives)
        return self.value_names[:objectives] if objectives > 1 else self.value_names

    @property
    def front_objectives(self) -> list[str]:
        """The names of the front with their directions, as in 'maximize performance'."""
        directions = ("maximize" if sign < 0 else "minimize" for sign in self.value_signs)
        return [f"{direction} {name}" for direction, name in zip(directions, self.front_names, strict=False)]

    def evaluate(self, designs: DesignMatrix) -> tuple[Objectives, Excess]:
        """Evaluate a batch of designs and add it; returns the objectives and excesses of `Evaluator.score`."""
        objectives, excess = self.evaluator.score(designs)
        self.add(designs, objectives, excess)
        return objectives, excess

    def add(self, designs: DesignMatrix, objectives: Objectives, excess: Excess) -> None:
        """Add a batch of evaluated designs."""
        self.evaluated_count += len(designs)
        if len(designs) and excess.shape[1]:
            self._update_least_excess(excess)
        self._count_undefined(objectives, excess)
        is_feasible = (excess <= 0).all(axis=1) & np.isfinite(objectives).all(axis=1)
        self.feasible_count += int(is_feasible.sum())
        if not self.feasible_count:
            self._keep_nearest(designs, excess.max(axis=1, initial=0.0))
        if is_feasible.any():
            self._update_ties(designs[is_feasible], objectives[is_feasible])
            self._keep(designs[is_feasible], self._with_limited_results(objectives[is_feasible], excess[is_feasible]))
        self._record_history()

    def merge(self, other: "Archive") -> None:
        """Add the designs of another archive of the same evaluator."""
        self.evaluated_count, self.feasible_count = (
            self.evaluated_count + other.evaluated_count,
            self.feasible_count + other.feasible_count,
        )
        for text, count in other.undefined_counts.items():
            self.undefined_counts[text] = self.undefined_counts.get(text, 0) + count
        if len(other.designs):
            objectives = other.values[[other.best_index()], : len(self.evaluator.problem.search.objectives)]
            self._update_ties(other.tied_designs, np.repeat(objectives, len(other.tied_designs), axis=0))
            self._keep(other.designs, other.values)
        self._record_history()

    def replace_designs(self, designs: DesignMatrix, replacements: DesignMatrix) -> None:
        """Replace designs in the archive by equivalent ones."""
        objectives, excess = self.evaluator.score(replacements)
        values = self._with_limited_results(objectives, excess)
        if self.preferred is not None and (is_preferred := (designs == self.preferred).all(axis=1)).any():
            self.preferred = replacements[is_preferred][0]
        removed = {design.tobytes() for design in designs}
        others = np.array([design.tobytes() not in removed for design in self.designs], bool)
        designs, values = np.concatenate([replacements, self.designs[others]]), np.concatenate([values, self.values[others]])
        self.designs, self.values = _without_repetitions(designs, values)

    def prefer_cheapest(self) -> None:
        """Report, of the designs within the tie tolerance of the best value of a single objective, the one with least area, then power."""
        search, column = self.evaluator.problem.search, self.values[:, 0]
        rows = np.flatnonzero(column <= column.min() + search.tie_tolerance * abs(column.min()))
        if len(search.objectives) > 1 or not search.tie_tolerance or len(rows) < 2:
            return
        try:
            costs = round_to_bits(self.evaluator.evaluate_costs(self.designs[rows]))
        except InputError:  # the accelerator states no process
            return
        ranking = self._rank(self.designs[rows], np.concatenate([costs, self.values[rows]], axis=1))
        self.preferred, self.near_tied_count = self.designs[rows[ranking[0]]], len(rows)

    def front_indices(self) -> Int[np.ndarray, "front"]:
        """Indices of the designs on the front; of those that are equal in the objectives, the ones with the best limited results."""
        if not len(self.values):
            return np.empty(0, int)
        rows = np.flatnonzero(nondominated(self.values[:, : len(self.front_names)]))
        return rows[nondominated(self.values[rows])]

    def ranking(self) -> Int[np.ndarray, "design"]:
        """Indices of the designs in the archive, best first: by the objectives, then by the limited results, then the simplest."""
        ranking = self._rank(self.designs, self.values)
        return ranking if self.preferred is None else np.concatenate([[first := self.best_index()], ranking[ranking != first]])

    def best_index(self) -> int:
        """Index of the best design in the archive, or of the preferred one."""
        if self.preferred is not None:
            return int(np.flatnonzero((self.designs == self.preferred).all(axis=1))[0])
        candidates = np.flatnonzero(self.values[:, 0] == self.values[:, 0].min())
        return int(candidates[self._rank(self.designs[candidates], self.values[candidates])[0]])

    def check_feasible(self) -> None:
        """Raise InfeasibleError if no design meets every constraint and has finite objectives."""
        if self.feasible_count:
            return
        prefix = f"no feasible design among {self.evaluated_count}"
        if always_undefined := [text for text, count in self.undefined_counts.items() if count == self.evaluated_count]:
            raise InfeasibleError(f"{prefix}: '{always_undefined[0]}' is not a finite number for any of them")
        if self.nearest_excess is None or not np.isfinite(self.nearest_excess).all() or self.nearest_excess.max() <= 0:
            texts = ", ".join(f"'{text}' for {count} of them" for text, count in self.undefined_counts.items())
            raise InfeasibleError(f"{prefix}: not a finite number are {texts}")
        assert self.least_excess is not None, "known with the nearest"
        hardest = int(self.nearest_excess.argmax())
        least, constraint = self.least_excess[hardest], self.evaluator.problem.search.bounds[hardest]
        alone = f"by itself it is exceeded by at least {100 * least:.3g}%" if least > 0 else "by itself it can be met"
        extreme = f"the {'least' if constraint.sign > 0 else 'greatest'} {constraint.expression} of any design"
        raise InfeasibleError(
            f"{prefix}: '{constraint}' is hardest to meet, and exceeded by {100 * self.nearest_excess[hardest]:.3g}% of its bound by the "
            f"design that is closest to meeting all constraints; {alone}: {extreme} is {constraint.value_text(least)}"
        )

    def _record_history(self) -> None:
        self.history.append((self.evaluated_count, self.values[self.front_indices()]))

    def _count_undefined(self, objectives: Objectives, excess: Excess) -> None:
        search = self.evaluator.problem.search
        texts = [*(str(objective) for objective, _ in search.objectives), *map(str, search.bounds)]
        counts = (~np.isfinite(np.concatenate([objectives, excess], axis=1))).sum(axis=0)
        for text, count in zip(texts, counts, strict=True):
            if count:
                self.undefined_counts[text] = self.undefined_counts.get(text, 0) + int(count)

    def _update_ties(self, designs: DesignMatrix, objectives: Objectives) -> None:
        """Keep the designs that equal the best one in all objectives; the best is the first one in lexicographic order."""
        best = objectives[np.lexsort(objectives.T[::-1])[0]]
        previous = self.values[self.best_index(), : len(best)] if len(self.values) else None
        if previous is not None and tuple(previous) < tuple(best):
            return
        tied = designs[(objectives == best).all(axis=1)]
        earlier = self.tied_designs if previous is not None and (previous == best).all() else self.tied_designs[:0]
        self.tied_designs = np.unique(np.concatenate([earlier, tied]), axis=0)[:MAX_TIED]

    def _with_limited_results(self, objectives: Objectives, excess: Excess) -> Values:
        """The columns of `values`: a result that a constraint limits follows from its excess."""
        search = self.evaluator.problem.search
        columns = {str(objective): objectives[:, number] for number, (objective, _) in enumerate(search.objectives)}
        for number, constraint in enumerate(search.bounds):
            result = constraint.sign * excess[:, number] * abs(constraint.bound) + constraint.bound
            columns.setdefault(str(constraint.expression), constraint.sign * result)
        return np.stack([columns[name] for name in self.value_names], axis=1)

    def _keep(self, designs: DesignMatrix, values: Values) -> None:
        """Keep the front and the best of these designs and those already in the archive."""
        if len(designs) > 4 * MAX_BEST:  # most of a large batch is neither
            selected = nondominated(values) | self._are_among_best(designs, values)
            designs, values = designs[selected], values[selected]
        designs, values = _without_repetitions(np.concatenate([self.designs, designs]), np.concatenate([self.values, values]))
        selected = nondominated(values) | self._are_among_best(designs, values)
        self.designs, self.values = designs[selected], values[selected]

    def _are_among_best(self, designs: DesignMatrix, values: Values) -> Bool[np.ndarray, "design"]:
        if len(values) <= MAX_BEST:
            return np.ones(len(values), bool)
        candidates = np.flatnonzero(values[:, 0] <= np.partition(values[:, 0], MAX_BEST - 1)[MAX_BEST - 1])
        among_best = np.zeros(len(values), bool)
        among_best[candidates[self._rank(designs[candidates], values[candidates])[:MAX_BEST]]] = True
        return among_best

    def _rank(self, designs: DesignMatrix, values: Values) -> Int[np.ndarray, "design"]:
        """Indices of designs, best first; of designs with equal values the simplest first."""
        simplest = np.lexsort((*designs.T[::-1], *complexity(self.evaluator.space, designs).T[::-1]))
        return simplest[np.lexsort(values[simplest].T[::-1])]

    def _keep_nearest(self, designs: DesignMatrix, largest_excess: Float[np.ndarray, "design"]) -> None:
        """Keep the designs that come closest to meeting all constraints, among these and those of the archive."""
        designs = np.concatenate([self.nearest_designs, designs])
        largest_excess = np.concatenate([self._nearest, largest_excess])
        order = np.lexsort((*designs.T[::-1], largest_excess))[:MAX_NEAREST]
        self.nearest_designs, self._nearest = designs[order], largest_excess[order]

    def _update_least_excess(self, excess: Excess) -> None:
        nearest, least = excess[int(excess.max(axis=1).argmin())], excess.min(axis=0)
        if self.nearest_excess is None or nearest.max() < self.nearest_excess.max():
            self.nearest_excess = nearest
        self.least_excess = least if self.least_excess is None else np.minimum(self.least_excess, least)


def _without_repetitions(designs: DesignMatrix, values: Values) -> tuple[DesignMatrix, Values]:
    """Each distinct design once, in the order of the first occurrences."""
    _, first = np.unique(designs, axis=0, return_index=True)
    return designs[np.sort(first)], values[np.sort(first)]
