"""What the options of all subcommands share.

An option that has no effect together with others is an error, so that no option is ignored silently.
"""

import argparse
import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from dse.base.errors import InputError, Problem, did_you_mean

INVALID_CHOICE = re.compile(r"(?P<start>.*invalid choice: '(?P<word>[^']*)') \(choose from (?P<choices>.*)\)", re.DOTALL)

Subcommands = argparse._SubParsersAction  # argparse has no public name for it


class Parser(argparse.ArgumentParser):
    """A parser that suggests the most similar choice for an unknown one."""

    def error(self, message: str) -> NoReturn:
        if match := INVALID_CHOICE.fullmatch(message):
            choices = [choice.strip().strip("'") for choice in match["choices"].split(",")]
            suggestion = did_you_mean(match["word"], choices)
            message = f"{match['start']}; {suggestion}" if suggestion.startswith("did you mean") else message
        super().error(message)


def add_subcommand(subcommands: Subcommands, name: str, handler: str, sentence: str, examples: Sequence[str]) -> argparse.ArgumentParser:
    """Add a subcommand whose help is one sentence (without its full stop) and whose examples are complete commands."""
    epilog = "\n".join(["examples:", *(f"  {command}" for command in examples)])
    description = f"{sentence[0].upper()}{sentence[1:]}."
    form = argparse.RawDescriptionHelpFormatter
    parser = subcommands.add_parser(name, help=sentence, description=description, epilog=epilog, formatter_class=form)
    parser.set_defaults(handler=handler)
    add_verbosity(parser)
    return parser


def add_group(subcommands: Subcommands, name: str, sentence: str, verbs: Sequence[Callable[[Subcommands], None]]) -> None:
    """Add a group of subcommands, as in `dse accuracy estimate`; each of `verbs` adds one of them to the group."""
    parser = subcommands.add_parser(name, help=sentence, description=f"{sentence[0].upper()}{sentence[1:]}.")
    add_verbosity(parser)
    members = parser.add_subparsers(required=True, metavar="SUBCOMMAND", title="subcommands")
    for add in verbs:
        add(members)


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """Add -q and -v, which may be written before and after the name of the subcommand."""
    choice = parser.add_mutually_exclusive_group()
    quiet = "leave progress and notes out of standard error; warnings and errors remain"
    choice.add_argument("-q", "--quiet", dest="verbosity", action="store_const", const=-1, default=argparse.SUPPRESS, help=quiet)
    verbose = "also print the files that are read and written, the time taken, and where an error was raised"
    choice.add_argument("-v", "--verbose", dest="verbosity", action="store_const", const=1, default=argparse.SUPPRESS, help=verbose)


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace a file or store that exists and is named by an option or argument")


def refuse_unused(options: Namespace, names: Iterable[str], where: str) -> None:
    """Raise InputError with every option among `names` that is given; `where` says without or after what it has no effect."""
    given = [name for name in names if _is_given(getattr(options, name))]
    if given:
        raise InputError.from_problems(Problem(f"has no effect {where}", "leave it out", key=_as_written(name)) for name in given)


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != []


def _as_written(name: str) -> str:
    return "-o" if name == "out" else f"--{name.replace('_', '-')}"
