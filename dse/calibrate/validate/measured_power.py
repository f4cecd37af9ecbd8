"""Compare the mean power of measured kernels with energies per operation and byte: `dse validate power TABLE`.

    power = idle + (energy per operation * operations + energy per byte * compulsory bytes) / measured time

A driver reports the mean power of the last second (NVML on current GPUs), but benchmarks repeat a kernel for less than that, so a reading
mixes the kernel with what ran before it. Nothing takes more than the power limit, so a reading near the limit is that of the kernel itself.
Only such readings are compared, of kernels that last long enough for 0.45 s of repeats. These kernels are throttled: their time
is the one that the power limit allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from dse.base.errors import InputError
from dse.base.table_format import Row, format_json, format_table
from dse.calibrate.tables.launches import build_launches, kernel_key
from dse.calibrate.tables.measurement import Measurement
from dse.calibrate.tables.measurement_set import MeasurementSet
from dse.model.cost.action_energy import energy_per_byte, energy_per_operation
from dse.model.cost.design import Design
from dse.model.cost.power import static_power

NEAR_LIMIT = 0.965  # of the power limit
MIN_TIME = 0.15e-3  # s: 3000 repeats of the benchmark in ai-dynamo/aiconfigurator take 0.45 s
MIN_READINGS = 4  # of a kernel: two in each half

PerReading = Float[np.ndarray, "reading"]


@dataclass(frozen=True, eq=False)
class LimitedKernels:
    """The power readings of one kernel of a device in one dtype that are near the power limit.

    `read` counts all readings. Energies [J] are those of the description or the cost model.
    """

    device: str
    kernel: str
    dtype: str
    width: float
    read: int
    shapes: list[tuple[int, int, int]]
    flops: PerReading
    time: PerReading
    power: PerReading
    limit: PerReading
    static: float
    bytes_energy: PerReading
    energy_per_flop: float

    def predict_power(self, energy_per_flop: float) -> PerReading:
        """Mean power [W] over the measured time."""
        return self.static + (energy_per_flop * self.flops + self.bytes_energy) / self.time

    def predict_time(self, energy_per_flop: float) -> PerReading:
        """Time [s] that the power limit leaves."""
        return (energy_per_flop * self.flops + self.bytes_energy) / (self.limit - self.static)

    def fit_energy(self, chosen: Bool[np.ndarray, "reading"]) -> float:
        """Median energy per operation [J/FLOP] that explains the chosen readings."""
        energy = (self.power - self.static) * self.time - self.bytes_energy
        return float(np.median(energy[chosen] / self.flops[chosen]))

    @property
    def in_first_half(self) -> Bool[np.ndarray, "reading"]:
        """Every second shape, sorted by size."""
        order = {shape: number for number, shape in enumerate(sorted(set(self.shapes)))}
        return np.array([order[shape] % 2 == 0 for shape in self.shapes], bool)


def select_limited(measurements: MeasurementSet) -> list[LimitedKernels]:
    """The readings near the power limit, by device, kernel and dtype; kernels with few of them are left out."""
    rows: dict[tuple[str, str, str], list[Measurement]] = {}
    for row in measurements.rows:
        if row.power_w and row.power_limit_w:
            rows.setdefault((row.device, f"{row.kernel} {row.release}".strip(), row.dtype.text), []).append(row)
    groups = []
    for (device, kernel, dtype), read in rows.items():
        near = [row for row in read if row.time_ms / 1e3 >= MIN_TIME and (row.power_w or 0) >= NEAR_LIMIT * (row.power_limit_w or 0)]
        if len(near) >= MIN_READINGS:
            groups.append(_limited_kernels(device, kernel, dtype, len(read), near, measurements))
    return groups


def _limited_kernels(
    device: str, kernel: str, dtype: str, read: int, rows: list[Measurement], measurements: MeasurementSet
) -> LimitedKernels:
    accelerator, key = measurements.devices[device], kernel_key(rows[0], measurements)
    design, launches = Design(accelerator), build_launches(key, accelerator, [[row] for row in rows])
    return LimitedKernels(
        device,
        kernel,
        dtype,
        8 * rows[0].dtype.bytes_per_element("weights"),
        read,
        [(row.m, row.k, row.n) for row in rows],
        launches.flops,
        launches.time,
        np.array([row.power_w for row in rows]),
        np.array([row.power_limit_w for row in rows]),
        float(static_power(design)),
        float(energy_per_byte(design, accelerator.outermost)) * launches.needed_product.compulsory_bytes,
        float(energy_per_operation(design, key.unit, rows[0].dtype.compute)),
    )


def compare_power(groups: Sequence[LimitedKernels]) -> list[Row]:
    """Errors of the mean power and of the power-limited time of each group.

    Three energies per operation: as described, as fitted to half of the shapes (errors of the other half), and as extrapolated over the
    width of the operands from the other dtypes of the device and kernel (a power law; only where there are two).
    """
    return [_compare_group(group, _extrapolate_energy(group, groups)) for group in groups]


def _compare_group(group: LimitedKernels, extrapolated: float | None) -> Row:
    first, everything = group.in_first_half, np.ones(len(group.shapes), bool)
    halves = [(group.fit_energy(half), ~half) for half in (first, ~first)]
    left_out = [_mean_error(group.predict_power(energy)[others], group.power[others]) for energy, others in halves]
    return {
        "device": group.device,
        "kernel": group.kernel,
        "dtype": group.dtype,
        "readings": group.read,
        "near the limit": len(group.shapes),
        "described [pJ/FLOP]": group.energy_per_flop * 1e12,
        "power error": _mean_error(group.predict_power(group.energy_per_flop), group.power),
        "time error": _mean_error(group.predict_time(group.energy_per_flop), group.time),
        "fitted [pJ/FLOP]": group.fit_energy(everything) * 1e12,
        "power error, other half": float(np.mean(left_out)),
        "extrapolated [pJ/FLOP]": None if extrapolated is None else extrapolated * 1e12,
        "power error, other dtypes": None if extrapolated is None else _mean_error(group.predict_power(extrapolated), group.power),
    }


def _mean_error(predicted: PerReading, measured: PerReading) -> float:
    """Mean absolute relative error."""
    return float(np.mean(np.abs(predicted / measured - 1)))


def _extrapolate_energy(group: LimitedKernels, groups: Sequence[LimitedKernels]) -> float | None:
    """Energy per operation [J/FLOP] from those of other widths on the same device: a power law of the width."""
    by_width = {
        other.width: other.fit_energy(np.ones(len(other.shapes), bool))
        for other in groups
        if (other.device, other.kernel) == (group.device, group.kernel) and other.width != group.width
    }
    if len(by_width) < 2 or min(by_width.values()) <= 0:
        return None
    exponent, log_energy = np.polyfit(np.log(list(by_width)), np.log(list(by_width.values())), 1)
    return float(np.exp(log_energy + exponent * np.log(group.width)))


def report_power(measurements: MeasurementSet, as_json: bool) -> str:
    """The table of errors as text or JSON."""
    groups = select_limited(measurements)
    if not groups:
        near = f"powers of at least {NEAR_LIMIT:.1%} of the limit over {MIN_TIME * 1e3:g} ms"
        what = f"'{measurements.name}' has no kernel with {MIN_READINGS} {near}"
        raise InputError(what, "give a table with the columns 'power_w' and 'power_limit_w', of kernels that the power limit slows down")
    rows = compare_power(groups)
    if as_json:
        return format_json(rows)
    return format_table([{name: _format_cell(name, value) for name, value in row.items()} for row in rows])


def _format_cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if name.endswith("]") else f"{value:.1%}"
    return str(value)
