"""Group measured rows by kernel, as arrays of launches: sizes, bytes and times."""

import numpy as np

from dse.calibrate.measurement import Measurement
from dse.calibrate.measurement_set import MeasurementSet
from dse.calibrate.sanity_checks import find_unit
from dse.model.efficiency.launches import DeviceRates, KernelKey, KernelLaunches, pattern_family, random_row_spread
from dse.schema.accelerator import Accelerator
from dse.sparsity.columns import needed_share
from dse.sparsity.format import default_format
from dse.sparsity.kinds import NM


def group_launches(measurements: MeasurementSet) -> dict[KernelKey, KernelLaunches]:
    """The launches of every kernel of a set, dense baselines included.

    A launch that was measured repeatedly counts once, with its mean time. Masks of one shape and density with different row statistics are
    different launches.
    """
    rows_by_kernel: dict[KernelKey, dict[tuple[object, ...], list[Measurement]]] = {}
    for row in measurements.kernels:
        rows_by_launch = rows_by_kernel.setdefault(kernel_key(row, measurements), {})
        rows_by_launch.setdefault((row.m, row.k, row.n, row.pattern, row.stored_density, row.row_std, row.staged_kib), []).append(row)
    return {
        key: build_launches(key, measurements.devices[key.device], list(rows_by_launch.values()))
        for key, rows_by_launch in rows_by_kernel.items()
    }


def kernel_key(row: Measurement, measurements: MeasurementSet) -> KernelKey:
    """The identity of the kernel of a row."""
    unit = find_unit(measurements.devices[row.device], row)
    assert unit is not None, "checked on loading"
    return KernelKey(row.device, unit, row.kernel, row.release, pattern_family(row.pattern), row.dtype.text)


def pair_with_baselines(measurements: MeasurementSet) -> dict[KernelKey, KernelKey]:
    """The dense baseline of each kernel that has one."""
    return {
        kernel_key(row, measurements): kernel_key(baseline, measurements) for row in measurements.rows if (baseline := row.dense_baseline)
    }


def build_launches(key: KernelKey, device: Accelerator, repeats: list[list[Measurement]]) -> KernelLaunches:
    """Arrays of launches, each measured by one or more rows."""
    rows = [launch[0] for launch in repeats]
    m, k, n, density = (np.array([getattr(row, name) for row in rows], float) for name in ("m", "k", "n", "stored_density"))
    return KernelLaunches(
        key,
        DeviceRates.from_accelerator(device, key.unit, key.precision.compute),
        m,
        k,
        n,
        density,
        slots=np.array([row.pattern.m if isinstance(row.pattern, NM) else 0 for row in rows], float),
        row_spread=np.array([_row_spread(row) for row in rows]),
        weight_bytes=np.array([_weight_bits(row) for row in rows]) / 8,
        activation_bytes=key.precision.bytes_per_element("activations"),
        output_bytes=key.precision.bytes_per_element("outputs"),
        time=np.array([np.mean([row.time_ms for row in launch]) for launch in repeats]) / 1e3,
        staged_bytes=np.array([np.nan if row.staged_kib is None else 1024 * row.staged_kib for row in rows]),
        needed_share=np.array(
            [float(needed_share(row.pattern, float(row.m), float(row.k), np.float64(row.stored_density))) for row in rows]
        ),
    )


def _weight_bits(row: Measurement) -> float:
    """Bits of the stored values and their metadata, in the default format of the pattern."""
    m, k = float(row.m), float(row.k)
    stored = float(np.asarray(row.pattern.stored_elements(m, k, row.stored_density)))
    cost = default_format(row.pattern).cost(row.pattern, m, k, stored)
    return float(np.asarray(8 * row.dtype.bytes_per_element("weights") * cost.elements + cost.metadata_bits))


def _row_spread(row: Measurement) -> float:
    """Standard deviation of the nonzeros in a row over their mean: as stated, else 0 for patterns with equal rows, else of random masks."""
    if row.row_std is not None:
        return row.row_std / (row.stored_density * row.k)
    return float(random_row_spread(row.stored_density, float(row.k))) if row.pattern.density is None else 0.0
