"""The table measurements.csv of `dse measure`: read, completed with dense baselines, and written."""

import csv
from pathlib import Path
from typing import Any

from dse.base.errors import InputError, ProblemCollector
from dse.base.input_file import read_rows
from dse.base.output_file import replace_file
from dse.calibrate.measurement import Measurement

Row = dict[str, Any]  # a cell by column, as text where it was read from a file

COLUMNS = (
    "device", "kernel", "release", "pattern", "dtype", "unit", "m", "k", "n", "density", "time_ms", "spread", "dense_kernel",
    "dense_release", "dense_ms", "source",
)  # fmt: skip


def read_table(path: Path) -> list[Row]:
    """Read the rows of an earlier run, empty without a file; raises InputError if `dse measure` has not written it."""
    if not path.exists():
        return []
    problems = ProblemCollector()
    with problems.collect(path):
        read_rows(path, Measurement, problems)
    problems.raise_if_any()
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if not set(rows[0]) <= set(COLUMNS):
        raise InputError(f"'{path}' is not a table of 'dse measure'", "give another folder")
    return rows


def write_table(path: Path, rows: list[Row]) -> None:
    """Write all rows; an interrupted write leaves the earlier file."""

    def write(target: Path) -> None:
        with target.open("w", newline="") as file:
            writer: csv.DictWriter[Any] = csv.DictWriter(file, COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(rows)

    replace_file(path, write)


def row_identity(row: Row) -> tuple[str, ...]:
    """What distinguishes a row from all others, whether it was read or is new."""
    return tuple(str(row[column]) for column in ("device", "kernel", "release", "dtype", "m", "k", "n", "density"))


def add_dense_baselines(rows: list[Row]) -> None:
    """Fill in the dense baseline of each sparse row: of the dense kernel that takes least time over all shapes of the dtype."""
    dense = [row for row in rows if row["pattern"] == "dense"]
    fastest = {dtype: _fastest_kernel([row for row in dense if row["dtype"] == dtype]) for dtype in {row["dtype"] for row in dense}}
    baselines = {_shape_identity(row): row for row in dense if row["kernel"] == fastest[row["dtype"]]}
    for row in rows:
        if row["pattern"] != "dense" and (baseline := baselines.get(_shape_identity(row))):
            row |= {"dense_kernel": baseline["kernel"], "dense_release": baseline["release"], "dense_ms": baseline["time_ms"]}


def _fastest_kernel(rows: list[Row]) -> str:
    """Name of the kernel with the smallest sum of times, of equal ones the first by name."""
    names = sorted({row["kernel"] for row in rows})
    return min(names, key=lambda name: sum(float(row["time_ms"]) for row in rows if row["kernel"] == name))


def _shape_identity(row: Row) -> tuple[str, ...]:
    return tuple(str(row[column]) for column in ("dtype", "m", "k", "n"))
