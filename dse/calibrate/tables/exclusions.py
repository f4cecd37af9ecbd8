"""Rows that are left out of a set of measurements: how many may be, a summary of their reasons, and the error if no row remains."""

from collections.abc import Iterable, Sequence

from dse.base.errors import InputError, Problem

MAX_IMPLAUSIBLE = 0.01  # share of the rows of a table that are left out as implausible; more are an error
MAX_LISTED = 20  # rows that are listed one by one
FIX_LEFT_OUT = "see 'Tables of measurements' in the reference for the rows that are used"


def summarize_reasons(reasons: Iterable[str]) -> list[str]:
    """The number of rows for each reason that several rows share, and the other rows one by one up to a limit.

    The text before the last ': ' of a reason identifies its row.
    """
    by_reason = dict[str, list[str]]()
    for text in reasons:
        by_reason.setdefault(text.rpartition(": ")[2], []).append(text)
    shared = [f"{len(texts):,} rows: {reason}" for reason, texts in by_reason.items() if len(texts) > 1]
    single = [texts[0] for texts in by_reason.values() if len(texts) == 1]
    more = [f"{len(single) - MAX_LISTED:,} more rows, each for a reason of its own"] if len(single) > MAX_LISTED else []
    return [*single[:MAX_LISTED], *more, *shared]


def explain_unused(what: str, fix: str, reasons: Iterable[str]) -> InputError:
    """The error of tables of which nothing can be used, with a line for each of the reasons why rows are left out."""
    return InputError.from_problems([Problem(what, fix), *(Problem(f"left out: {reason}", FIX_LEFT_OUT) for reason in reasons)])


def refuse_many(implausible: Sequence[Problem], row_count: int) -> None:
    """Raise InputError if more than 1% of the rows of a table are implausible."""
    if len(implausible) > MAX_IMPLAUSIBLE * row_count:
        raise InputError.from_problems(implausible)
