"""A pattern at a sparsity that it can have, from Python or as a user writes it: `2:4`, `block:16x16@0.9`, `block:32x32/2:4@0.75`."""

from collections.abc import Iterable
from dataclasses import dataclass

from dse.base.errors import InputError, ProblemCollector
from dse.sparsity.grammar import parse
from dse.sparsity.hierarchy import inner_density
from dse.sparsity.kinds import BlockFamily, Dense, Structured, VNMFamily
from dse.sparsity.pattern import Pattern

SAME = 1e-9  # sparsities that differ by less are the same


@dataclass(frozen=True)
class PrunedPattern:
    """A pattern, and the share of the prunable weights that it leaves out [1]."""

    pattern: Pattern
    sparsity: float

    @classmethod
    def of(cls, pattern: Pattern, sparsity: float | None = None) -> "PrunedPattern":
        """The pattern at a sparsity that it can have; one that fixes its density needs none. Raises InputError."""
        if isinstance(pattern, BlockFamily | VNMFamily):
            raise InputError(f"'{pattern}' is a family of patterns", "name one of its members, as in 'block:16x16'")
        if isinstance(pattern, Structured) and pattern.axis == "channel":
            raise InputError("the columns of a channel depend on the kernel of the layer", "write 'column', as in 'column@0.5'")
        if isinstance(pattern, Dense):
            raise InputError("'dense' prunes nothing", "leave it out")
        if pattern.density is not None:
            own = 1 - pattern.density
            if sparsity is not None and not abs(sparsity - own) <= SAME:  # NaN is refused too
                raise InputError(f"'{pattern}' is {own:g} sparse and cannot be {sparsity:g} sparse", f"write {own:g}, or leave it out")
            return cls(pattern, own)
        if sparsity is None:
            raise InputError(f"'{pattern}' may have any sparsity", f"give one, as in '{pattern}@0.75' or '--sparsities 0.5 0.75'")
        _check_range(pattern, sparsity)
        return cls(pattern, sparsity)

    @classmethod
    def parse(cls, text: str) -> "PrunedPattern":
        """Parse `PATTERN` or `PATTERN@SPARSITY`; raises InputError."""
        name, at, number = text.partition("@")
        return cls.of(parse(name), _parse_number(number) if at else None)

    def __str__(self) -> str:
        return f"{self.pattern} {self.sparsity:g}"

    @property
    def text(self) -> str:
        """As a user writes it: `parse` is the inverse."""
        return str(self.pattern) if self.pattern.density is not None else f"{self.pattern}@{self.sparsity:g}"

    @property
    def label(self) -> str:
        """As the name of a file."""
        return str(self).translate(str.maketrans({":": "-", "/": "+", " ": "_"}))


def parse_pruned_patterns(texts: Iterable[str]) -> tuple[PrunedPattern, ...]:
    """Parse patterns with their sparsities, each once, in the order given; raises InputError with every wrong one."""
    problems, patterns = ProblemCollector(), dict[PrunedPattern, None]()
    for text in texts:
        with problems.collect(key=f"--patterns {text}"):
            patterns[PrunedPattern.parse(text)] = None
    problems.raise_if_any()
    return tuple(patterns)


def _check_range(pattern: Pattern, sparsity: float) -> None:
    """Raise InputError for a sparsity that is none, or below that of the inner pattern."""
    if not 0 < sparsity < 1:
        raise InputError(f"a sparsity of {sparsity:g} is out of range", "write a number above 0 and below 1")
    least = 1 - inner_density(pattern)
    if sparsity < least - SAME:
        raise InputError(f"'{pattern}' is at least {least:g} sparse and cannot be {sparsity:g} sparse", f"write {least:g} or more")


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"'{text}' is not a sparsity", "write a number between 0 and 1, as in '@0.9'") from None
