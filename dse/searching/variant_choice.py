"""Which variant of each network a design runs: one for each network, for all objectives and constraints together.

A network reaches the results by two numbers, the latency and the energy of its variant. So where all objectives and constraints are
better with less latency, and energy is not among them, the fastest variant is best in all of them; with energy alone, the one of least
energy. Where both count, the combinations of variants are compared: first by the constraint that is missed most, then by the objectives in
their order, then by latency. Only variants that no other one of the network beats in both numbers are combined.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dse.schema.search import SearchSpec
from dse.searching import monotonicity
from dse.searching.monotonicity import DOWN, EITHER, NONE, Directions

MOST_COMBINATIONS = 4096  # compared one by one; beyond that one network changes at a time, until nothing is better
Scores = Callable[[Int[np.ndarray, "network design"]], Float[np.ndarray, "key design"]]


@dataclass(frozen=True)
class Rule:
    """How the objectives and constraints of a search, all to be small, move with a variant's latency and energy."""

    latency: Directions
    energy: Directions

    @classmethod
    def of(cls, search: SearchSpec) -> "Rule":
        wanted = [
            *(-monotonicity.trend(found) if sign < 0 else monotonicity.trend(found) for found, sign in search.objectives),
            *(-monotonicity.trend(limit.expression) if limit.sign < 0 else monotonicity.trend(limit.expression) for limit in search.bounds),
        ]
        found = monotonicity.together(wanted)
        return cls(found.latency, found.energy)

    @property
    def single(self) -> tuple[str, int] | None:
        """The one number that decides, and 1 if less of it is better; None where variants have to be compared."""
        if self.energy == NONE and self.latency != EITHER:
            return "latency", -1 if self.latency == DOWN else 1
        if self.latency == NONE and self.energy != EITHER:
            return "energy", -1 if self.energy == DOWN else 1
        return None

    def best(self, latency: Any, energy: Any, parts: Sequence[slice], arrays: Any = np) -> Any:
        """The variant of each network [network, design] by the number that decides; the first of equal ones."""
        assert self.single is not None
        name, sign = self.single
        values = latency if name == "latency" else energy
        return arrays.stack([part.start + (sign * values[part]).argmin(axis=0) for part in parts])

    def compared(
        self,
        latency: Float[np.ndarray, "variant design"],
        energy: Float[np.ndarray, "variant design"],
        parts: Sequence[slice],
        scores: Scores,
    ) -> Int[np.ndarray, "network design"]:
        """The variant of each network by the keys of its combination, the first key first."""
        candidates = [part.start + self._undominated(latency[part], energy[part]) for part in parts]
        if math.prod(map(len, candidates)) <= MOST_COMBINATIONS:
            return _first(itertools.product(*candidates), latency.shape[1], scores)
        return _one_at_a_time(candidates, self._start(latency, energy, parts), scores)

    def _undominated(self, latency: np.ndarray, energy: np.ndarray) -> np.ndarray:
        """The variants of one network that, on some design, no other one equals or beats in every number that counts."""
        columns = [
            sign * values
            for values, directions in ((latency, self.latency), (energy, self.energy))
            for sign in sorted(directions, reverse=True)
        ]
        beaten = np.zeros(latency.shape, bool)
        for other in range(len(latency)):
            no_worse = np.all([column[other] <= column for column in columns], axis=0)
            better = np.any([column[other] < column for column in columns], axis=0)
            earlier = np.arange(len(latency))[:, None] > other
            beaten |= no_worse & (better | earlier)
        return np.flatnonzero(~beaten.all(axis=1))

    def _start(self, latency: np.ndarray, energy: np.ndarray, parts: Sequence[slice]) -> np.ndarray:
        values = energy if self.latency == NONE else latency
        return np.stack([part.start + values[part].argmin(axis=0) for part in parts])


def _first(combinations: Any, designs: int, scores: Scores) -> np.ndarray:
    """Of all combinations of variants the one with the least keys [network, design]."""
    best: np.ndarray | None = None
    keys = np.empty(0)
    for combination in combinations:
        choice = np.repeat(np.array(combination)[:, None], designs, axis=1)
        best, keys = (choice, scores(choice)) if best is None else _better(best, keys, choice, scores(choice))
    assert best is not None, "each network has its dense variant"
    return best


def _one_at_a_time(candidates: Sequence[np.ndarray], choice: np.ndarray, scores: Scores) -> np.ndarray:
    """Change the variant of one network after the other while that is better."""
    keys, before = scores(choice), None
    while before is None or (choice != before).any():
        before = choice
        for network, variants in enumerate(candidates):
            for variant in variants:
                changed = choice.copy()
                changed[network] = variant
                choice, keys = _better(choice, keys, changed, scores(changed))
    return choice


def _better(best: np.ndarray, keys: np.ndarray, other: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each design the choice with the lexicographically smaller keys; the first one where all are equal."""
    differs = others != keys
    first = differs.argmax(axis=0)[None]
    less = np.take_along_axis(others < keys, first, axis=0)[0] & differs.any(axis=0)
    return np.where(less, other, best), np.where(less, others, keys)
