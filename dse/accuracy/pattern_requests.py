"""Patterns to estimate, as a user writes them: `2:4`, `block:16x16@0.9`, `block:32x32/2:4@0.75`."""

from collections.abc import Iterable
from typing import NamedTuple

from dse.base.errors import InputError, ProblemCollector
from dse.sparsity.grammar import parse
from dse.sparsity.hierarchy import inner_density
from dse.sparsity.kinds import BlockFamily, Dense, Structured, VNMFamily
from dse.sparsity.pattern import Pattern

SPARSITY_TOLERANCE = 1e-9


class PatternRequest(NamedTuple):
    """A pattern and the share of the weights of each layer that it drops [1]."""

    pattern: Pattern
    sparsity: float

    def __str__(self) -> str:
        return str(self.pattern) if self.pattern.density is not None else f"{self.pattern}@{self.sparsity:g}"


def parse_requests(texts: Iterable[str]) -> tuple[PatternRequest, ...]:
    """Parse patterns with their sparsities, each once, in the order given; raises InputError with every wrong one."""
    problems, requests = ProblemCollector(), dict[PatternRequest, None]()
    for text in texts:
        with problems.collect(key=f"--patterns {text}"):
            requests[parse_request(text)] = None
    problems.raise_if_any()
    return tuple(requests)


def parse_request(text: str) -> PatternRequest:
    """Parse `PATTERN` or `PATTERN@SPARSITY`; raises InputError."""
    name, at, number = text.partition("@")
    pattern = parse(name)
    _check_is_estimable(pattern)
    stated = _parse_sparsity(number) if at else None
    if pattern.density is not None:
        own = 1 - pattern.density
        if stated is not None and abs(stated - own) > SPARSITY_TOLERANCE:
            raise InputError(f"the sparsity of {pattern} is {own:g}, not {stated:g}", f"write '{pattern}'")
        return PatternRequest(pattern, own)
    if stated is None:
        raise InputError(f"'{pattern}' may have any sparsity", f"write the sparsity after it, as in '{pattern}@0.9'")
    least = 1 - inner_density(pattern)
    if stated < least:
        raise InputError(f"a sparsity of {stated:g} is below that of the inner pattern", f"write at least {least:g}")
    return PatternRequest(pattern, stated)


def _check_is_estimable(pattern: Pattern) -> None:
    """Raise InputError for a pattern that has no masks of its own, or whose masks depend on more than the matrix."""
    if isinstance(pattern, BlockFamily | VNMFamily):
        raise InputError(f"'{pattern}' is a family of patterns", "name one of its members, as in 'block:16x16@0.9'")
    if isinstance(pattern, Dense):
        raise InputError("the dense network has no accuracy to estimate", "leave 'dense' out")
    if isinstance(pattern, Structured) and pattern.axis == "channel":
        raise InputError("the columns of a channel depend on the kernel of the layer", "write 'column', as in 'column@0.5'")


def _parse_sparsity(text: str) -> float:
    try:
        sparsity = float(text)
    except ValueError:
        sparsity = -1.0
    if not 0 < sparsity < 1:
        raise InputError(f"'{text}' is not a sparsity", "write a number between 0 and 1, as in '@0.9'")
    return sparsity
