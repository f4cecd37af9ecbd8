"""efficiencies.yaml, written: what a fit says of each kernel, and how sure it is."""

import hashlib
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import yaml

from dse.calibrate import uncertainty
from dse.calibrate.fidelities import constant_efficiency
from dse.calibrate.fit import informed
from dse.calibrate.measured_launches import kernel_of
from dse.calibrate.measured_set import MeasuredSet
from dse.model.efficiency import assumed, tiles
from dse.model.efficiency.kernel_file import EfficiencyFile, Estimate, KernelRecord, RatesRecord
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelLaunches
from dse.model.efficiency.parameters import PARAMETERS, Parameter, values

HEAD = """# Parameters of measured kernels. Between low and high lie nine tenths of the bootstrap's samples; what the measurements
# say less of than the prior is marked assumed, with the prior's limits. `half_width` is that of the 90% interval of the logarithm of a
# time, by shapes that were left out, within the ranges `density` and `sizes` that were measured (m, k, n). `rates` are what the
# description said when they were fitted [FLOP/s, FLOP/s, B/s, B, 1, s, B].
"""
NINE_TENTHS = 1.645  # deviations of a normal distribution to either side


def describe(fitted: KernelModel, launches: KernelLaunches, measured: MeasuredSet) -> KernelRecord:
    """What is written of one kernel."""
    key, known = fitted.key, informed(fitted, launches)
    draws = np.array([list(values(theta).values()) for theta in (fitted.theta, *fitted.samples)])
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    parameters = {
        p.name: _fitted(p, draws[0, n], low[n], high[n]) if known[n] or not _within_prior(p, draws[0, n]) else _assumed(p, draws[0, n])
        for n, p in enumerate(PARAMETERS)
    }
    error = float(np.mean(np.abs(fitted.seconds(launches) / launches.time - 1)))
    rows = [one for one in measured.runs if kernel_of(one, measured) == key]
    sources = sorted({one.source for one in rows})
    heights = sorted({found for one in rows if (found := assumed.height(one.pattern))})
    return KernelRecord(
        device=key.device, unit=key.unit, kernel=key.kernel, release=key.release, family=key.family, dtype=key.dtype,
        tile=tiles.text(fitted.tile), deeper=tuple((_digits(k), tiles.text(tile)) for k, tile in fitted.deeper),
        splits=fitted.splits, least=fitted.least,
        processors=None if np.isnan(fitted.processors) else fitted.processors,
        power_slots=fitted.power_slots, shapes=len(set(launches.shapes)),
        launches=len(launches), error=_digits(error), constant=_digits(constant_efficiency(launches)),
        sources=tuple(sources), parameters=parameters,
        shared=heights[0][0] if heights else None, heights=tuple(rows for _, rows in heights),
        density=(_digits(launches.density.min()), _digits(launches.density.max())), staged=fitted.staged,
        rates=RatesRecord(**{name: value for name, value in vars(launches.rates).items() if not np.isnan(value)}),
        half_width=_digits(uncertainty.half_width(uncertainty.residuals(fitted, launches), uncertainty.groups(launches))),
        sizes=tuple((float(value.min()), float(value.max())) for value in (launches.m, launches.k, launches.n)),
    )  # fmt: skip


def as_yaml(kernels: Iterable[KernelRecord], paths: Sequence[Path], command: str) -> str:
    """The file for kernels that were fitted to the measurements at `paths`."""
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    found = EfficiencyFile(command=command, version=version("sparse-dse"), measurements=hashes, kernels=tuple(kernels))
    head = "".join(f"#   {p.name:13} {p.meaning} [{p.unit}]\n" for p in PARAMETERS)
    text = yaml.safe_dump(found.model_dump(mode="json", exclude_none=True), sort_keys=False, default_flow_style=None, width=138)
    return HEAD + head + text


def _fitted(p: Parameter, value: float, low: float, high: float) -> Estimate:
    return Estimate(value=_digits(value), low=_digits(min(low, value)), high=_digits(max(high, value)), unit=p.unit)


def _assumed(p: Parameter, value: float) -> Estimate:
    """What the measurements say less of than the prior does: its limits are the prior's."""
    low, high = _prior_limits(p)
    return Estimate(value=_digits(value), low=_digits(low), high=_digits(high), unit=p.unit, kind="assumed")


def _within_prior(p: Parameter, value: float) -> bool:
    """Whether a value lies where the prior expects it; what has left it was moved by the measurements, whatever they say there."""
    low, high = _prior_limits(p)
    return low <= value <= high


def _prior_limits(p: Parameter) -> tuple[float, float]:
    low, high = (p.outward(p.inward(p.prior) + sign * NINE_TENTHS * p.spread) for sign in (-1, 1))
    return low, high


def _digits(value: float) -> float:
    return float(f"{value:.4g}")
