"""Completion of `dse` in a shell, by argcomplete: subcommands, options, names of the catalogue and files."""

import argparse
from collections.abc import Callable, Iterable, Iterator

from dse.base import catalog
from dse.base.errors import InputError

ALL_FOLDERS = tuple(catalog.KINDS)
COMPLETED: dict[tuple[str, str], tuple[catalog.CatalogFolder, ...]] = {  # by subcommand and argument: folders whose names fit
    ("sweep", "spec"): ("sweeps",),
    ("search", "spec"): ("sweeps",),
    ("show", "what"): ALL_FOLDERS,
    ("check", "files"): ALL_FOLDERS,
    ("init", "like"): ALL_FOLDERS,
    ("iso", "workload"): ("workloads",),
    ("list", "workload"): ("workloads",),
    ("trace", "like"): ("workloads",),
    ("accuracy estimate", "workload"): ("workloads",),
    ("r3", "accelerators"): ("accel_models",),
    ("calibrate", "device"): ("accel_models",),
    ("explain", "a"): ("accel_models",),
    ("explain", "b"): ("accel_models",),
    ("explain", "accelerator"): ("accel_models",),
    ("explain", "workload"): ("workloads",),
}
Completer = Callable[..., list[str]]


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the completions of the command line that the shell states, and exit; raises InputError without argcomplete."""
    try:
        import argcomplete  # pyright: ignore[reportMissingImports] # an optional dependency
        from argcomplete.completers import FilesCompleter  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InputError("completion needs argcomplete", "install it: pip install 'sparse-dse[completion]'") from error
    add_completers(parser, FilesCompleter())
    argcomplete.autocomplete(parser)


def add_completers(parser: argparse.ArgumentParser, files: Callable[..., object]) -> None:
    """Give each argument that takes names of the catalogue a completer of these names and of files."""
    for name, action in _arguments(parser):
        if folders := COMPLETED.get((name, action.dest)):
            action.completer = _completer(folders, files)  # type: ignore[attr-defined] # where argcomplete looks for it


def _arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    """Each argument of each subcommand; a subcommand of a group has the name of the group before its own."""
    for name, subparser in subcommand_parsers(parser).items():
        yield from ((name, argument) for argument in subparser._actions)


def subcommand_parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each subcommand by its name; those of a group by the name of the group and their own, as in 'accuracy estimate'."""
    parsers: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, subparser in action.choices.items():
                members = subcommand_parsers(subparser)
                parsers |= {f"{name} {member}": leaf for member, leaf in members.items()} or {name: subparser}
    return parsers


def _completer(folders: tuple[catalog.CatalogFolder, ...], files: Callable[..., Iterable[str]]) -> Completer:
    def candidates(prefix: str, **_: object) -> list[str]:
        names = [name for folder in folders for name in catalog.list_names(folder) if name.startswith(prefix)]
        return [*names, *files(prefix)]

    return candidates
