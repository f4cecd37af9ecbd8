"""What measured rows may not say: rates above those of the device, and two times of one launch."""

from collections.abc import Sequence
from pathlib import Path

from dse.base.dtype import OperandDtypes
from dse.base.errors import Problem, ProblemCollector, did_you_mean
from dse.calibrate.measurement import Measurement
from dse.schema.accelerator import Accelerator

ABOVE_PEAK = 1.05  # boost clocks pass the data sheet by a few percent
APART = 2.0  # times of one launch: more than noise explains


def unit_of(device: Accelerator, row: Measurement) -> str | None:
    """The unit that a kernel runs on: the one that the row names, else the fastest that has the dtype."""
    having = [name for name, unit in device.units.items() if row.dtype.compute in unit.peak]
    if row.unit is not None:
        return row.unit if row.unit in having else None
    return max(having, key=lambda name: device.units[name].peak[row.dtype.compute].value, default=None)


def check_rates(path: Path, line: int, row: Measurement, device: Accelerator, problems: ProblemCollector) -> None:
    """That a unit of the device computes in the dtype, no faster than its peak, and that no byte comes faster than its memory brings it."""
    for one, column in ((row, "time_ms"), (row.dense, "dense_ms")):
        if one is None:
            continue
        unit = unit_of(device, one)
        if unit is None:
            problems.add(_no_unit(path, line, one, device))
            continue
        seconds, peak = one.time_ms / 1e3, device.units[unit].peak[one.dtype.compute].value
        rate, moved = (
            2 * one.m * one.k * one.n * one.kept / seconds,
            from_outside(one.m, one.k, one.n, one.kept, one.dtype, _held(device)) / seconds,
        )
        bandwidth = device.value(f"memory.{device.outermost}.bandwidth")
        what = None
        if rate > ABOVE_PEAK * peak:
            what = f"{rate / 1e12:.4g} TFLOP/s is above the peak of '{unit}' in {one.dtype.compute}, {peak / 1e12:.4g}"
        elif moved > ABOVE_PEAK * bandwidth:
            what = f"{moved / 1e12:.4g} TB/s of what no cache holds is above the bandwidth of '{device.outermost}', {bandwidth / 1e12:.4g}"
        if what:
            problems.add(Problem(what, "mend the time, the shape or the dtype", path, line, column))


def _no_unit(path: Path, line: int, row: Measurement, device: Accelerator) -> Problem:
    if row.unit is not None and row.unit not in device.units:
        return Problem(f"'{device.name}' has no unit '{row.unit}'", did_you_mean(row.unit, device.units), path, line, "unit")
    offered = {name for unit in device.units.values() for name in unit.peak}
    what = f"'{device.name}' has no unit {row.unit or ''} that computes in '{row.dtype.compute}'".replace("  ", " ")
    return Problem(what, did_you_mean(row.dtype.compute, offered), path, line, "dtype")


def _held(device: Accelerator) -> float:
    """What fits on chip, in all levels together [B]."""
    return sum(level.capacity.value for name, level in device.memory.items() if name != device.outermost and level.capacity is not None)


def from_outside(m: float, k: float, n: float, kept: float, dtype: OperandDtypes, held: float) -> float:
    """Bytes of the values of operands and result beyond what is `held`: they have to come from outside, wherever they were before."""
    sizes = {"weights": m * k * kept, "activations": k * n * kept, "outputs": m * n}
    return max(0.0, sum(size * dtype.bytes_per_element(role) for role, size in sizes.items()) - held)


def check_repeats(path: Path, rows: Sequence[tuple[int, Measurement]], problems: ProblemCollector) -> set[int]:
    """Check that the same launch, where it stands in several rows, takes about the same time; returns the rows that others contradict.

    Launches of masks with other row statistics are other launches.
    """
    first: dict[tuple[object, ...], tuple[int, float]] = {}
    contradicted = set()
    for line, row in rows:
        for one, column in ((row, "time_ms"), (row.dense, "dense_ms")):
            if one is None:
                continue
            size = one.m, one.k, one.n, one.kept, one.row_std, one.staged_kib
            launch = one.device, one.kernel, one.release, one.pattern, one.dtype, one.unit, *size
            where, time = first.setdefault(launch, (line, one.time_ms))
            if not 1 / APART <= one.time_ms / time <= APART:
                what = f"{one.time_ms:g} ms, where row {where} has {time:g} ms for the same launch"
                problems.add(Problem(what, "leave out what is wrong", path, line, column))
                contradicted.add(where)
    return contradicted
