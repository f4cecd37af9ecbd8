"""`dse show`: print the best designs, bounds and front of a dataset of results, or a description of the catalogue."""

import json
from argparse import Namespace
from pathlib import Path

import xarray as xr

from dse.base import catalog
from dse.base.errors import InputError
from dse.base.name_value import parse_pairs
from dse.base.progress import announced_step, logger
from dse.cli.dataset import results_path
from dse.report.result_table import render
from dse.report.show_results import ShowOptions, result_tables
from dse.sweeping import store
from dse.sweeping.select_values import limit_values, select_values
from dse.trace.coverage import format_activations
from dse.trace.write import REPORT

MAX_SUMMARY_BYTES = 2**29  # of results: larger ones are not ranked at the end of a sweep


def execute(options: Namespace) -> str:
    """The tables of a dataset, or the text of a description that ships; raises InputError."""
    path = find_results(options.what)
    if path is None:
        return _description_text(options.what)
    chosen = ShowOptions(options.top, options.maximize, options.minimize, options.drop, options.any_accuracy)
    with announced_step(f"reading and ranking {path}"):
        dataset = limit_values(select_values(store.read(path), parse_pairs(options.select)), options.where)
        return render(result_tables(dataset, chosen), options.format)


def find_results(what: str) -> Path | None:
    """The file or store of results at a path or in a folder of a sweep or search; None if `what` is not a path."""
    path = results_path(Path(what))
    if store.is_plain_folder(path):
        if not _described_paths(what):
            raise InputError(
                f"the folder '{what}' has no results", "give a .nc file, a .zarr store, or a folder of 'dse sweep' or 'dse search'"
            )
        return None
    return path if path.exists() or path.suffix in (".nc", ".zarr") else None


def _described_paths(name: str) -> list[Path]:
    """The descriptions of the catalogue with this name, otherwise the folder of a workload; empty if there is none."""
    return catalog.find_named(name) or [folder for folder in (Path(name),) if (folder / "workload.yaml").is_file()]


def _description_text(name: str) -> str:
    """The file of an accelerator, workload, sweep or search, and the recorded activations of a workload; raises InputError."""
    paths = _described_paths(name)
    if not paths:
        raise InputError(f"'{name}' is neither a file of results nor a name of the catalogue", catalog.suggest_name(name))
    files = [path / "workload.yaml" if path.is_dir() else path for path in paths]
    texts = [f"# {file}\n{file.read_text().rstrip()}" for file in files]
    return "\n\n".join(texts + [text for path in paths if (text := _recorded_inputs(path / REPORT))])


def _recorded_inputs(report: Path) -> str:
    """The table of recorded activations of a traced workload; empty if there are none."""
    rows = json.loads(report.read_text()).get("activations") if report.is_file() else None
    return f"# {report}\n{format_activations(rows)}" if rows else ""


def print_summary(dataset: xr.Dataset, path: Path) -> None:
    """Print the tables of results to stderr, below what a command wrote; of large results, the command that prints them."""
    if dataset.nbytes > MAX_SUMMARY_BYTES:
        logger.info(f"'dse show {path}' prints the best designs")
        return
    try:
        logger.info(render(result_tables(dataset), "table"))
    except InputError as error:  # of results that cannot be ranked, such as areas alone
        logger.info(f"note: no designs are ranked: {error}")
