"""Load tables of measured modules, and group their rows by kernel as arrays of launches."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dse.base.errors import Problem, ProblemCollector
from dse.base.input_file import parse_rows, read_cells, required_columns, table_name
from dse.calibrate.modules.launches import COMPUTE_DTYPES, ModuleKey, ModuleLaunches, ModuleRates
from dse.calibrate.modules.measurement import ModuleMeasurement, find_module_table
from dse.calibrate.modules.shapes import MODULE_SHAPES, LatentShape
from dse.calibrate.published.read import convert_rows
from dse.calibrate.tables.exclusions import refuse_many
from dse.calibrate.tables.measurement_set import load_device, memoize_by_name
from dse.calibrate.tables.sanity_checks import MAX_OF_PEAK, find_above_peak
from dse.schema.accelerator import Accelerator

NumberedRows = list[tuple[int, ModuleMeasurement]]  # with the line of each
MIN_SHAPES_OF_MODULE = 20  # of a kernel that is fitted, so that each of five groups has some


@dataclass(frozen=True, eq=False)
class ModuleSet:
    """Launches of the modules of a table by kernel, network and dtype, and the reason of each row that is left out."""

    name: str
    launches: dict[ModuleKey, ModuleLaunches]
    left_out: tuple[str, ...] = ()

    @property
    def fittable(self) -> list[list[ModuleLaunches]]:
        """The launches of each kernel with enough shapes, by network and dtype."""
        return [groups for groups in self._by_kernel.values() if count_shapes(groups) >= MIN_SHAPES_OF_MODULE]

    @property
    def kernels_with_few_shapes(self) -> list[str]:
        """The other kernels, each with its number of shapes."""
        counts = {name: count_shapes(groups) for name, groups in self._by_kernel.items()}
        return [
            f"{' '.join(filter(None, name))}: {count} shapes, fewer than {MIN_SHAPES_OF_MODULE}"
            for name, count in counts.items()
            if count < MIN_SHAPES_OF_MODULE
        ]

    @property
    def _by_kernel(self) -> dict[tuple[str, ...], list[ModuleLaunches]]:
        by_kernel = dict[tuple[str, ...], list[ModuleLaunches]]()
        for key, launches in self.launches.items():
            if len(launches):
                by_kernel.setdefault((key.device, key.kernel, key.release, key.phase), []).append(launches)
        return by_kernel


def count_shapes(groups: Sequence[ModuleLaunches]) -> int:
    """Distinct shapes of several groups of launches."""
    return len({shape for launches in groups for shape in launches.shapes})


def load_modules(path: Path) -> ModuleSet:
    """Read a table of modules; rows without a described device or unit, or above a peak, are left out with their reason.

    Raises InputError with all errors of the table, also if more than 1% of the rows are above a peak.
    """
    problems, devices = ProblemCollector(), dict[str, Accelerator]()
    header, lines = read_cells(path, required_columns(ModuleMeasurement))
    published = find_module_table(header)
    if published is None:
        rows, left_out = parse_rows(path, header, lines, ModuleMeasurement, problems), []
    else:
        rows, left_out = convert_rows(path, header, lines, published, ModuleMeasurement, problems)
    load_once = memoize_by_name(lambda name: load_device(name, path.parent))
    for line, row in rows:
        with problems.collect(path, line, "device"):
            devices[row.device] = load_once(row.device)
    problems.raise_if_any()
    launches, reasons, implausible = _group(path, rows, devices)
    refuse_many(implausible, len(rows))
    return ModuleSet(table_name(path), launches, (*left_out, *reasons, *map(str, implausible)))


def _group(
    path: Path, rows: NumberedRows, devices: dict[str, Accelerator]
) -> tuple[dict[ModuleKey, ModuleLaunches], list[str], list[Problem]]:
    """Launches of each kernel, the reasons of the rows that no unit computes, and a problem for each row above a peak."""
    by_kernel, launches = dict[ModuleKey, NumberedRows](), dict[ModuleKey, ModuleLaunches]()
    reasons, implausible = list[str](), list[Problem]()
    for line, row in rows:
        identity = row.kernel, row.release, row.phase, row.network, row.weight_dtype, row.cache_dtype
        by_kernel.setdefault(ModuleKey(devices[row.device].name, *identity), []).append((line, row))
    for key, of_kernel in by_kernel.items():
        rates = ModuleRates.from_accelerator(devices[of_kernel[0][1].device])
        missing = ["bf16 with known processors"] if rates is None else _missing_dtypes(key, rates)
        if rates is None or missing:
            what = " or ".join(missing)
            reasons += [f"'{key.device}' has no unit that computes in {what}"] * len(of_kernel)
            continue
        launches[key], problems = _build_launches(path, key, rates, of_kernel)
        implausible += problems
    return launches, reasons, implausible


def _missing_dtypes(key: ModuleKey, rates: ModuleRates) -> list[str]:
    """Dtypes that a module computes in, and its device does not."""
    needed = {COMPUTE_DTYPES[key.weight_dtype], *(("fp8",) if isinstance(MODULE_SHAPES[key.network], LatentShape) else ())}
    return sorted(needed - rates.peak.keys())


def _build_launches(path: Path, key: ModuleKey, rates: ModuleRates, rows: NumberedRows) -> tuple[ModuleLaunches, list[Problem]]:
    """Arrays of the plausible launches of a module, and a problem for each row of the others.

    A launch that was measured repeatedly counts once, with its mean time.
    """
    by_launch = dict[tuple[int, ...], NumberedRows]()
    for line, row in rows:
        by_launch.setdefault((row.heads, row.sequences, row.queries, row.keys), []).append((line, row))
    heads, sequences, queries, keys = np.array(list(by_launch), dtype=float).T
    times = np.array([np.mean([row.time_ms / 1e3 for _, row in of_launch]) for of_launch in by_launch.values()])
    launches = ModuleLaunches(key, rates, heads, sequences, queries, keys, times)
    shares = launches.compute_time / times
    places = ([(path, line) for line, _ in of_launch] for of_launch in by_launch.values())
    return launches.take(shares <= MAX_OF_PEAK), find_above_peak(shares.tolist(), places, key.device)
