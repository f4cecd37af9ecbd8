"""Load tables of measured kernels with the devices that they ran on; all errors are reported at once."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dse.base import catalog
from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.input_file import parse_rows, read_cells, table_name
from dse.calibrate.published.read import convert_rows, expected_columns, find_published_table
from dse.calibrate.tables.exclusions import MAX_IMPLAUSIBLE
from dse.calibrate.tables.measurement import Measurement
from dse.calibrate.tables.sanity_checks import RateCheck, check_repeats, describe_missing_unit, find_unit
from dse.schema.accelerator import Accelerator, read_accelerator

T = TypeVar("T")
NumberedRows = list[tuple[int, Measurement]]  # with the line of each

SHIPPED_MEASUREMENTS = Path(__file__).parents[1] / "measured"


@dataclass(frozen=True, eq=False)
class MeasurementSet:
    """The rows of one table, their devices by name, and the reason of each row that is left out."""

    name: str
    rows: tuple[Measurement, ...]
    devices: dict[str, Accelerator]
    left_out: tuple[str, ...] = ()

    @property
    def kernels(self) -> list[Measurement]:
        """The rows and their dense baselines."""
        return [kernel for row in self.rows for kernel, _ in row.timed_kernels]


def load_measurements(path: Path) -> MeasurementSet:
    """Read a table of measured kernels; devices are names of the catalogue, paths, or DEVICE.yaml next to the table.

    A table in the columns of `Measurement`, or a published one in its own (see `dse.calibrate.published`).
    Well-formed but implausible rows (a rate above the peak, bytes above the bandwidth, two times of one launch more than a factor of 2
    apart) are left out with their reason if they are at most 1% of the table. Raises InputError with all other errors.
    """
    problems = ProblemCollector()
    rows, left_out, is_published = read_numbered_rows(path, problems)
    devices = _load_devices(path, rows, problems)
    known_rows = [(line, _with_device(row, devices[row.device].name)) for line, row in rows if row.device in devices]
    devices = {device.name: device for device in devices.values()}
    if is_published:
        known_rows, unsupported = _separate_unsupported(known_rows, devices)
        left_out += unsupported
    implausible, implausible_lines = _find_implausible_rows(path, known_rows, devices)
    if problems.problems or len(implausible_lines) > MAX_IMPLAUSIBLE * len(known_rows):
        raise InputError.from_problems([*problems.problems, *implausible])
    plausible_rows = tuple(row for line, row in known_rows if line not in implausible_lines)
    return MeasurementSet(table_name(path), plausible_rows, devices, (*left_out, *map(str, implausible)))


def read_numbered_rows(path: Path, problems: ProblemCollector) -> tuple[NumberedRows, list[str], bool]:
    """The rows of a table, the reason of each row left out, and whether it is a published table in its own columns."""
    header, lines = read_cells(path, expected_columns(path))
    published = find_published_table(path, header)
    if published is None:
        return parse_rows(path, header, lines, Measurement, problems), [], False
    return *convert_rows(path, header, lines, published, Measurement, problems), True


def _with_device(row: Measurement, name: str) -> Measurement:
    return row if row.device == name else row.model_copy(update={"device": name})


def _separate_unsupported(rows: NumberedRows, devices: dict[str, Accelerator]) -> tuple[NumberedRows, list[str]]:
    """The rows whose device has a unit for their dtype, and the reason of each other row."""
    supported, reasons = [], []
    for line, row in rows:
        device = devices[row.device]
        if find_unit(device, row) is None:
            reasons.append(describe_missing_unit(device, row))
        else:
            supported.append((line, row))
    return supported, reasons


def _load_devices(path: Path, rows: NumberedRows, problems: ProblemCollector) -> dict[str, Accelerator]:
    """The accelerators of a table by the text of the column `device`."""
    devices = dict[str, Accelerator]()
    load_once = memoize_by_name(lambda name: load_device(name, path.parent))
    for line, row in rows:
        with problems.collect(path, line, "device"):
            devices[row.device] = load_once(row.device)
    return devices


def _find_implausible_rows(path: Path, rows: NumberedRows, devices: dict[str, Accelerator]) -> tuple[list[Problem], set[int | None]]:
    """Problems of the rows that are implausible, and the lines of all rows involved."""
    collector, checks = ProblemCollector(), {name: RateCheck(device) for name, device in devices.items()}
    for line, row in rows:
        checks[row.device].check(path, line, row, collector)
    lines = {problem.line for problem in collector.problems}
    lines |= check_repeats(path, [(line, row) for line, row in rows if line not in lines], collector)
    return collector.problems, lines | {problem.line for problem in collector.problems}


def memoize_by_name(load: Callable[[str], T]) -> Callable[[str], T]:
    """Call `load` once for each name, as a table may have thousands of rows; an InputError is raised again for each row."""
    results: dict[str, T | InputError] = {}

    def load_once(name: str) -> T:
        if name not in results:
            try:
                results[name] = load(name)
            except InputError as error:
                results[name] = error
        if isinstance(result := results[name], InputError):
            raise result
        return result

    return load_once


def pool(sets: Sequence[MeasurementSet]) -> MeasurementSet:
    """All rows as one set, since a kernel may be in several tables; raises InputError if they describe a device differently."""
    devices = devices_by_name(device for measurements in sets for device in measurements.devices.values())
    left_out = tuple(reason for measurements in sets for reason in measurements.left_out)
    return MeasurementSet("pooled", tuple(row for measurements in sets for row in measurements.rows), devices, left_out)


def devices_by_name(devices: Iterable[Accelerator]) -> dict[str, Accelerator]:
    """Devices of several tables by name; raises InputError if two with one name are described differently."""
    by_name: dict[str, Accelerator] = {}
    for device in devices:
        first = by_name.setdefault(device.name, device)
        if first is not device and first.document.data != device.document.data:
            what = f"'{device.name}' is described differently in '{first.document.path}' and '{device.document.path}'"
            raise InputError(what, "keep one of them")
    return by_name


def load_device(name: str, folder: Path) -> Accelerator:
    """The device that a table in `folder` names: NAME.yaml in that folder, an entry of the catalogue, or a path; raises InputError."""
    local = folder / f"{name}.yaml"
    path = local if os.path.exists(local) else catalog.find_path("accel_models", name, folder)
    try:
        return read_accelerator(path)
    except InputError as error:
        unusable = Problem(f"the description of '{name}' cannot be used", f"fix '{path}'")
        raise InputError.from_problems([*error.problems, unusable]) from error
