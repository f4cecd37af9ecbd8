"""Compare predicted times of fused attention with measured ones: each half of the launches of a kernel by a fit to the other half."""

from collections.abc import Iterator, Sequence

import numpy as np
from tqdm import tqdm

from dse.calibrate.attention_export import HalvesPrediction, predict_other_half
from dse.calibrate.attention_set import AttentionSet
from dse.calibrate.validate.comparison import Comparison
from dse.model.efficiency.attention_launches import AttentionKey, AttentionLaunches, PerLaunch
from dse.schema.model_options import Fidelity


def compare_attention(sets: Sequence[AttentionSet]) -> list[Comparison]:
    """Times of a sample of the launches of every kernel with enough of them."""
    keys = [(attention, key) for attention in sets for key in attention.fittable]
    comparisons = []
    for attention, key in tqdm(keys, unit=" kernels", desc="attention", delay=2):
        comparisons += _compare_kernel(attention.name, key, predict_other_half(attention.launches[key]))
    return comparisons


def attention_sol(launches: AttentionLaunches) -> PerLaunch:
    """The larger of unmasked FLOPs over peak and compulsory bytes over bandwidth [s]."""
    return np.maximum(launches.flops / launches.rates.cache_peak, launches.compulsory_bytes / launches.rates.bandwidth)


def constant_efficiency(launches: AttentionLaunches, sol: PerLaunch, in_first_half: np.ndarray) -> PerLaunch:
    """The efficiency of `r3` [1] for each launch: geometric mean of the shares of the speed of light in the other half."""
    shares = [float(np.exp(np.mean(np.log(sol / launches.time)[half]))) for half in (~in_first_half, in_first_half)]
    return np.minimum(np.where(in_first_half, *shares), 1.0)


def _compare_kernel(set_name: str, key: AttentionKey, predicted: HalvesPrediction) -> Iterator[Comparison]:
    launches, sol = predicted.launches, attention_sol(predicted.launches)
    r3 = sol / constant_efficiency(launches, sol, predicted.in_first_half)
    name = " ".join(filter(None, (key.kernel, key.release)))
    about = set_name, "halves", key.device, name, key.phase, key.precision, "time"
    for row, shape in enumerate(launches.shapes):
        time, factor = float(predicted.time[row]), float(np.exp(predicted.half_width[row]))
        times: dict[Fidelity, float] = {"sol": float(sol[row]), "r3": float(r3[row]), "capacity": float(sol[row]), "calibrated": time}
        yield Comparison(*about, shape, 0.0, float(launches.time[row]), times, (time / factor, time * factor))
