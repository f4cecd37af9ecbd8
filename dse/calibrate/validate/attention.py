"""Compare predicted times of fused attention with measured ones.

Each half of the launches of a kernel is predicted by a fit to the other half (split `halves`). Each kernel is also predicted by the mean of
the kernels of other devices, as for a device without fits (split `devices`). The halves of launches whose window is shorter than their keys
are listed again (split `windows`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from dse.base.progress import shows_progress
from dse.calibrate.attention.attention_set import AttentionSet
from dse.calibrate.attention.export import MAX_USED, HalvesPrediction, fit_attention_record, predict_other_half
from dse.calibrate.attention.fit import sample_launches
from dse.calibrate.validate.comparison import Comparison
from dse.model.efficiency.attention.launches import AttentionLaunches, PerLaunch
from dse.model.efficiency.attention.record import AttentionRecord
from dse.model.efficiency.attention.selection import select_transferred
from dse.schema.model_options import Fidelity


class AttentionPrediction(NamedTuple):
    """Calibrated time [s] and half width of the 90% interval of its logarithm for each launch, and the efficiency of `r3` [1]."""

    time: PerLaunch
    half_width: PerLaunch
    efficiency: PerLaunch


def compare_attention(sets: Sequence[AttentionSet]) -> list[Comparison]:
    """Times of a sample of the launches of every kernel with enough of them, by both splits."""
    kernels = [(attention, key) for attention in sets for key in attention.fittable]
    records, comparisons = list[AttentionRecord](), list[Comparison]()
    for attention, key in tqdm(kernels, unit=" kernels", desc="attention", delay=2, disable=not shows_progress()):
        halves = predict_other_half(attention.launches[key])
        compared = list(_compare_kernel(attention.name, "halves", halves.launches, _prediction_of_halves(halves)))
        comparisons += compared + [replace(each, split="windows") for each in compared if _has_short_window(each)]
        records.append(fit_attention_record(halves, attention.sources[key]))
    efficiencies = {record.key: _constant_efficiency(sets, record) for record in records}
    for attention, key in kernels:
        launches = sample_launches(attention.launches[key], MAX_USED)
        others = [record for record in records if record.device != key.device]
        if selection := select_transferred(others, key.phase):
            of_others = [efficiencies[record.key] for record in others if record.phase == key.phase]
            efficiency = np.full(len(launches), np.exp(np.mean(np.log(of_others))))
            time = selection.record.model.predict_times(launches)
            prediction = AttentionPrediction(time, selection.half_width(launches), efficiency)
            comparisons += _compare_kernel(attention.name, "devices", launches, prediction)
    return comparisons


def _has_short_window(comparison: Comparison) -> bool:
    """Whether the window of an attention is shorter than its keys, so that scores are masked by it."""
    _, _, keys, _, _, _, window = comparison.shape
    return 0 < window < keys


def attention_sol(launches: AttentionLaunches) -> PerLaunch:
    """The larger of unmasked FLOPs over peak and compulsory bytes over bandwidth [s]."""
    return np.maximum(launches.flops / launches.rates.cache_peak, launches.compulsory_bytes / launches.rates.bandwidth)


def _efficiency(launches: AttentionLaunches) -> float:
    """The efficiency of `r3` [1]: geometric mean of the shares of the speed of light, at most 1."""
    return min(1.0, float(np.exp(np.mean(np.log(attention_sol(launches) / launches.time)))))


def _constant_efficiency(sets: Sequence[AttentionSet], record: AttentionRecord) -> float:
    return next(_efficiency(attention.launches[record.key]) for attention in sets if record.key in attention.launches)


def _prediction_of_halves(halves: HalvesPrediction) -> AttentionPrediction:
    used, first = halves.launches, halves.in_first_half
    efficiency = np.where(first, _efficiency(used.take(~first)), _efficiency(used.take(first)))
    return AttentionPrediction(halves.time, halves.half_width, efficiency)


def _compare_kernel(set_name: str, split: str, launches: AttentionLaunches, predicted: AttentionPrediction) -> Iterator[Comparison]:
    sol, key = attention_sol(launches), launches.key
    name = " ".join(filter(None, (key.kernel, key.release)))
    about = set_name, split, key.device, name, key.phase, key.precision, "time"
    for row, shape in enumerate(launches.shapes):
        time, factor = float(predicted.time[row]), float(np.exp(predicted.half_width[row]))
        sol_time = float(sol[row])
        times: dict[Fidelity, float] = {
            "sol": sol_time, "r3": sol_time / float(predicted.efficiency[row]), "capacity": sol_time, "calibrated": time,
        }  # fmt: skip
        yield Comparison(*about, shape, 0.0, float(launches.time[row]), times, (time / factor, time * factor))
