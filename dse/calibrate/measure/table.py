"""The table measurements.csv of `dse measure`: read, completed with dense baselines, and written."""

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dse.base.errors import InputError, ProblemCollector
from dse.base.input_file import read_rows
from dse.base.output_file import replace_file
from dse.calibrate.tables.measurement import Measurement

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


def rows_of_device(rows: Iterable[Row], device: str) -> list[Row]:
    """The rows that were measured on a device: one folder may have those of the GPU and of the CPU of a machine."""
    return [row for row in rows if row["device"] == device]


def add_dense_baselines(rows: list[Row]) -> None:
    """Fill in the dense baseline of each sparse row: that of the fastest dense kernel of its device and dtype."""
    dense = dict[tuple[str, str], list[Row]]()
    for row in rows:
        if row["pattern"] == "dense":
            dense.setdefault((row["device"], row["dtype"]), []).append(row)
    fastest = {key: _fastest_kernel(of_key) for key, of_key in dense.items()}
    baselines = {_shape_identity(row): row for key, of_key in dense.items() for row in of_key if row["kernel"] == fastest[key]}
    for row in rows:
        if row["pattern"] != "dense" and (baseline := baselines.get(_shape_identity(row))):
            row |= {"dense_kernel": baseline["kernel"], "dense_release": baseline["release"], "dense_ms": baseline["time_ms"]}


def _fastest_kernel(rows: list[Row]) -> str:
    """The kernel with the smallest mean of log times over shapes that all kernels have, of those that have the most shapes."""
    times = dict[str, dict[tuple[str, ...], float]]()
    for row in sorted(rows, key=lambda row: row["kernel"]):
        times.setdefault(row["kernel"], {})[_shape_identity(row)] = float(row["time_ms"])
    most = max(map(len, times.values()))
    ranked = {name: own for name, own in times.items() if len(own) == most}
    common = set.intersection(*(set(own) for own in ranked.values()))
    return min(ranked, key=lambda name: sum(math.log(ranked[name][shape]) for shape in common))


def _shape_identity(row: Row) -> tuple[str, ...]:
    return tuple(str(row[column]) for column in ("device", "dtype", "m", "k", "n"))
