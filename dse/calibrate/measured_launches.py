"""Measured rows grouped by kernel, as arrays: what each launch asks of the machine, and how long it took."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from dse.calibrate.measured_set import MeasuredSet
from dse.calibrate.measurement import Measurement
from dse.calibrate.sanity_checks import unit_of
from dse.model.efficiency.launches import DeviceRates, KernelKey, KernelLaunches, Shape, family, random_row_spread
from dse.schema.accelerator import Accelerator
from dse.sparsity.columns import needed_share
from dse.sparsity.format import default_format
from dse.sparsity.kinds import NM
from dse.sparsity.pattern import Pattern


def launches(measured: MeasuredSet) -> dict[KernelKey, KernelLaunches]:
    """Every kernel of a set, dense ones included; the same launch measured twice counts once, at its mean.

    Masks of one shape and density whose rows are statistically different are different launches.
    """
    grouped: dict[KernelKey, dict[tuple[Any, ...], list[Measurement]]] = {}
    for row in measured.runs:
        same = grouped.setdefault(kernel_of(row, measured), {})
        same.setdefault((row.m, row.k, row.n, row.pattern, row.kept, row.row_std, row.staged_kib), []).append(row)
    return {kernel: _launches(kernel, measured.devices[kernel.device], list(groups.values())) for kernel, groups in grouped.items()}


def kernel_of(row: Measurement, measured: MeasuredSet) -> KernelKey:
    unit = unit_of(measured.devices[row.device], row)
    assert unit is not None, "checked on loading"
    return KernelKey(row.device, unit, row.kernel, row.release, family(row.pattern), row.dtype.text)


def asked(kernel: KernelKey, device: Accelerator, shapes: Iterable[Shape], pattern: Pattern, density: float) -> KernelLaunches:
    """Launches that nobody measured: their times are NaN."""
    precision = kernel.precision
    rows = [
        Measurement.model_construct(
            device=kernel.device, kernel=kernel.kernel, pattern=pattern, dtype=precision, m=m, k=k, n=n, density=density, time_ms=np.nan
        )
        for m, k, n in shapes
    ]
    return _launches(kernel, device, [[row] for row in rows])


def _launches(kernel: KernelKey, device: Accelerator, groups: list[list[Measurement]]) -> KernelLaunches:
    rows = [group[0] for group in groups]
    m, k, n, density = (np.array([getattr(row, name) for row in rows], float) for name in ("m", "k", "n", "kept"))
    slots = np.array([row.pattern.m if isinstance(row.pattern, NM) else 0 for row in rows], float)
    bits = np.array([_weight_bits(row) for row in rows])
    time = np.array([np.mean([row.time_ms for row in group]) for group in groups]) / 1e3
    rates = DeviceRates.from_accelerator(device, kernel.unit, kernel.precision.compute)
    spread = np.array([_spread(row) for row in rows])
    value, output = (kernel.precision.bytes_per_element(role) for role in ("activations", "outputs"))
    staged = np.array([np.nan if row.staged_kib is None else 1024 * row.staged_kib for row in rows])
    needed = np.array([float(needed_share(row.pattern, float(row.m), float(row.k), np.float64(row.kept))) for row in rows])
    return KernelLaunches(kernel, rates, m, k, n, density, slots, spread, bits / 8, value, output, time, staged=staged, needed=needed)


def _weight_bits(row: Measurement) -> float:
    """Of the values and of what says where they stand, in the usual format of the pattern."""
    m, k = float(row.m), float(row.k)
    stored = float(np.asarray(row.pattern.stored_elements(m, k, row.kept)))
    cost = default_format(row.pattern).cost(row.pattern, m, k, stored)
    return float(np.asarray(8 * row.dtype.bytes_per_element("weights") * cost.elements + cost.metadata_bits))


def _spread(row: Measurement) -> float:
    """What the row statistics say; without them rows are alike by rule, or random."""
    if row.row_std is not None:
        return row.row_std / (row.kept * row.k)
    return float(random_row_spread(row.kept, row.k)) if row.pattern.density is None else 0.0
