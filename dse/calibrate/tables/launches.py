"""Group measured rows by kernel, as arrays of launches: sizes, bytes and times."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from dse.calibrate.tables.measurement import Measurement
from dse.calibrate.tables.measurement_set import MeasurementSet
from dse.calibrate.tables.sanity_checks import find_unit
from dse.model.efficiency.device_rates import DeviceRates
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches, PerLaunch, Shape, pattern_family, random_row_spread
from dse.schema.accelerator import Accelerator
from dse.sparsity.columns import needed_share
from dse.sparsity.format import Delta, Format, default_format
from dse.sparsity.kinds import NM
from dse.sparsity.pattern import FloatOrArray, Pattern

# Formats of kernels that do not store the default one of their pattern. MACKO stores fp16 values with distances of 4 bits in each row
# (vlejd/macko_spmv@afa70330a4c1).
KERNEL_FORMATS: Mapping[str, Format] = {"MACKO": Delta(order="row")}


def group_launches(measurements: MeasurementSet) -> dict[KernelKey, KernelLaunches]:
    """The launches of every kernel of a set, dense baselines included.

    A launch that was measured repeatedly counts once, with its mean time. Masks of one shape and density with different row statistics are
    different launches.
    """
    return {
        key: build_launches(key, measurements.devices[key.device], _group_repeats(rows))
        for key, rows in rows_by_kernel(measurements).items()
    }


def _group_repeats(rows: Sequence[Measurement]) -> list[list[Measurement]]:
    """The rows of each launch of a kernel."""
    rows_by_launch = dict[tuple[object, ...], list[Measurement]]()
    for row in rows:
        rows_by_launch.setdefault(row.launch, []).append(row)
    return list(rows_by_launch.values())


@lru_cache(maxsize=4)  # every kernel of a set is looked up
def rows_by_kernel(measurements: MeasurementSet) -> Mapping[KernelKey, Sequence[Measurement]]:
    """The rows of each kernel of a set, dense baselines included."""
    rows = dict[KernelKey, list[Measurement]]()
    for row in measurements.kernels:
        rows.setdefault(kernel_key(row, measurements), []).append(row)
    return rows


def kernel_key(row: Measurement, measurements: MeasurementSet) -> KernelKey:
    """The identity of the kernel of a row."""
    unit = find_unit(measurements.devices[row.device], row)
    assert unit is not None, "checked on loading"
    return KernelKey(row.device, unit, row.kernel, row.release, pattern_family(row.pattern), row.dtype.text)


def pair_with_baselines(measurements: MeasurementSet) -> dict[KernelKey, KernelKey]:
    """The dense baseline of each kernel that has one.

    That of its rows; for a kernel whose rows state none, a dense kernel with rows of its own: of the same device and dtype, if possible of
    the same release, with the most shapes in common, of several the one that takes least time.
    """
    rows = rows_by_kernel(measurements)
    baselines = {key: kernel_key(baseline, measurements) for key in rows for row in rows[key] if (baseline := row.dense_baseline)}
    times = {key: {(row.m, row.k, row.n): row.time_ms for row in of_kernel} for key, of_kernel in rows.items()}
    dense = [key for key in rows if key.family == "dense"]
    for key in rows:
        if key.family != "dense" and key not in baselines and (baseline := _separate_baseline(key, dense, times)):
            baselines[key] = baseline
    return baselines


def _separate_baseline(key: KernelKey, dense: Sequence[KernelKey], times: dict[KernelKey, dict[Shape, float]]) -> KernelKey | None:
    """The dense kernel that a sparse one without dense times is compared with, None if no dense one has a shape in common."""
    candidates = [other for other in dense if (other.device, other.dtype) == (key.device, key.dtype) and times[other].keys() & times[key]]

    def rank(other: KernelKey) -> tuple[bool, int, float, KernelKey]:
        shared = times[other].keys() & times[key]
        return other.release != key.release, -len(shared), sum(times[other][shape] for shape in shared), other

    return min(candidates, key=rank, default=None)


def match_shapes(launches: KernelLaunches, dense: KernelLaunches) -> tuple[list[int], list[int]]:
    """The indices of the launches whose shape a dense kernel has too, and the index of the dense launch of each."""
    dense_index = {shape: index for index, shape in reversed(list(enumerate(dense.shapes)))}  # the first of several
    matched = [index for index, shape in enumerate(launches.shapes) if shape in dense_index]
    return matched, [dense_index[launches.shapes[index]] for index in matched]


def build_launches(key: KernelKey, device: Accelerator, repeats: list[list[Measurement]]) -> KernelLaunches:
    """Arrays of launches, each measured by one or more rows."""
    rows = [launch[0] for launch in repeats]
    patterns = [row.pattern for row in rows]
    m, k, n, density = (np.array([getattr(row, name) for row in rows], float) for name in ("m", "k", "n", "stored_density"))
    return KernelLaunches(
        key,
        DeviceRates.from_accelerator(device, key.unit, key.precision.compute),
        m,
        k,
        n,
        density,
        slots=np.array([pattern.m if isinstance(pattern, NM) else 0 for pattern in patterns], float),
        row_spread=np.array([_row_spread(row) for row in rows]),
        weight_bytes=_weight_bytes(patterns, m, k, density, KERNEL_FORMATS.get(key.kernel), key.precision.bytes_per_element("weights")),
        activation_bytes=key.precision.bytes_per_element("activations"),
        output_bytes=key.precision.bytes_per_element("outputs"),
        time=np.array([np.mean([row.time_ms for row in launch]) for launch in repeats]) / 1e3,
        staged_bytes=np.array([np.nan if row.staged_kib is None else 1024 * row.staged_kib for row in rows]),
        needed_share=_evaluate_by_pattern(needed_share, patterns, m, k, density),
        weight_copies=np.array([row.weight_copies for row in rows], float),
    )


def _weight_bytes(
    patterns: Sequence[Pattern], m: PerLaunch, k: PerLaunch, density: PerLaunch, stated: Format | None, bytes_per_value: float
) -> PerLaunch:
    """Bytes of the stored values and their metadata, in the format of the kernel or the default one of each pattern."""

    def bits(pattern: Pattern, m: PerLaunch, k: PerLaunch, density: PerLaunch) -> FloatOrArray:
        cost = (stated or default_format(pattern)).cost(pattern, m, k, pattern.stored_elements(m, k, density))
        return 8 * bytes_per_value * cost.elements + cost.metadata_bits

    return _evaluate_by_pattern(bits, patterns, m, k, density) / 8


def _evaluate_by_pattern(
    function: Callable[..., FloatOrArray], patterns: Sequence[Pattern], m: PerLaunch, k: PerLaunch, density: PerLaunch
) -> PerLaunch:
    """Call `function(pattern, m, k, density)` once for each distinct pattern, with the launches of that pattern."""
    result, rows_by_pattern = np.zeros(len(patterns)), dict[Pattern, list[int]]()
    for row, pattern in enumerate(patterns):
        rows_by_pattern.setdefault(pattern, []).append(row)
    for pattern, rows in rows_by_pattern.items():
        result[rows] = function(pattern, m[rows], k[rows], density[rows])
    return result


def _row_spread(row: Measurement) -> float:
    """Standard deviation of the nonzeros in a row over their mean: as stated, else 0 for patterns with equal rows, else of random masks."""
    if row.row_std is not None:
        return row.row_std / (row.stored_density * row.k)
    return float(random_row_spread(row.stored_density, float(row.k))) if row.pattern.density is None else 0.0
