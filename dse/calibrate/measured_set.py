"""Measured kernels as they stand in files: the rows of one, the devices that they ran on, and all that is wrong with them at once."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dse.base import catalog
from dse.base.csv_table import read_rows
from dse.base.errors import InputError, Problem, ProblemCollector
from dse.calibrate import published, sanity_checks
from dse.calibrate.measurement import Measurement
from dse.schema.accelerator import Accelerator, read_accelerator

T = TypeVar("T")
MOST_WRONG = 0.01  # of the rows of a table may be impossible or contradict each other: these are left out and listed

SHIPPED_MEASUREMENTS = Path(__file__).parent / "measured"


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """The rows of one file, the devices that they ran on, and what of the file is left out and why."""

    name: str
    rows: tuple[Measurement, ...]
    devices: dict[str, Accelerator]
    left_out: tuple[str, ...] = ()

    @property
    def runs(self) -> list[Measurement]:
        """The rows, and the dense kernels beside them."""
        return [one for row in self.rows for one in (row, row.dense) if one is not None]


def load(path: Path) -> MeasuredSet:
    """Read measurements; a device is one of the catalogue, a path, or described in DEVICE.yaml beside the file.

    Rows that are well formed but cannot be true (a rate above the peak, bytes above the bandwidth, two times of one launch more than a
    factor of 2 apart) are left out, and listed in `left_out`, if they are at most 1% of the table. Raises InputError with every problem and
    its row: of more such rows, of a cell that is missing, negative or contradictory, of a device without a description.
    """
    problems, devices, left_out = ProblemCollector(), dict[str, Accelerator](), list[str]()
    load_device = once(lambda name: described(name, path.parent))
    if path.name in published.TABLES:
        rows, left_out = published.read(path, Measurement, problems)
    else:
        rows = read_rows(path, Measurement, problems)
    for line, row in rows:
        with problems.collect(path, line, "device"):
            devices[row.device] = load_device(row.device)
    named = [(line, row.model_copy(update={"device": devices[row.device].name})) for line, row in rows if row.device in devices]
    known = {device.name: device for device in devices.values()}
    implausible = ProblemCollector()
    for line, row in named:
        sanity_checks.check_rates(path, line, row, known[row.device], implausible)
    wrong = {problem.line for problem in implausible.problems}
    wrong |= sanity_checks.check_repeats(path, [(line, row) for line, row in named if line not in wrong], implausible)
    wrong |= {problem.line for problem in implausible.problems}
    if problems.problems or len(wrong) > MOST_WRONG * len(named):
        raise InputError.from_problems([*problems.problems, *implausible.problems])
    plausible_rows = tuple(row for line, row in named if line not in wrong)
    return MeasuredSet(path.stem, plausible_rows, known, (*left_out, *map(str, implausible.problems)))


def once(load: Callable[[str], T]) -> Callable[[str], T]:
    """`load`, called once for each name: a table may have thousands of rows. A InputError is raised again for each row."""
    found: dict[str, T | InputError] = {}

    def load_once(name: str) -> T:
        if name not in found:
            try:
                found[name] = load(name)
            except InputError as error:
                found[name] = error
        if isinstance(known := found[name], InputError):
            raise known
        return known

    return load_once


def pooled(sets: Sequence[MeasuredSet]) -> MeasuredSet:
    """All rows together, so that a kernel may stand in several files; raises InputError for a device that they describe differently."""
    devices: dict[str, Accelerator] = {}
    for measured in sets:
        for name, device in measured.devices.items():
            if devices.setdefault(name, device).document.data != device.document.data:
                what = f"'{name}' is described differently in '{devices[name].document.path}' and '{device.document.path}'"
                raise InputError(what, "keep one of them")
    left_out = tuple(reason for measured in sets for reason in measured.left_out)
    return MeasuredSet("pooled", tuple(row for measured in sets for row in measured.rows), devices, left_out)


def described(name: str, folder: Path) -> Accelerator:
    """The device that a row in `folder` speaks of: NAME.yaml beside it, one of the catalogue, or a path; raises InputError with the
    problems of a description, and with one more for the row that wants it."""
    beside = folder / f"{name}.yaml"
    path = beside if os.path.exists(beside) else catalog.find_path("accel_models", name, folder)
    try:
        return read_accelerator(path)
    except InputError as error:
        raise InputError.from_problems(
            [*error.problems, Problem(f"the description of '{name}' cannot be used", f"mend '{path}'")]
        ) from error
