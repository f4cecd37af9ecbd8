"""Records of fitted attention kernels, and the predictions of their launches by fits to other launches."""

import hashlib
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from dse.calibrate.attention.fit import fit_attention, sample_launches, theta_deviation
from dse.calibrate.fit.intervals import conformal_half_width
from dse.model.efficiency import interval
from dse.model.efficiency.attention.launches import AttentionLaunches, PerLaunch
from dse.model.efficiency.attention.model import AttentionModel
from dse.model.efficiency.attention.parameters import ATTENTION_PARAMETERS
from dse.model.efficiency.attention.record import MEASURED_RANGES, AttentionRecord
from dse.model.efficiency.efficiency_file import EfficiencyFile
from dse.model.efficiency.parameter import Estimate, round_estimate

MAX_USED = 1500  # launches of a kernel that are fitted and compared
HEADER = """# Parameters of measured fused attention kernels. `low` and `high` are 90% intervals (Laplace's approximation);
# parameters that the measurements determine less closely than the prior are marked `assumed`. `error` and `half_width` (of the 90% interval
# of the logarithm of a time) are those of launches that a fit to the other half of the launches did not see, within the measured `ranges`.
"""


class HalvesPrediction(NamedTuple):
    """The sampled launches of a kernel, and times and half widths of their 90% intervals by a fit to the other half."""

    launches: AttentionLaunches
    in_first_half: np.ndarray
    time: PerLaunch
    half_width: PerLaunch


def predict_other_half(launches: AttentionLaunches, seed: int = 0) -> HalvesPrediction:
    """Predict each half of a sample of the launches, which is chosen at random, by a fit to the other half.

    The interval of a half comes from residuals of the other half, which the fit to this one has not seen.
    """
    launches = sample_launches(launches, MAX_USED, seed)
    in_first = np.zeros(len(launches), bool)
    in_first[np.random.default_rng(seed).permutation(len(launches))[: len(launches) // 2]] = True
    time, half_width = np.zeros(len(launches)), np.zeros(len(launches))
    for half in (in_first, ~in_first):
        time[half] = fit_attention(launches.take(~half), seed).predict_times(launches.take(half))
    residuals = np.log(time / launches.time)
    for half in (in_first, ~in_first):
        half_width[half] = conformal_half_width(residuals[~half], np.arange(np.count_nonzero(~half)))
    return HalvesPrediction(launches, in_first, time, half_width)


def fit_attention_record(halves: HalvesPrediction, sources: tuple[str, ...], seed: int = 0) -> AttentionRecord:
    """Fit a kernel to both halves of its launches; the errors of its record are those of the halves."""
    used = halves.launches
    model, residuals, key = fit_attention(used, seed), np.log(halves.time / used.time), used.key
    return AttentionRecord(
        device=key.device, kernel=key.kernel, release=key.release, phase=key.phase, dtype=key.dtype, cache_dtype=key.cache_dtype,
        tiling=model.tiling, launches=len(used), error=round_estimate(float(np.mean(np.abs(np.expm1(residuals))))),
        half_width=round_estimate(conformal_half_width(residuals, np.arange(len(used)))), sources=sources,
        ranges={name: (float(getattr(used, name).min()), float(getattr(used, name).max())) for name in MEASURED_RANGES},
        parameters=_estimate_parameters(model, used),
    )  # fmt: skip


def _estimate_parameters(model: AttentionModel, launches: AttentionLaunches) -> dict[str, Estimate]:
    deviation, is_determined = theta_deviation(model, launches)
    estimates = {}
    for p, theta, spread, determined in zip(ATTENTION_PARAMETERS, model.theta, deviation, is_determined, strict=True):
        value, low, high = (round_estimate(p.from_theta(float(theta + sign * interval.Z_SCORE * spread))) for sign in (0, -1, 1))
        estimates[p.name] = Estimate(value=value, low=low, high=high, unit=p.unit, kind="measured" if determined else "assumed")
    return estimates


def format_attention_file(records: Iterable[AttentionRecord], paths: Sequence[Path], command: str) -> str:
    """Text of a file of fitted kernels that has attention kernels only."""
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    content = EfficiencyFile(command=command, version=version("sparse-dse"), measurements=hashes, kernels=(), attention=tuple(records))
    return HEADER + attention_legend() + _dump(content.model_dump(mode="json", exclude_none=True))


def format_attention_section(records: Iterable[AttentionRecord]) -> str:
    """The key `attention` of a file of fitted kernels, with its comments."""
    listed = [record.model_dump(mode="json") for record in records]
    return HEADER + attention_legend() + _dump({"attention": listed}) if listed else ""


def attention_legend() -> str:
    """Comment lines with the meaning and unit of each parameter."""
    return "".join(f"#   {p.name:13} {p.meaning} [{p.unit}]\n" for p in ATTENTION_PARAMETERS)


def _dump(content: object) -> str:
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=138)
