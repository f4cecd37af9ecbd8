"""What a user is told when an input is wrong: every problem at once, each with its place and its fix."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
        return ": ".join(part for part in (legible(place), legible(self.path), f"{legible(self.what)}; {legible(self.fix)}") if part)


LONGEST = 1500


def legible(text: str) -> str:
    """`text` on one line of at most about `LONGEST` characters: control characters are escaped, the middle of a long text is left out."""
    short = text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    return short if short.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in short)


MOST_SHOWN = 200


class InputError(ValueError):
    """Raised for anything a user can mend; carries all `problems` found, not just the first."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda p: (str(p.file or ""), p.line or 0)))
        shown = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        more = len(self.problems) - len(shown)
        super().__init__("\n".join(shown + [f"... and {more} more problems"] * (more > 0)))

    def __reduce__(self) -> tuple[type["InputError"], tuple[tuple[Problem, ...]]]:
        return InputError, (self.problems,)  # so that it comes back from another process

    @classmethod
    def one(cls, what: str, fix: str) -> "InputError":
        return cls([Problem(what, fix)])


class InfeasibleError(Exception):
    """No design meets every constraint; says which is hardest, and by how much it is missed."""


class UnfinishedError(Exception):
    """Work stopped through no fault of its inputs, as by a full disk or a lost worker; what was written is kept."""

    @classmethod
    def unwritten(cls, path: Path, error: BaseException, fix: str = "go on with --resume") -> "UnfinishedError":
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        return cls(f"'{path}' cannot be written ({reason}); make room, and {fix}")


class ImplausibleResultError(ValueError):
    """A prediction that can't be true: the model or its parameters are at fault, not the input."""


class Collector:
    """Gathers the problems of several steps, so that they can be reported together.

    `with problems.at(file, line, path): step()` keeps the InputError of a step and goes on after it, giving a place to
    the problems that have none.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @contextmanager
    def at(self, file: Path | None = None, line: int | None = None, path: str = "") -> Iterator[None]:
        try:
            yield
        except InputError as error:
            for problem in error.problems:
                placed = replace(problem, file=file, line=line, path=problem.path or path)
                self.problems.append(problem if problem.file else placed)

    def add(self, problem: Problem) -> None:
        self.problems.append(problem)

    def raise_all(self) -> None:
        if self.problems:
            raise InputError(self.problems)


MOST_COMPARED, MOST_OPTIONS = 100, 1000  # comparing takes time in proportion to the characters of both


def suggestion(word: object, known: Iterable[str]) -> str:
    """`did you mean ...?` where something known begins alike or is close, else the list of what is known."""
    options, text = sorted(known), str(word)[:MOST_COMPARED]
    longer = [option for option in options if option.startswith(text)][:4]
    if close := longer or difflib.get_close_matches(text, options[:MOST_OPTIONS], n=1, cutoff=0.5):
        return f"did you mean {' or '.join(repr(option) for option in close)}?"
    if not options:
        return "nothing can stand here"
    shown = ", ".join(f"'{option}'" for option in options[:20])
    return f"known: {shown}" + (", ..." if len(options) > 20 else "")
