"""What a user is told when an input is wrong: every problem at once, each with its place and its fix."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    """One mistake: where it stands, what is wrong, what to write instead."""

    what: str
    fix: str
    file: Path | None = None
    line: int | None = None
    path: str = ""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        return ": ".join(part for part in (place, self.path, f"{self.what}; {self.fix}") if part)


class BadInput(ValueError):  # noqa: N818 - an input is bad, whether or not that ends in an error
    """Raised for anything a user can mend; carries all `problems` found, not just the first."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda p: (str(p.file or ""), p.line or 0)))
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def one(cls, what: str, fix: str) -> "BadInput":
        return cls([Problem(what, fix)])


class Collector:
    """Gathers the problems of several steps, so that they can be reported together.

    `with collector: step()` keeps the BadInput of a step and goes on after it;
    `with collector.at(file, line, path): ...` also gives a place to problems that have none.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._place: Problem | None = None

    def at(self, file: Path | None, line: int | None, path: str) -> "Collector":
        self._place = Problem("", "", file, line, path)
        return self

    def __enter__(self) -> "Collector":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        place, self._place = self._place, None
        if not isinstance(error, BadInput):
            return False
        self.problems += [_placed(problem, place) for problem in error.problems]
        return True

    def add(self, problem: Problem) -> None:
        self.problems.append(problem)

    def raise_all(self) -> None:
        if self.problems:
            raise BadInput(self.problems)


def _placed(problem: Problem, place: Problem | None) -> Problem:
    if place is None or problem.file is not None:
        return problem
    return replace(problem, file=place.file, line=place.line, path=problem.path or place.path)


def suggestion(word: object, known: Iterable[str]) -> str:
    """`did you mean ...?` where something known begins alike or is close, else the list of what is known."""
    options = sorted(known)
    longer = [option for option in options if option.startswith(str(word))][:4]
    if close := longer or difflib.get_close_matches(str(word), options, n=1, cutoff=0.5):
        return f"did you mean {' or '.join(repr(option) for option in close)}?"
    if not options:
        return "nothing can stand here"
    shown = ", ".join(f"'{option}'" for option in options[:20])
    return f"known: {shown}" + (", ..." if len(options) > 20 else "")
