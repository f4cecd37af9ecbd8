"""Errors that a user can fix: every problem of an input at once, each with its file, line and suggested fix."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

MAX_CHARACTERS = 1500  # of one part of a message
MAX_PROBLEMS_SHOWN = 200
MAX_CHARACTERS_SHOWN = 50_000  # of all problems together
MAX_CHARACTERS_COMPARED, MAX_OPTIONS_COMPARED = 100, 1000  # the time to compare grows with the characters of both


@dataclass(frozen=True)
class Problem:
    """One mistake in an input, and how to fix it.

    `file` and `line` are given where the input is a file. `key` names the part of the input: a dotted path in YAML
    (`memory.dram.bandwidth`), a column, a command line option, or a tensor.
    """

    message: str
    fix: str
    file: Path | None = None
    line: int | None = None
    key: str = ""

    def __str__(self) -> str:
        """`FILE:LINE: key: message; fix`."""
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        text = f"{to_single_line(self.message)}; {to_single_line(self.fix)}"
        return ": ".join(part for part in (to_single_line(place), to_single_line(self.key), text) if part)


def to_single_line(text: str) -> str:
    """Escape control characters and leave out the middle of a long text, so that it fits one line of about `MAX_CHARACTERS`."""
    short = text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS // 2]} ... {text[-MAX_CHARACTERS // 2 :]}"
    return short if short.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in short)


class InputError(ValueError):
    """Raised for anything that a user can fix; `problems` holds every problem, not only the first.

    The text has one line for each problem: `FILE:LINE: path: problem; fix`.

    Attributes:
        problems: all problems, each with `message`, `fix`, `file`, `line` and `key` (the dotted path, column or option).

    Examples:
        >>> import dse
        >>> a100 = dse.load_accelerator("a100-sxm4-80gb")
        >>> try:
        ...     a100.replace({"memory.dram.bandwidth": "4 TB", "memory.l2.capacity": "-1 MB"})
        ... except dse.InputError as error:
        ...     print(error)
        memory.dram.bandwidth: 'TB' is the wrong unit here; write a quantity in B/s, as in '2039 GB/s'
        memory.l2.capacity: '-1 MB' is not positive and finite; write a number above 0, as in '80 GB'
    """

    def __init__(self, message: str, fix: str, file: Path | None = None, line: int | None = None, key: str = ""):
        self.problems: tuple[Problem, ...] = (Problem(message, fix, file, line, key),)
        super().__init__(message)

    @classmethod
    def from_problems(cls, problems: Iterable[Problem]) -> "InputError":
        """One error for several problems, sorted by file and line, each listed once."""
        error = cls("", "")
        error.problems = tuple(sorted(dict.fromkeys(problems), key=lambda p: (str(p.file or ""), p.line or 0)))
        return error

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:MAX_PROBLEMS_SHOWN]]
        shown = [line for line, total in zip(lines, accumulate(map(len, lines)), strict=True) if total <= MAX_CHARACTERS_SHOWN]
        hidden = len(self.problems) - len(shown)
        return "\n".join(shown + [f"... and {hidden} more problems"] * (hidden > 0))

    def __reduce__(self) -> tuple[object, tuple[tuple[Problem, ...]]]:
        """Pickle by the problems: worker processes send their errors back."""
        return InputError.from_problems, (self.problems,)


class InfeasibleError(Exception):
    """Raised if no design meets every constraint; the message names the hardest constraint and by how much it is missed.

    Examples:
        >>> import dse
        >>> try:
        ...     dse.search({
        ...         "name": "tiny_chip", "accelerators": ["a100-sxm4-80gb"], "workloads": ["resnet50"], "dtype": "fp16",
        ...         "axes": {"memory.dram.bandwidth": ["1 TB/s", "2 TB/s"]},
        ...         "search": {"maximize": ["performance"], "constraints": ["area <= 1 mm^2"], "sampler": "exhaustive"},
        ...     })
        ... except dse.InfeasibleError as error:
        ...     print(error)
        no feasible design among 2: 'area <= 1 mm^2' is hardest to meet, ...
    """


class UnfinishedError(Exception):
    """Raised if work stops through no fault of its inputs, for example because a disk is full; what was written so far is kept.

    Examples:
        >>> import dse
        >>> def sweep_on_a_small_disk(spec, out):
        ...     try:
        ...         return dse.sweep(spec, out)
        ...     except dse.UnfinishedError as error:
        ...         print(error, "(then call dse.sweep with resume=True)")
    """

    @classmethod
    def cannot_write(cls, path: Path, error: BaseException, fix: str = "continue with --resume") -> "UnfinishedError":
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        return cls(f"'{path}' cannot be written ({reason}); free disk space, then {fix}")


class ImplausibleResultError(ValueError):
    """Raised for a prediction that cannot be true: the model or its parameters are at fault, not the input."""


class ProblemCollector:
    """Collects the problems of several steps, so that they are reported together.

    problems = ProblemCollector()
    with problems.collect(file, key="weights"):
        step()
    problems.raise_if_any()
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @contextmanager
    def collect(self, file: Path | None = None, line: int | None = None, key: str = "") -> Iterator[None]:
        """Catch an InputError and keep its problems; those that name no file get this `file`, `line` and `key`."""
        try:
            yield
        except InputError as error:
            for problem in error.problems:
                self.add(problem if problem.file else replace(problem, file=file, line=line, key=problem.key or key))

    def add(self, problem: Problem) -> None:
        self.problems.append(problem)

    def raise_if_any(self) -> None:
        """Raise one InputError with all problems collected so far, if there are any."""
        if self.problems:
            raise InputError.from_problems(self.problems)


@contextmanager
def errors_in_file(path: Path) -> Iterator[None]:
    """Raise each InputError again with this file for problems that name none."""
    try:
        yield
    except InputError as error:
        located = (problem if problem.file else replace(problem, file=path) for problem in error.problems)
        raise InputError.from_problems(located) from error


def did_you_mean(word: object, options: Iterable[str]) -> str:
    """Suggest what to write instead of an unknown `word`: "did you mean ...?" for a similar option, otherwise the list of options.

    Options are compared without regard to case.
    """
    known, text = sorted(set(options)), str(word)[:MAX_CHARACTERS_COMPARED].casefold()
    by_folded = {option.casefold(): option for option in reversed(known)}
    longer = [option for option in known if option.casefold().startswith(text)][:4]
    similar = difflib.get_close_matches(text, list(reversed(by_folded))[:MAX_OPTIONS_COMPARED], n=1, cutoff=0.5)
    if close := longer or [by_folded[folded] for folded in similar]:
        return f"did you mean {' or '.join(repr(option) for option in close)}?"
    if not known:
        return "no value is allowed here"
    shown = ", ".join(f"'{option}'" for option in known[:20])
    return f"known: {shown}" + (", ..." if len(known) > 20 else "")
