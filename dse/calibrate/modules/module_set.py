"""Load tables of measured modules, and group their rows by kernel as arrays of launches."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dse.base.errors import ProblemCollector
from dse.base.input_file import parse_rows, read_cells, required_columns, table_name
from dse.calibrate.measurement_set import load_device, memoize_by_name
from dse.calibrate.modules.launches import COMPUTE_DTYPES, ModuleKey, ModuleLaunches, ModuleRates
from dse.calibrate.modules.measurement import ModuleMeasurement, find_module_table
from dse.calibrate.modules.shapes import MODULE_SHAPES, LatentShape
from dse.calibrate.published.read import convert_rows
from dse.calibrate.sanity_checks import MAX_OF_PEAK
from dse.schema.accelerator import Accelerator


@dataclass(frozen=True, eq=False)
class ModuleSet:
    """Launches of the modules of a table by kernel, and the reason of each row that is left out."""

    name: str
    launches: dict[ModuleKey, ModuleLaunches]
    left_out: tuple[str, ...] = ()


def load_modules(path: Path) -> ModuleSet:
    """Read a table of modules; rows without a described device or unit, or above a peak, are left out with their reason.

    A launch that was measured repeatedly counts once, with its mean time. Raises InputError with all errors of the table.
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
    launches, reasons = _group([row for _, row in rows], devices)
    return ModuleSet(table_name(path), launches, (*left_out, *reasons))


def _group(rows: Sequence[ModuleMeasurement], devices: dict[str, Accelerator]) -> tuple[dict[ModuleKey, ModuleLaunches], list[str]]:
    """Launches of each kernel, and the reasons of the rows left out."""
    by_kernel, launches, reasons = dict[ModuleKey, list[ModuleMeasurement]](), {}, list[str]()
    for row in rows:
        identity = row.kernel, row.release, row.phase, row.network, row.weight_dtype, row.cache_dtype
        by_kernel.setdefault(ModuleKey(devices[row.device].name, *identity), []).append(row)
    for key, of_kernel in by_kernel.items():
        rates = ModuleRates.from_accelerator(devices[of_kernel[0].device])
        missing = ["bf16 with known processors"] if rates is None else _missing_dtypes(key, rates)
        if rates is None or missing:
            what = " or ".join(missing)
            reasons += [f"'{key.device}' has no unit that computes in {what}"] * len(of_kernel)
            continue
        built = _build_launches(key, rates, of_kernel)
        is_plausible = built.compute_time <= MAX_OF_PEAK * built.time
        reasons += [f"{key} {shape}: above the peak" for shape in built.take(~is_plausible).shapes]
        launches[key] = built.take(is_plausible)
    return launches, reasons


def _missing_dtypes(key: ModuleKey, rates: ModuleRates) -> list[str]:
    """Dtypes that a module computes in, and its device does not."""
    needed = {COMPUTE_DTYPES[key.weight_dtype], *(("fp8",) if isinstance(MODULE_SHAPES[key.network], LatentShape) else ())}
    return sorted(needed - rates.peak.keys())


def _build_launches(key: ModuleKey, rates: ModuleRates, rows: Sequence[ModuleMeasurement]) -> ModuleLaunches:
    times = dict[tuple[int, ...], list[float]]()
    for row in rows:
        times.setdefault((row.heads, row.sequences, row.queries, row.keys), []).append(row.time_ms / 1e3)
    heads, sequences, queries, keys = np.array(list(times), dtype=float).T
    return ModuleLaunches(key, rates, heads, sequences, queries, keys, np.array([np.mean(each) for each in times.values()]))
