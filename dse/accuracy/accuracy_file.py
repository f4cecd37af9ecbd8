"""Write estimated accuracies: as an accuracy.csv of their own, or into the folder of a workload."""

import csv
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dse.base.errors import InputError
from dse.base.input_file import read_cells, required_columns
from dse.base.output_file import replace_file, temporary_path
from dse.workload import tables
from dse.workload.schema import AccuracyRow
from dse.workload.workload import Workload

COLUMNS = (
    "method", "pattern", "sparsity", "value", "dense_value", "low", "high", "source", "kind", "metric", "densities", "combined_with"
)  # fmt: skip
KEY = ("method", "pattern", "sparsity")
FILE = "accuracy.csv"

Cells = Mapping[str, str]


def write_accuracy_file(path: Path, rows: Sequence[AccuracyRow]) -> None:
    """Write the rows as an accuracy.csv. Raises OSError."""
    replace_file(path, lambda temporary: _write_table(temporary, [_cells(row) for row in rows]))


def check_folder(folder: Path, workload: Workload) -> None:
    """Raise InputError, before any work is done, unless `folder` is new or holds this workload."""
    if not os.path.lexists(folder):
        return
    if not (folder / "workload.yaml").is_file():
        raise InputError(f"'{folder}' exists and is not a workload", "give a new folder, or that of the workload", key="--into")
    if tables.load(folder).description.name != workload.description.name:
        what = f"'{folder}' holds another workload than '{workload.description.name}'"
        raise InputError(what, "give a new folder, or that of the workload", key="--into")


def add_to_workload(folder: Path, workload: Workload, rows: Sequence[AccuracyRow]) -> None:
    """Add rows to the accuracy.csv of a folder, in place of older estimates of the same variants.

    A new folder becomes a copy of the workload first. Raises OSError, and InputError if the folder is not a valid workload then.
    """
    source = tables.load(folder) if folder.exists() else workload
    with temporary_path(folder.absolute()) as copy:
        for name in source.files:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.folder / name, copy / name)
        _write_merged(source.folder / FILE, copy / FILE, rows)
        tables.check_copy(copy, folder)
        if folder.exists():
            os.replace(copy / FILE, folder / FILE)
        else:
            os.replace(copy, folder)


def _write_merged(source: Path, target: Path, rows: Sequence[AccuracyRow]) -> None:
    """Write the rows of `source`, which need not exist, with new rows in place of estimates of the same variants."""
    new = [_cells(row) for row in rows]
    replaced = {_key(cells) for cells in new}
    header, lines = read_cells(source, required_columns(AccuracyRow)) if source.exists() else ([], [])
    old = [dict(zip(header, map(str.strip, cells), strict=False)) for _, cells in lines]
    _write_table(target, [*(cells for cells in old if cells["kind"] != "estimated" or _key(cells) not in replaced), *new])


def _key(cells: Cells) -> tuple[str, str, float]:
    return cells["method"], cells["pattern"], float(cells["sparsity"])


def _cells(row: AccuracyRow) -> dict[str, str]:
    values = row.model_dump()
    return {column: "" if values[column] is None else str(values[column]) for column in COLUMNS}


def _write_table(path: Path, rows: Iterable[Cells]) -> None:
    """Write all columns that a row fills, and those that every accuracy.csv has."""
    listed = list(rows)
    columns = [column for column in COLUMNS if column in (*KEY, "value", "source", "kind") or any(row.get(column) for row in listed)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(listed)
