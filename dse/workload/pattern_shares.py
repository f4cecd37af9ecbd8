"""How often each pattern is the best over samples of the accuracies, and whether that decides between them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

DECIDED_SHARE = 0.9  # of the samples: from here on the data decide for a pattern
MIN_LISTED_SHARE = 0.01  # patterns of smaller shares are counted as others
MAX_LISTED = 5  # patterns; the rest are counted as others
TOLERANCE = 1e-9  # of sums of shares


@dataclass(frozen=True)
class PatternShares:
    """The share of the samples in which each pattern is the best, and the pattern that the best estimates choose.

    Examples:
        >>> from dse.workload.pattern_shares import PatternShares
        >>> shares = PatternShares({"dense": 0.05, "1:4": 0.24, "2:8": 0.71}, chosen="2:8")
        >>> print(shares)
        2:8 in 71% of samples, 1:4 in 24%, dense in 5%
        >>> shares.sentence
        'the accuracies cannot decide between 2:8 and 1:4: 2:8 in 71% of samples, 1:4 in 24%, dense in 5%'
    """

    shares: Mapping[str, float]
    chosen: str

    @property
    def chosen_share(self) -> float:
        """Share of the samples in which the chosen pattern stays the best [1]."""
        return self.shares.get(self.chosen, 0.0)

    @property
    def is_decided(self) -> bool:
        """Whether the chosen pattern is the best in at least `DECIDED_SHARE` of the samples."""
        return self.chosen_share >= DECIDED_SHARE - TOLERANCE

    @cached_property
    def ordered(self) -> list[str]:
        """The patterns by descending share; of equal ones the chosen one first, then by name."""
        return sorted(self.shares, key=lambda pattern: (-round(self.shares[pattern], 9), pattern != self.chosen, pattern))

    @property
    def contenders(self) -> list[str]:
        """The fewest patterns that are the best in `DECIDED_SHARE` of the samples together, and the chosen one."""
        contenders, total = list[str](), 0.0
        for pattern in self.ordered:
            if total < DECIDED_SHARE - TOLERANCE or pattern == self.chosen:
                contenders.append(pattern)
            total += self.shares[pattern]
        return contenders

    @property
    def sentence(self) -> str:
        """What the samples say, in one sentence without a full stop."""
        if self.is_decided:
            return f"{self.chosen} stays the best: {self}"
        choice = f" (the best estimates choose {self.chosen})" if self.chosen != self.ordered[0] else ""
        return f"the accuracies cannot decide between {_join(self.contenders)}: {self}{choice}"

    def __str__(self) -> str:
        listed = [pattern for pattern in self.ordered[:MAX_LISTED] if self.shares[pattern] >= MIN_LISTED_SHARE]
        rest = sum(self.shares.values()) - sum(self.shares[pattern] for pattern in listed)
        first, *others = [f"{pattern} in {_percent(self.shares[pattern])}" for pattern in listed]
        others += [f"others in {_percent(rest)}"] if rest >= MIN_LISTED_SHARE else []
        return ", ".join([f"{first} of samples", *others])


def _percent(share: float) -> str:
    """A share in percent; '>99%' where rounding would hide that it is not all."""
    return ">99%" if 0.995 <= share < 1 - TOLERANCE else f"{100 * share:.0f}%"


def _join(patterns: Iterable[str]) -> str:
    """'a', 'a and b', or 'a, b and c'; of many the first, and how many others."""
    names = list(patterns)
    *others, last = names if len(names) <= MAX_LISTED else [*names[: MAX_LISTED - 1], f"{len(names) - MAX_LISTED + 1} others"]
    return f"{', '.join(others)} and {last}" if others else last
