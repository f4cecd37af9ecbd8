"""Options that have no effect together with others: errors, so that no option is ignored silently."""

from argparse import Namespace
from collections.abc import Iterable

from dse.base.errors import InputError, Problem


def refuse_unused(options: Namespace, names: Iterable[str], where: str) -> None:
    """Raise InputError with every option among `names` that is given; `where` says without or after what it has no effect."""
    given = [name for name in names if getattr(options, name) not in (None, False, [])]
    if given:
        raise InputError.from_problems(Problem(f"has no effect {where}", "leave it out", key=_as_written(name)) for name in given)


def _as_written(name: str) -> str:
    return "-o" if name == "out" else f"--{name.replace('_', '-')}"
