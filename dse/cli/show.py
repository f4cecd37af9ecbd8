"""`dse show`: print the best designs, bounds and front of a dataset of results, or a description of the catalogue."""

import sys
from argparse import Namespace
from pathlib import Path

import xarray as xr

from dse.base import catalog
from dse.base.errors import InputError, did_you_mean
from dse.cli.dataset import parse_pairs, results_path
from dse.report.result_table import render
from dse.report.show_results import ShowOptions, result_tables
from dse.sweeping import store
from dse.sweeping.select_values import select_values

FOLDERS: tuple[catalog.CatalogFolder, ...] = ("accel_models", "workloads", "sweeps")
MAX_SUMMARY_BYTES = 2**29  # of results: larger ones are not ranked at the end of a sweep


def execute(options: Namespace) -> str:
    """The tables of a dataset, or the text of a description that ships; raises InputError."""
    path = find_results(options.what)
    if path is None:
        return _description_text(options.what)
    dataset = select_values(store.read(path), parse_pairs(options.select))
    chosen = ShowOptions(options.top, options.maximize, options.minimize, options.drop, options.any_accuracy)
    return render(result_tables(dataset, chosen), options.format)


def find_results(what: str) -> Path | None:
    """The file or store of results at a path or in a folder of a sweep or search; None if `what` is not a path."""
    path = results_path(Path(what))
    if path.is_dir() and path.suffix != ".zarr" and not (path / "zarr.json").exists():
        if _catalog_file(what) is None:
            raise InputError(
                f"the folder '{what}' has no results", "give a .nc file, a .zarr store, or a folder of 'dse sweep' or 'dse search'"
            )
        return None
    return path if path.exists() or path.suffix in (".nc", ".zarr") else None


def _catalog_file(name: str) -> Path | None:
    return next((catalog.find_path(folder, name) for folder in FOLDERS if name in catalog.list_names(folder)), None)


def _description_text(name: str) -> str:
    """The file of an accelerator, workload or sweep of the catalogue; raises InputError for another name."""
    path = _catalog_file(name)
    if path is None:
        names = [known for folder in FOLDERS for known in catalog.list_names(folder)]
        raise InputError(f"'{name}' is neither a file of results nor a name of the catalogue", did_you_mean(name, names))
    file = path / "workload.yaml" if path.is_dir() else path
    return f"# {file}\n{file.read_text().rstrip()}"


def print_summary(dataset: xr.Dataset, path: Path) -> None:
    """Print the tables of results to stderr, below what a command wrote; of large results, the command that prints them."""
    if dataset.nbytes > MAX_SUMMARY_BYTES:
        print(f"'dse show {path}' prints the best designs", file=sys.stderr)
        return
    print(render(result_tables(dataset), "table"), file=sys.stderr)
