"""A row of a table of measured kernels as the settings of a side, written `FILE.csv:LINE`."""

import re
from pathlib import Path
from typing import Any

from dse.base.errors import InputError, ProblemCollector
from dse.calibrate.measurement_set import load_device, read_numbered_rows

ROW = re.compile(r"(?P<path>.+\.csv(\.gz)?):(?P<line>\d+)")


def read_measured_row(text: str) -> dict[str, Any] | None:
    """Device, shape, dtype, pattern and measured time, or speedup where the row has a dense time; None if the text names no row.

    Raises InputError for a file that is not a table of measured kernels, or has no such line.
    """
    match = ROW.fullmatch(text)
    if match is None:
        return None
    path, line, problems = Path(match["path"]), int(match["line"]), ProblemCollector()
    if not path.is_file():
        raise InputError(f"'{path}' does not exist", "give a table of measured kernels and a line, as in 'measured.csv:2'")
    rows = dict(read_numbered_rows(path, problems)[0])
    problems.raise_if_any()
    if line not in rows:
        raise InputError(
            f"'{path}' has no row on line {line}", f"write a line from {min(rows)} to {max(rows)}" if rows else "give another table"
        )
    row = rows[line]
    settings = {
        "accelerator": load_device(row.device, path.parent), "shape": f"{row.m}x{row.k}x{row.n}", "dtype": row.dtype.text,
        "pattern": str(row.pattern), "measured": f"{row.dense_ms / row.time_ms}x" if row.dense_ms else f"{row.time_ms} ms",
    }  # fmt: skip
    return settings | ({} if row.pattern.density is not None else {"density": row.stored_density})
