"""Write efficiencies.yaml: the record of each fitted kernel, with intervals of its parameters and of its times."""

import hashlib
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import yaml

from dse.calibrate.fit_parameters import find_determined_parameters
from dse.calibrate.intervals import conformal_half_width, group_shapes, leave_one_shape_out_residuals
from dse.calibrate.measured_launches import rows_by_kernel
from dse.calibrate.measurement import Measurement
from dse.calibrate.measurement_set import MeasurementSet
from dse.calibrate.predictions import constant_efficiency
from dse.model.efficiency.kernel_file import EfficiencyFile, Estimate, KernelRecord, RatesRecord
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelLaunches
from dse.model.efficiency.parameters import PARAMETERS, Parameter, theta_to_values
from dse.model.efficiency.tiles import format_tile
from dse.model.efficiency.unmeasured_patterns import shared_height

HEADER = """# Parameters of measured kernels. `low` and `high` are the 90% interval of the bootstrap samples; parameters that the
# measurements determine less closely than the prior are marked `assumed`, with the interval of the prior. `half_width` is that of the
# 90% interval of the logarithm of a time, from leave-one-shape-out residuals, within the measured ranges `density` and `sizes` (m, k, n).
# `rates` are those of the description at the time of the fit: peak and issue [FLOP/s], bandwidth [B/s], cache and scratchpad [B],
# processors [1], launch [s].
"""
PRIOR_Z_SCORE = 1.645  # half width of the 90% interval of a prior in standard deviations


def build_record(model: KernelModel, launches: KernelLaunches, measurements: MeasurementSet) -> KernelRecord:
    """The record of a model that was fitted to `launches`."""
    key, rows = model.key, rows_by_kernel(measurements)[model.key]
    heights = sorted({height for row in rows if (height := shared_height(row.pattern))})
    return KernelRecord(
        device=key.device, unit=key.unit, kernel=key.kernel, release=key.release, family=key.family, dtype=key.dtype,
        tile=format_tile(model.tile), deeper=tuple((_round(k), format_tile(tile)) for k, tile in model.tiles_by_depth),
        splits=model.splits_k, least=model.min_edge,
        processors=None if np.isnan(model.processors) else model.processors,
        power_slots=model.pads_to_power_of_two, shapes=len(set(launches.shapes)), launches=len(launches),
        error=_round(float(np.mean(np.abs(model.predict_times(launches) / launches.time - 1)))),
        constant=_round(constant_efficiency(launches)),
        sources=_list_sources(rows), parameters=_estimate_parameters(model, launches),
        shared=heights[0][0] if heights else None, heights=tuple(row_count for _, row_count in heights),
        density=(_round(launches.density.min()), _round(launches.density.max())), staged=model.staged_bytes,
        rates=RatesRecord(**{name: value for name, value in vars(launches.rates).items() if not np.isnan(value)}),
        half_width=_round(conformal_half_width(leave_one_shape_out_residuals(model, launches), group_shapes(launches))),
        sizes=tuple((float(size.min()), float(size.max())) for size in (launches.m, launches.k, launches.n)),
    )  # fmt: skip


def format_efficiency_file(kernels: Iterable[KernelRecord], paths: Sequence[Path], command: str) -> str:
    """Text of efficiencies.yaml for kernels that were fitted to the measurements at `paths`."""
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    content = EfficiencyFile(command=command, version=version("sparse-dse"), measurements=hashes, kernels=tuple(kernels))
    legend = "".join(f"#   {p.name:13} {p.meaning} [{p.unit}]\n" for p in PARAMETERS)
    text = yaml.safe_dump(content.model_dump(mode="json", exclude_none=True), sort_keys=False, default_flow_style=None, width=138)
    return HEADER + legend + text


def _list_sources(rows: Sequence[Measurement]) -> tuple[str, ...]:
    return tuple(sorted({row.source for row in rows}))


def _estimate_parameters(model: KernelModel, launches: KernelLaunches) -> dict[str, Estimate]:
    """Each parameter with the interval of its bootstrap samples, or of its prior if only that determines it.

    A value that has left the interval of its prior was moved by the measurements, so it counts as measured.
    """
    is_determined = find_determined_parameters(model, launches)
    samples = np.array([list(theta_to_values(theta).values()) for theta in (model.theta, *model.samples)])
    low, high = np.quantile(samples, [0.05, 0.95], axis=0)
    estimates = {}
    for index, p in enumerate(PARAMETERS):
        value, (prior_low, prior_high) = samples[0, index], _prior_interval(p)
        if is_determined[index] or not prior_low <= value <= prior_high:
            ends = min(low[index], value), max(high[index], value)
            estimates[p.name] = Estimate(value=_round(value), low=_round(ends[0]), high=_round(ends[1]), unit=p.unit)
        else:
            estimates[p.name] = Estimate(value=_round(value), low=_round(prior_low), high=_round(prior_high), unit=p.unit, kind="assumed")
    return estimates


def _prior_interval(p: Parameter) -> tuple[float, float]:
    low, high = (p.from_theta(p.to_theta(p.prior) + sign * PRIOR_Z_SCORE * p.deviation) for sign in (-1, 1))
    return low, high


def _round(value: float) -> float:
    """To four significant digits."""
    return float(f"{value:.4g}")
