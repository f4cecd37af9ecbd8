"""The settings of a side that is one row of a table of measured kernels, `FILE.csv:LINE`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dse.base.errors import InputError, ProblemCollector
from dse.calibrate.tables.launches import kernel_key, pair_with_baselines, rows_by_kernel
from dse.calibrate.tables.measurement import Measurement
from dse.calibrate.tables.measurement_set import MeasurementSet, load_device, read_numbered_rows
from dse.calibrate.tables.sanity_checks import find_unit
from dse.schema.accelerator import Accelerator

ROW = re.compile(r"(?P<path>.+\.csv(\.gz)?):(?P<line>\d+)", re.IGNORECASE)


def read_measured_row(text: str) -> dict[str, Any] | None:
    """Device, shape, dtype, pattern and measured time, or speedup where a dense time is known; None if the text names no row.

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
    row, device = rows[line], load_device(rows[line].device, path.parent)
    dense_ms = _find_dense_time(row, list(rows.values()), device)
    settings = {
        "accelerator": device, "shape": f"{row.m}x{row.k}x{row.n}", "dtype": row.dtype.text,
        "pattern": str(row.pattern), "measured": f"{dense_ms / row.time_ms}x" if dense_ms else f"{row.time_ms} ms",
    }  # fmt: skip
    return settings | ({} if row.pattern.density is not None else {"density": row.stored_density})


def _find_dense_time(row: Measurement, rows: Sequence[Measurement], device: Accelerator) -> float | None:
    """Time [ms] of the dense product that a row is compared with: its own, else that of the kernel that 'dse validate' compares with."""
    if row.dense_ms or find_unit(device, row) is None:
        return row.dense_ms
    of_device = tuple(each for each in rows if (each.device, each.dtype) == (row.device, row.dtype) and find_unit(device, each))
    measurements = MeasurementSet("", of_device, {row.device: device})
    baseline = pair_with_baselines(measurements).get(kernel_key(row, measurements))
    dense = [] if baseline is None else rows_by_kernel(measurements)[baseline]
    return next((each.time_ms for each in dense if (each.m, each.k, each.n) == (row.m, row.k, row.n)), None)
