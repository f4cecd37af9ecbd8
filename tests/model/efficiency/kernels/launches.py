"""Launches of kernels at shapes that were not measured, and their predicted times."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from dse.calibrate.predictions import predict_checked
from dse.calibrate.tables.launches import build_launches
from dse.calibrate.tables.measurement import Measurement
from dse.model.capacity import attainable_bytes
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches, PerLaunch, Shape
from dse.model.efficiency.kernels.model import KernelModel
from dse.schema.accelerator import Accelerator
from dse.sparsity.grammar import parse


def unmeasured_launches(key: KernelKey, device: Accelerator, shapes: Iterable[Shape], pattern: str, density: float) -> KernelLaunches:
    """Launches without a measured time (NaN) at each (m, k, n)."""
    about = {"device": key.device, "kernel": key.kernel, "pattern": parse(pattern), "dtype": key.precision}
    rows = [Measurement.model_construct(**about, m=m, k=k, n=n, density=density, time_ms=np.nan) for m, k, n in shapes]
    return build_launches(key, device, [[row] for row in rows])


def predict_times(
    device: Accelerator,
    model: KernelModel,
    shapes: Sequence[Shape],
    pattern: str,
    density: float | None = None,
    row_spread: float | None = None,
) -> PerLaunch:
    """Checked times [s] on a device, which may differ from that of the fit; default: density of the pattern, random rows."""
    density = density if density is not None else parse(pattern).density
    assert density is not None
    launches = unmeasured_launches(replace(model.key, device=device.name), device, shapes, pattern, density)
    if row_spread is not None:
        launches = replace(launches, row_spread=np.full(len(shapes), row_spread))
    return predict_checked(model, launches)


def predict_cold_time(
    device: Accelerator, model: KernelModel, shape: Shape, pattern: str, density: float, row_spread: float | None = None
) -> float:
    """Time [s] of a launch whose operands are in no cache, as those of a layer."""
    launches = unmeasured_launches(replace(model.key, device=device.name, kernel=""), device, [shape], pattern, density)
    if row_spread is not None:
        launches = replace(launches, row_spread=np.full(1, row_spread))
    launch, unit, memory = model.time_components(launches, np.asarray(attainable_bytes(launches.product, launches.rates.cache)))[:, 0]
    at_peak = max(unit, float(launches.flops[0]) / launches.rates.peak)  # no layer is predicted above the published peak
    return float(launch + (at_peak**4 + memory**4) ** 0.25)
