"""Checks of measured rows against their device and each other: impossible rates, and two times of one launch."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dse.base.dtype import OperandDtypes
from dse.base.errors import Problem, ProblemCollector, did_you_mean
from dse.calibrate.tables.measurement import Measurement
from dse.schema.accelerator import Accelerator
from dse.schema.compute_unit import Unit

# Clocks pass those published: dense kernels reach 1.08 of the peak on RTX 4090 and RTX 5080 (SlideSparse, xzwgit/gpu-flops-bench).
MAX_OF_PEAK = 1.1
FIX_RATE = "fix the time, the shape or the dtype"
MAX_TIME_RATIO = 2.0  # of two times of one launch that noise explains
Place = tuple[Path, int]  # table and line of a row


def find_unit(device: Accelerator, row: Measurement) -> str | None:
    """Name of the unit that a kernel runs on: the one that the row states, else the fastest in its dtype; None if there is none."""
    stated = {name: unit for name, unit in device.units.items() if row.unit in (name, None)}
    return fastest_unit(stated, row.dtype.compute)


def fastest_unit(units: Mapping[str, Unit], dtype: str) -> str | None:
    """Name of the unit with the highest peak in a dtype; None if no unit computes in it."""
    capable = [name for name, unit in units.items() if dtype in unit.peak]
    return max(capable, key=lambda name: units[name].peak[dtype].value, default=None)


class RateCheck:
    """Checks rows against the peaks and the memory bandwidth of a device."""

    def __init__(self, device: Accelerator):
        self.device = device
        self.bandwidth = device.value(f"memory.{device.outermost}.bandwidth")
        self.on_chip_bytes = _on_chip_bytes(device)

    def check(self, path: Path, line: int, row: Measurement, problems: ProblemCollector) -> None:
        """Collect a problem for each time of a row without a unit for its dtype, above its peak or above the memory bandwidth."""
        for kernel, column in row.timed_kernels:
            unit = find_unit(self.device, kernel)
            if unit is None:
                problems.add(_no_unit_problem(path, line, kernel, self.device))
            elif what := self._impossible_rate(kernel, unit):
                problems.add(Problem(what, FIX_RATE, path, line, column))

    def _impossible_rate(self, kernel: Measurement, unit: str) -> str | None:
        seconds, peak = kernel.time_ms / 1e3, self.device.units[unit].peak[kernel.dtype.compute].value
        flop_rate = 2 * kernel.m * kernel.k * kernel.n * kernel.stored_density / seconds
        if flop_rate > MAX_OF_PEAK * peak:
            return f"{flop_rate / 1e12:.4g} TFLOP/s is above the peak of '{unit}' in {kernel.dtype.compute}, {peak / 1e12:.4g}"
        moved_bytes = uncacheable_bytes(kernel.m, kernel.k, kernel.n, kernel.stored_density, kernel.dtype, self.on_chip_bytes)
        if (byte_rate := moved_bytes / seconds) > MAX_OF_PEAK * self.bandwidth:
            limit = f"the bandwidth of '{self.device.outermost}', {self.bandwidth / 1e12:.4g}"
            return f"{byte_rate / 1e12:.4g} TB/s of bytes that fit in no cache is above {limit}"
        return None


def _no_unit_problem(path: Path, line: int, kernel: Measurement, device: Accelerator) -> Problem:
    if kernel.unit is not None and kernel.unit not in device.units:
        return Problem(f"'{device.name}' has no unit '{kernel.unit}'", did_you_mean(kernel.unit, device.units), path, line, "unit")
    dtypes = {name for unit in device.units.values() for name in unit.peak}
    return Problem(describe_missing_unit(device, kernel), did_you_mean(kernel.dtype.compute, dtypes), path, line, "dtype")


def describe_missing_unit(device: Accelerator, kernel: Measurement) -> str:
    """Say that the device of a kernel has no unit for its dtype."""
    return f"'{device.name}' has no unit {kernel.unit or ''} that computes in '{kernel.dtype.compute}'".replace("  ", " ")


def _on_chip_bytes(device: Accelerator) -> float:
    """Capacity of all levels but the outermost together [B]."""
    return sum(level.capacity.value for name, level in device.memory.items() if name != device.outermost and level.capacity is not None)


def uncacheable_bytes(m: float, k: float, n: float, density: float, dtype: OperandDtypes, on_chip_bytes: float) -> float:
    """Bytes of operands and result beyond what fits on chip: they cross the memory interface, wherever they were before the launch."""
    elements = {"weights": m * k * density, "activations": k * n * density, "outputs": m * n}
    return max(0.0, sum(count * dtype.bytes_per_element(role) for role, count in elements.items()) - on_chip_bytes)


def find_above_peak(shares: Iterable[float], places: Iterable[Sequence[Place]], device: str) -> list[Problem]:
    """A problem for each row of the launches whose share of the peak is not plausible; `places`: of the rows of each launch."""
    return [
        Problem(f"the rate is above the peak of '{device}', by a factor of {share:.3g}", FIX_RATE, path, line, "time_ms")
        for share, rows in zip(shares, places, strict=True)
        if share > MAX_OF_PEAK
        for path, line in rows
    ]


def check_repeats(path: Path, rows: Sequence[tuple[int, Measurement]], problems: ProblemCollector) -> set[int]:
    """Collect a problem for each time that contradicts an earlier row of the same launch; returns the lines of those earlier rows.

    Masks with different row statistics are different launches.
    """
    first_rows: dict[tuple[object, ...], tuple[int, float]] = {}
    contradicted = set()
    for line, row in rows:
        for kernel, column in row.timed_kernels:
            first_line, time = first_rows.setdefault(_launch_identity(kernel), (line, kernel.time_ms))
            if not 1 / MAX_TIME_RATIO <= kernel.time_ms / time <= MAX_TIME_RATIO:
                what = f"{kernel.time_ms:g} ms, where row {first_line} has {time:g} ms for the same launch"
                problems.add(Problem(what, "remove the wrong one", path, line, column))
                contradicted.add(first_line)
    return contradicted


def _launch_identity(row: Measurement) -> tuple[object, ...]:
    return row.device, row.kernel, row.release, row.dtype, row.unit, *row.launch
