"""Choose the variant of each network that a design runs: one choice for all objectives and constraints together.

A variant changes the results by two numbers, its latency and its energy. If less latency improves all objectives and constraints, and
they do not depend on energy, the fastest variant is the best in all of them; likewise the variant of least energy. Otherwise the
combinations of variants are compared: first by the constraint that is exceeded most, then by the objectives in their order, then by
latency. Variants that another variant of the network beats in both numbers are left out.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from jaxtyping import Float, Int

from dse.base.array_types import ArrayT
from dse.schema.search import SearchSpec
from dse.searching.monotonicity import DOWN, EITHER, NONE, Directions, Trend, expression_trend, joint_trend

MAX_COMBINATIONS = 4096  # that are compared; with more, one network changes at a time, until nothing is better

Choice = Int[np.ndarray, "network design"]
Keys = Float[np.ndarray, "key design"]  # compared in lexicographic order, less is better
VariantResults = Float[np.ndarray, "variant design"]


@dataclass(frozen=True)
class VariantRule:
    """How the objectives and constraints of a search, all to be minimised, change with the latency and the energy of a variant."""

    latency: Directions
    energy: Directions

    @classmethod
    def of(cls, search: SearchSpec) -> "VariantRule":
        signed = [*search.objectives, *((bound.expression, bound.sign) for bound in search.bounds)]
        joint = joint_trend(_signed_trend(expression_trend(expression), sign) for expression, sign in signed)
        return cls(joint.latency, joint.energy)

    @property
    def deciding_number(self) -> tuple[str, int] | None:
        """The number that decides alone, and 1 if less of it is better (otherwise -1); None where combinations have to be compared."""
        if self.energy == NONE and self.latency != EITHER:
            return "latency", -1 if self.latency == DOWN else 1
        if self.latency == NONE and self.energy != EITHER:
            return "energy", -1 if self.energy == DOWN else 1
        return None

    def choose_by_one_number(self, latency: ArrayT, energy: ArrayT | None, parts: Sequence[slice], array_module: ModuleType = np) -> ArrayT:
        """The variant of each network [network, design] by the number that decides alone; of equal ones the first."""
        assert self.deciding_number is not None
        name, sign = self.deciding_number
        values = energy if name == "energy" and energy is not None else latency
        return array_module.stack([part.start + (sign * values[part]).argmin(axis=0) for part in parts])

    def choose_by_comparison(
        self, latency: VariantResults, energy: VariantResults, parts: Sequence[slice], evaluate_keys: Callable[[Choice], Keys]
    ) -> Choice:
        """The variants of the best combination; `parts`: the variants of each network; `evaluate_keys`: of a combination."""
        candidates = [part.start + self._nondominated(latency[part], energy[part]) for part in parts]
        if math.prod(map(len, candidates)) <= MAX_COMBINATIONS:
            return _best_combination(itertools.product(*candidates), latency.shape[1], evaluate_keys)
        deciding = energy if self.latency == NONE else latency
        start = np.stack([part.start + deciding[part].argmin(axis=0) for part in parts])
        return _change_one_network_at_a_time(candidates, start, evaluate_keys)

    def _nondominated(self, latency: VariantResults, energy: VariantResults) -> Int[np.ndarray, "candidate"]:
        """The variants of one network that, on some design, no other one equals or beats in every number that matters."""
        columns = [
            sign * values
            for values, directions in ((latency, self.latency), (energy, self.energy))
            for sign in sorted(directions, reverse=True)
        ]
        is_dominated = np.zeros(latency.shape, bool)
        for other in range(len(latency)):
            no_worse = np.all([column[other] <= column for column in columns], axis=0)
            better = np.any([column[other] < column for column in columns], axis=0)
            is_earlier = np.arange(len(latency))[:, None] > other
            is_dominated |= no_worse & (better | is_earlier)
        return np.flatnonzero(~is_dominated.all(axis=1))


def _signed_trend(trend: Trend, sign: float) -> Trend:
    return -trend if sign < 0 else trend


def _best_combination(combinations: Iterable[tuple[int, ...]], designs: int, evaluate_keys: Callable[[Choice], Keys]) -> Choice:
    """The combination of variants with the smallest keys; of equal ones the first."""
    best: Choice | None = None
    keys = np.empty(0)
    for combination in combinations:
        choice = np.repeat(np.array(combination)[:, None], designs, axis=1)
        if best is None:
            best, keys = choice, evaluate_keys(choice)
        else:
            best, keys = _select_better(best, keys, choice, evaluate_keys(choice))
    assert best is not None, "each network has its dense variant"
    return best


def _change_one_network_at_a_time(candidates: Sequence[np.ndarray], choice: Choice, evaluate_keys: Callable[[Choice], Keys]) -> Choice:
    """Change the variant of one network after the other, until no change is better."""
    keys, before = evaluate_keys(choice), None
    while before is None or (choice != before).any():
        before = choice
        for network, variants in enumerate(candidates):
            for variant in variants:
                changed = choice.copy()
                changed[network] = variant
                choice, keys = _select_better(choice, keys, changed, evaluate_keys(changed))
    return choice


def _select_better(first: Choice, first_keys: Keys, second: Choice, second_keys: Keys) -> tuple[Choice, Keys]:
    """For each design the choice with the lexicographically smaller keys, the first one where all are equal."""
    differs = second_keys != first_keys
    position = differs.argmax(axis=0)[None]
    is_less = np.take_along_axis(second_keys < first_keys, position, axis=0)[0] & differs.any(axis=0)
    return np.where(is_less, second, first), np.where(is_less, second_keys, first_keys)
