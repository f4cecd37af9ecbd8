"""Write efficiencies.yaml: the record of each fitted kernel, with intervals of its parameters and of its times."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import yaml

from dse.calibrate.fit.intervals import HalfWidths
from dse.calibrate.fit.joint import JointFit
from dse.calibrate.fit.parameters import posterior_deviation
from dse.calibrate.predictions import constant_efficiency
from dse.calibrate.tables.launches import rows_by_kernel
from dse.calibrate.tables.measurement import Measurement
from dse.calibrate.tables.measurement_set import MeasurementSet
from dse.model.efficiency.device_rates import DeviceRates
from dse.model.efficiency.efficiency_file import EfficiencyFile
from dse.model.efficiency.interval import QUANTILES, Z_SCORE
from dse.model.efficiency.kernels.parameters import PARAMETERS, format_tile
from dse.model.efficiency.kernels.record import DiscrepancyRecord, KernelRecord, RatesRecord
from dse.model.efficiency.kernels.unmeasured_patterns import shared_height
from dse.model.efficiency.parameter import Estimate, round_estimate

HEADER = """# Parameters of measured kernels. `low` and `high` are the 90% interval; parameters that the measurements hardly determine
# more closely than the prior are marked `assumed`. `half_width` is that of the 90% interval of the logarithm of a time, from
# leave-one-shape-out residuals (of few shapes, and kernels like it), within the measured ranges `density` and `sizes` (m, k, n), without
# the discrepancy.
# `rates` are those of the description at the time of the fit: peak and issue [FLOP/s], bandwidth [B/s], cache and scratchpad [B],
# processors [1], launch [s], energy budget [J/FLOP], highest clock over that of the peak [1], kind of the outermost memory.
# `discrepancy`: what the parameters leave unexplained. Lengths [doublings] of m, k, n and the density; standard deviations, among them that
# of the device itself (`own`) if the launches are those of its library on other devices; the half width far from all launches; m, k, n,
# density and log(measured / predicted time) of a launch in each line.
"""
ASSUMED_SHARE = 0.7  # of the deviation of the prior, above which a parameter counts as not determined by the measurements


def build_record(fit: JointFit, measurements: MeasurementSet, half_widths: HalfWidths | None = None) -> KernelRecord:
    """The record of a fitted kernel with the half widths of the 90% interval of the logarithm of its times, in the measured ranges."""
    model, launches = fit.model, fit.launches
    of_parameters = replace(model, discrepancy=None)
    key, rows = model.key, rows_by_kernel(measurements)[model.key]
    heights = sorted({height for row in rows if (height := shared_height(row.pattern))})
    return KernelRecord(
        device=key.device, unit=key.unit, kernel=key.kernel, release=key.release, family=key.family, dtype=key.dtype,
        tile=format_tile(model.tile), splits=model.splits_k, least=model.min_edge,
        processors=None if np.isnan(model.processors) else model.processors,
        power_slots=model.pads_to_power_of_two, shapes=len(set(launches.shapes)), launches=len(launches),
        error=round_estimate(float(np.mean(np.abs(of_parameters.predict_times(launches) / launches.time - 1)))),
        constant=round_estimate(constant_efficiency(launches)),
        sources=_list_sources(rows), parameters=_estimate_parameters(fit),
        shared=heights[0][0] if heights else None, heights=tuple(row_count for _, row_count in heights),
        density=(round_estimate(launches.density.min()), round_estimate(launches.density.max())), staged=model.staged_bytes,
        rates=_record_rates(launches.rates),
        half_width=None if half_widths is None else round_estimate(half_widths.of_parameters),
        sizes=tuple((float(size.min()), float(size.max())) for size in (launches.m, launches.k, launches.n)),
        discrepancy=None if model.discrepancy is None or half_widths is None
        else DiscrepancyRecord.of(model.discrepancy, round_estimate(half_widths.corrected)),
    )  # fmt: skip


def format_efficiency_file(kernels: Iterable[KernelRecord], paths: Sequence[Path], command: str) -> str:
    """Text of efficiencies.yaml for kernels that were fitted to the measurements at `paths`."""
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    content = EfficiencyFile(command=command, version=version("sparse-dse"), measurements=hashes, kernels=tuple(kernels))
    legend = "".join(f"#   {p.name:13} {p.meaning} [{p.unit}]\n" for p in PARAMETERS)
    data = content.model_dump(mode="json", exclude_none=True)
    text = yaml.dump(data, Dumper=_BlockDumper, sort_keys=False, default_flow_style=None, width=138)
    return HEADER + legend + text


class _BlockDumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _represent_text(dumper: _BlockDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_BlockDumper.add_representer(str, _represent_text)


def _record_rates(rates: DeviceRates) -> RatesRecord:
    stated = {name: getattr(rates, name) for name in RatesRecord.model_fields}
    return RatesRecord(**{name: value for name, value in stated.items() if value != "" and value == value})


def _list_sources(rows: Sequence[Measurement]) -> tuple[str, ...]:
    return tuple(sorted({row.source for row in rows}))


def _estimate_parameters(fit: JointFit) -> dict[str, Estimate]:
    """Each parameter with the wider of two 90% intervals: of the bootstrap samples, and of the measurements given the prior.

    A parameter whose deviation is above 0.7 of that of the prior is `assumed`: the measurements hardly determine it.
    """
    model, deviation = fit.model, posterior_deviation(*fit)
    thetas = np.array([model.theta, *model.samples])
    is_assumed = deviation > ASSUMED_SHARE * fit.prior.deviation
    ends = np.quantile(thetas, QUANTILES["low"], axis=0), np.quantile(thetas, QUANTILES["high"], axis=0)
    low, high = np.minimum(ends[0], model.theta - Z_SCORE * deviation), np.maximum(ends[1], model.theta + Z_SCORE * deviation)
    return {
        p.name: Estimate(
            value=round_estimate(p.from_theta(model.theta[number])),
            low=round_estimate(p.from_theta(low[number])),
            high=round_estimate(p.from_theta(high[number])),
            unit=p.unit, kind="assumed" if is_assumed[number] else "measured",
        )
        for number, p in enumerate(PARAMETERS)
    }  # fmt: skip
