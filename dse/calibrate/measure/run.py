"""Run timing jobs and write each row as soon as it is measured, so that an interrupted run resumes."""

import datetime
import platform
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dse.base.errors import InputError
from dse.base.progress import shows_progress
from dse.calibrate.measure.jobs import TimingJob
from dse.calibrate.measure.table import Row, read_table, row_identity, rows_of_device, write_table
from dse.calibrate.measure.timing import Timer, measure_median

NOISY_SPREAD = 0.2  # interquartile range over the median


def run_jobs(path: Path, device: str, jobs: Sequence[TimingJob], timer: Timer, repeats: int, warm: bool) -> list[Row]:
    """Measure the rows that the table at `path` lacks; warns about jobs that failed, with the reason, and about noise.

    Raises InputError if the table has times of the device that were taken with other options.
    """
    rows, failures = read_table(path), dict[str, str]()
    measured = {row_identity(row) for row in rows}
    timing = f"median of {repeats}, {'warm' if warm else 'cold'} caches"
    _check_timing(path, rows_of_device(rows, device), timing)
    origin = {"device": device, "source": f"dse measure, {datetime.date.today().isoformat()}, {platform.platform()}, {timing}"}
    with tqdm(total=sum(len(job.columns) for job in jobs), unit=" kernels", delay=2, disable=not shows_progress()) as bar:
        for job in jobs:
            try:
                for row in _measure_rows(job, origin, measured, timer, repeats):
                    rows.append(row)
                    write_table(path, rows)
            except (RuntimeError, MemoryError) as error:  # the library does not support the device or the shape
                failures[str(job)] = str(error).strip().partition("\n")[0]
            bar.update(len(job.columns))
    if failures:
        warnings.warn("not timed: " + "; ".join(f"{job}: {reason}" for job, reason in failures.items()), stacklevel=2)
    _warn_about_noise(rows)
    return rows


def _check_timing(path: Path, rows: Sequence[Row], timing: str) -> None:
    """Raise InputError if the source of a row ends in other options than `timing`."""
    for row in rows:
        if not row["source"].endswith(timing):
            other = ", ".join(row["source"].split(", ")[-2:])
            raise InputError(f"'{path}' has times with {other}, not {timing}", "give another folder")


def _measure_rows(job: TimingJob, origin: Row, measured: set[tuple[str, ...]], timer: Timer, repeats: int) -> Iterator[Row]:
    """Measure the rows of a job that are missing, with random values, since a GPU may clock higher on values that take less power."""
    kernel, mask = job.kernel, job.random_mask()
    if not mask.any():
        raise RuntimeError("no weight is kept at this density")
    row = origin | {
        "kernel": kernel.name, "release": kernel.release, "pattern": kernel.pattern, "dtype": kernel.dtype, "unit": kernel.unit or "",
        "m": job.m, "k": job.k, "density": float(mask.mean()),
    }  # fmt: skip
    missing = [n for n in job.columns if row_identity(row | {"n": n}) not in measured]
    if not missing:
        return
    rng = np.random.default_rng(0)
    prepare_call = kernel.store(rng.standard_normal((job.m, job.k), np.float32) * mask)
    for n in missing:
        time, spread = measure_median(timer, prepare_call(rng.standard_normal((job.k, n), np.float32)), repeats)
        yield row | {"n": n, "time_ms": 1e3 * time, "spread": round(spread, 3)}


def _warn_about_noise(rows: Sequence[Row]) -> None:
    noisy = [row for row in rows if float(row.get("spread") or 0) > NOISY_SPREAD]
    if noisy:
        what = f"noise: the interquartile range of {len(noisy)} of {len(rows)} times is above {NOISY_SPREAD:.0%} of the median"
        warnings.warn(f"{what}; measure again on an idle machine", stacklevel=3)
