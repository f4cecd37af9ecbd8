"""Load tables of measured fused attention, and group their rows by kernel as arrays of launches."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dse.base.errors import Problem, ProblemCollector
from dse.base.input_file import parse_rows, read_cells, required_columns, table_name
from dse.calibrate.attention.measurement import AttentionMeasurement, check_causal_columns, find_attention_table
from dse.calibrate.published.read import convert_rows
from dse.calibrate.tables.exclusions import refuse_many
from dse.calibrate.tables.measurement_set import devices_by_name, load_device, memoize_by_name
from dse.calibrate.tables.sanity_checks import MAX_OF_PEAK, fastest_unit, find_above_peak
from dse.model.efficiency.attention.launches import AttentionKey, AttentionLaunches, AttentionRates, phase_of
from dse.schema.accelerator import Accelerator

MIN_LAUNCHES = 40  # of a kernel that is fitted
Launch = tuple[float | bool, ...]


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


class LocatedRow(NamedTuple):
    """A row with its table, its line and the description of its device."""

    path: Path
    line: int
    row: AttentionMeasurement
    device: Accelerator

    @property
    def key(self) -> AttentionKey:
        """The kernel of the row."""
        row, phase = self.row, phase_of(self.row.queries, self.row.causal)
        return AttentionKey(self.device.name, row.kernel, row.release, phase, row.dtype, row.cache_dtype or row.dtype)

    @property
    def launch(self) -> Launch:
        """What distinguishes a launch of the kernel from all others: sizes, window, and which of its parts are computed."""
        row = self.row
        sizes = row.sequences, row.queries, row.keys, row.heads, row.kv_heads, row.head_size, row.window or np.inf
        return *sizes, row.causal, row.writes_cache


def load_attention(paths: Sequence[Path]) -> AttentionSet:
    """Read tables of fused attention; rows without a described device or unit, or above a peak, are left out with their reason.

    Raises InputError with all errors of the tables, also if more than 1% of the rows are above a peak.
    """
    problems, rows, left_out = ProblemCollector(), list[LocatedRow](), list[str]()
    for path in paths:
        with problems.collect():
            read, reasons = _read_rows(path, problems)
            left_out += reasons
            load_once = memoize_by_name(lambda name, folder=path.parent: load_device(name, folder))
            for line, row in read:
                with problems.collect(path, line, "device"):
                    rows.append(LocatedRow(path, line, row, load_once(row.device)))
    with problems.collect():
        devices_by_name(row.device for row in rows)
    problems.raise_if_any()
    launches, sources, reasons, implausible = _group(rows)
    refuse_many(implausible, len(rows))
    left_out += [*reasons, *map(str, implausible)]
    return AttentionSet(table_name(paths[0]) if len(paths) == 1 else "pooled", launches, sources, tuple(left_out))


def _read_rows(path: Path, problems: ProblemCollector) -> tuple[list[tuple[int, AttentionMeasurement]], list[str]]:
    header, lines = read_cells(path, required_columns(AttentionMeasurement))
    published = find_attention_table(header)
    if published is None:
        return parse_rows(path, header, lines, AttentionMeasurement, problems), []
    check_causal_columns(path, header, lines)
    return convert_rows(path, header, lines, published, AttentionMeasurement, problems)


def _group(
    rows: Sequence[LocatedRow],
) -> tuple[dict[AttentionKey, AttentionLaunches], dict[AttentionKey, tuple[str, ...]], list[str], list[Problem]]:
    """Launches and sources of each kernel, the reasons of the rows that no unit computes, and a problem for each row above a peak."""
    by_kernel, reasons, implausible = dict[AttentionKey, list[LocatedRow]](), list[str](), list[Problem]()
    for row in rows:
        by_kernel.setdefault(row.key, []).append(row)
    launches, sources = {}, {}
    for key, of_kernel in by_kernel.items():
        device = of_kernel[0].device
        unit = fastest_unit(device.units, key.dtype)
        if reason := _missing(device, unit, key.dtype):
            reasons += [reason] * len(of_kernel)
            continue
        assert unit is not None
        rates = AttentionRates.from_accelerator(device, unit, key.dtype, key.cache_dtype)
        launches[key], problems = _build_launches(key, rates, of_kernel)
        sources[key] = tuple(sorted({each.row.source for each in of_kernel}))
        implausible += problems
    return launches, sources, reasons, implausible


def _missing(device: Accelerator, unit: str | None, dtype: str) -> str:
    """What the description of a device lacks; empty if nothing."""
    if unit is None:
        return f"'{device.name}' has no unit that computes in '{dtype}'"
    return "" if device.units[unit].processors else f"'{device.name}' does not state units.{unit}.processors"


def _build_launches(key: AttentionKey, rates: AttentionRates, rows: Sequence[LocatedRow]) -> tuple[AttentionLaunches, list[Problem]]:
    """Arrays of the plausible launches of a kernel, and a problem for each row of the others.

    A launch that was measured repeatedly counts once, with its mean time.
    """
    by_launch = dict[Launch, list[LocatedRow]]()
    for row in rows:
        by_launch.setdefault(row.launch, []).append(row)
    columns = [np.array(column) for column in zip(*by_launch, strict=True)]
    sequences, queries, keys, heads, kv_heads, size, window = (column.astype(float) for column in columns[:7])
    times = np.array([np.mean([each.row.time_ms / 1e3 for each in of_launch]) for of_launch in by_launch.values()])
    launches = AttentionLaunches(key, rates, sequences, queries, keys, heads, kv_heads, size, window, columns[7], columns[8], times)
    shares = launches.flops / times / rates.cache_peak
    places = ([(each.path, each.line) for each in of_launch] for of_launch in by_launch.values())
    return launches.take(shares <= MAX_OF_PEAK), find_above_peak(shares.tolist(), places, key.device)
