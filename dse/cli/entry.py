"""Run the command `dse`: parse the arguments, import and run a subcommand, turn errors into exit codes.

stdout has the results, stderr progress, warnings and errors. Exit codes: 0 success, 1 failed, 2 invalid input, 3 no feasible design,
130 interrupted.
"""

import argparse
import gc
import io
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from time import monotonic

from dse.base import progress
from dse.base.errors import ImplausibleResultError, InfeasibleError, InputError, UnfinishedError
from dse.cli.arguments import accuracy, descriptions, evaluation, measurements, networks, results
from dse.cli.arguments.common import Parser, add_verbosity
from dse.cli.compilation_cache import keep_compiled_functions

EXIT_CODES = {InputError: 2, InfeasibleError: 3, UnfinishedError: 1, ImplausibleResultError: 1, MemoryError: 1, KeyboardInterrupt: 130}
OUT_OF_MEMORY = "out of memory ({reason}); evaluate less at once, or run it with more memory"
LEVELS = {-1: logging.WARNING, 0: logging.INFO, 1: logging.DEBUG}  # by verbosity: -q, neither, -v
NEW_OBJECTS = 50_000  # after which unused ones are searched: by default it is 700, and importing JAX, which keeps all, takes 0.3 s longer
COMPLETION = "_ARGCOMPLETE"  # set by a shell that requests completions
Handler = Callable[..., str | int]


def main(arguments: list[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process); returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # file names need not be valid text
    gc.set_threshold(NEW_OBJECTS)
    keep_compiled_functions()
    parser, verbosity = build_parser(), 0
    try:
        if COMPLETION in os.environ:
            load_handler("dse.cli.completion:complete")(parser)
        options = parser.parse_args(arguments)
        verbosity = getattr(options, "verbosity", 0)
        with warnings.catch_warnings(), _messages(LEVELS[verbosity]):
            warnings.showwarning = _print_warning
            result = load_handler(options.handler)(options)
            if isinstance(result, int):
                return result
            print(result)
            return 0
    except BrokenPipeError:  # as in `dse list | head`
        sys.stderr.close()
        return 1
    except tuple(EXIT_CODES) as error:
        if verbosity > 0:
            traceback.print_exc()
        print(_error_text(error), file=sys.stderr)
        return next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="dse", description="Design-space exploration of sparse neural-network hardware.")
    parser.add_argument("--version", action="version", version=f"sparse-dse {version('sparse-dse')}")
    add_verbosity(parser)
    _add_subcommands(parser)
    return parser


@contextmanager
def _messages(level: int) -> Iterator[None]:
    """Print progress and notes of this level to stderr, and with DEBUG the time that the command takes."""
    handler, start = progress.LineHandler(), monotonic()
    progress.logger.addHandler(handler)
    progress.logger.setLevel(level)
    try:
        yield
    finally:
        progress.logger.debug(f"{monotonic() - start:.2f} s")
        progress.logger.removeHandler(handler)
        progress.logger.setLevel(logging.NOTSET)


def load_handler(name: str) -> Handler:
    """Import the function of a subcommand by its name 'module:function', which takes the parsed options.

    It returns the text to print, or an exit code if it has printed.
    """
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    progress.print_line(f"warning: {message}")


def _error_text(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "; ".join(["interrupted", *map(str, error.args)])
    if isinstance(error, MemoryError):
        return OUT_OF_MEMORY.format(reason=str(error) or "no more is available")
    return f"{type(error).__name__}: {error}" if isinstance(error, ImplausibleResultError) else str(error)


def _add_subcommands(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands in the order in which `dse --help` lists them."""
    subcommands = parser.add_subparsers(required=True, metavar="SUBCOMMAND", title="subcommands")
    for add in (
        descriptions.add_init,
        evaluation.add_sweep,
        results.add_show,
        results.add_plot,
        results.add_pareto,
        results.add_report,
        results.add_explore,
        results.add_explain,
        networks.add_trace,
        accuracy.add_accuracy,
        networks.add_io,
        descriptions.add_check,
        descriptions.add_list,
        descriptions.add_iso,
        evaluation.add_search,
        descriptions.add_pattern,
        descriptions.add_schema,
        measurements.add_measure,
        measurements.add_calibrate,
        measurements.add_validate,
        measurements.add_r3,
    ):
        add(subcommands)
