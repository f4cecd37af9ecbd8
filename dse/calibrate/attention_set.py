"""Load tables of measured fused attention, and group their rows by kernel as arrays of launches."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dse.base.errors import InputError, ProblemCollector
from dse.base.input_file import parse_rows, read_cells, required_columns, table_name
from dse.calibrate.attention_measurement import AttentionMeasurement, find_attention_table
from dse.calibrate.measurement_set import MAX_IMPLAUSIBLE, load_device, memoize_by_name
from dse.calibrate.published.read import convert_rows
from dse.calibrate.sanity_checks import MAX_OF_PEAK
from dse.model.efficiency.attention_launches import AttentionKey, AttentionLaunches, AttentionRates, phase_of
from dse.schema.accelerator import Accelerator

MIN_LAUNCHES = 40  # of a kernel that is fitted


@dataclass(frozen=True, eq=False)
class AttentionSet:
    """Launches of the kernels of one or more tables, the sources of each, and the reason of each row that is left out."""

    name: str
    launches: dict[AttentionKey, AttentionLaunches]
    sources: dict[AttentionKey, tuple[str, ...]]
    left_out: tuple[str, ...] = ()

    @property
    def fittable(self) -> list[AttentionKey]:
        """The kernels with enough launches."""
        return sorted(key for key, launches in self.launches.items() if len(launches) >= MIN_LAUNCHES)

    @property
    def kernels_with_few_launches(self) -> list[str]:
        """The other kernels, each with its number of launches."""
        few = (key for key in self.launches if len(self.launches[key]) < MIN_LAUNCHES)
        return [f"{key}: {len(self.launches[key])} launches, fewer than {MIN_LAUNCHES}" for key in few]


def load_attention(paths: Sequence[Path]) -> AttentionSet:
    """Read tables of fused attention; rows without a described device or unit, or above a peak, are left out with their reason.

    Raises InputError with all errors of the tables, also if more than 1% of the rows are above a peak.
    """
    problems, rows, left_out, devices = ProblemCollector(), [], [], dict[str, Accelerator]()
    for path in paths:
        with problems.collect():
            read, reasons = _read_rows(path, problems)
            left_out += reasons
            load_once = memoize_by_name(lambda name, folder=path.parent: load_device(name, folder))
            for line, row in read:
                with problems.collect(path, line, "device"):
                    devices[row.device] = load_once(row.device)
                    rows.append(row)
    problems.raise_if_any()
    launches, sources, reasons = _group(rows, devices)
    too_fast = sum(reason.endswith("above the peak") for reason in reasons)
    if too_fast > MAX_IMPLAUSIBLE * len(rows):
        what = f"{too_fast} of {len(rows)} rows of '{paths[0]}' are above the peak of their device"
        raise InputError(what, "fix the times, the shapes or the dtypes")
    return AttentionSet(table_name(paths[0]) if len(paths) == 1 else "pooled", launches, sources, (*left_out, *reasons))


def _read_rows(path: Path, problems: ProblemCollector) -> tuple[list[tuple[int, AttentionMeasurement]], list[str]]:
    header, lines = read_cells(path, required_columns(AttentionMeasurement))
    published = find_attention_table(header)
    if published is None:
        return parse_rows(path, header, lines, AttentionMeasurement, problems), []
    return convert_rows(path, header, lines, published, AttentionMeasurement, problems)


def _group(
    rows: Sequence[AttentionMeasurement], devices: dict[str, Accelerator]
) -> tuple[dict[AttentionKey, AttentionLaunches], dict[AttentionKey, tuple[str, ...]], list[str]]:
    """Launches and sources of each kernel, and the reasons of the rows left out."""
    by_kernel, reasons = dict[AttentionKey, list[AttentionMeasurement]](), list[str]()
    for row in rows:
        by_kernel.setdefault(_kernel_key(row, devices[row.device]), []).append(row)
    launches, sources = {}, {}
    for key, of_kernel in by_kernel.items():
        device = devices[of_kernel[0].device]
        unit = _find_unit(device, key.dtype)
        if reason := _missing(device, unit, key.dtype):
            reasons += [reason] * len(of_kernel)
            continue
        assert unit is not None
        built = _build_launches(key, AttentionRates.from_accelerator(device, unit, key.dtype, key.cache_dtype), of_kernel)
        plausible = built.flops / built.time <= MAX_OF_PEAK * built.rates.cache_peak
        reasons += [f"{key} {shape}: above the peak" for shape in built.take(~plausible).shapes]
        launches[key], sources[key] = built.take(plausible), tuple(sorted({row.source for row in of_kernel}))
    return launches, sources, reasons


def _kernel_key(row: AttentionMeasurement, device: Accelerator) -> AttentionKey:
    phase = phase_of(row.queries, row.causal)
    return AttentionKey(device.name, row.kernel, row.release, phase, row.dtype, row.cache_dtype or row.dtype)


def _find_unit(device: Accelerator, dtype: str) -> str | None:
    """Name of the fastest unit in a dtype, None if there is none."""
    capable = [name for name, unit in device.units.items() if dtype in unit.peak]
    return max(capable, key=lambda name: device.units[name].peak[dtype].value, default=None)


def _missing(device: Accelerator, unit: str | None, dtype: str) -> str:
    """What the description of a device lacks; empty if nothing."""
    if unit is None:
        return f"'{device.name}' has no unit that computes in '{dtype}'"
    return "" if device.units[unit].processors else f"'{device.name}' does not state units.{unit}.processors"


def _build_launches(key: AttentionKey, rates: AttentionRates, rows: Sequence[AttentionMeasurement]) -> AttentionLaunches:
    """Arrays of the launches of a kernel; a launch that was measured repeatedly counts once, with its mean time."""
    times = dict[tuple[object, ...], list[float]]()
    for row in rows:
        sizes = row.sequences, row.queries, row.keys, row.heads, row.kv_heads, row.head_size, row.window or np.inf
        times.setdefault((*sizes, row.causal, row.writes_cache), []).append(row.time_ms / 1e3)
    columns = [np.array(column) for column in zip(*times, strict=True)]
    sequences, queries, keys, heads, kv_heads, size, window = (column.astype(float) for column in columns[:7])
    mean_times = np.array([np.mean(time) for time in times.values()])
    return AttentionLaunches(key, rates, sequences, queries, keys, heads, kv_heads, size, window, columns[7], columns[8], mean_times)
