"""`dse plot`: draw figures of a dataset."""

from argparse import Namespace
from pathlib import Path

from dse import plot
from dse.base.errors import InputError
from dse.sweeping import store


def execute(options: Namespace) -> str:
    """Draw the figures and return their files.

    Raises InputError if none can be drawn, FiguresNotDrawnError (after the files of the others are printed) if some cannot.
    """
    dataset = store.read(options.dataset)
    kinds = options.kind or plot.default_kinds(dataset)
    folder = options.out or options.dataset.parent
    try:
        written = plot.save_figures(dataset, kinds, folder, file_prefix(options.dataset))
    except plot.FiguresNotDrawnError as error:
        if not error.written:
            raise InputError.from_problems(error.problems) from error
        print(*error.written, sep="\n")
        raise
    return "\n".join(map(str, written))


def file_prefix(dataset: Path) -> str:
    """Prefix of the files derived from a dataset: empty for 'results.nc', else the name of the dataset."""
    return "" if dataset.stem == "results" else f"{dataset.stem}."
