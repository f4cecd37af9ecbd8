"""Context length from which on a module of sparse attention is faster than the same module with dense attention.

No dense modules were measured. The dense one is predicted for the same device and kernel: the same projections, launches and rates,
without indexer and selection. Its attention multiplies all keys up to each query: of latent attention at the rate that the sparse kernel
reaches (prompts with the keys and values of every head, decode steps with absorbed matrices), of grouped queries by the fitted fused
attention of the device. A measured crossover compares measured times of the sparse module with it, a predicted one the times that are
predicted without the shape.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dse.calibrate.modules.fit import ModuleModel
from dse.calibrate.modules.launches import ModuleKey, ModuleLaunches, PerLaunch
from dse.calibrate.modules.shapes import LatentShape
from dse.calibrate.modules.time import dense_features
from dse.calibrate.validate.modules import LeftOutPrediction, ModuleKernel
from dse.calibrate.validate.report import format_lines
from dse.model.efficiency.attention.launches import AttentionKey, AttentionLaunches, AttentionRates
from dse.model.efficiency.attention.selection import select_attention
from dse.model.efficiency.efficiency_file import shipped_attention

MIN_LENGTHS = 4  # of a curve
MAX_STEP = 4.0  # factor between the two lengths next to a measured crossover
FACTOR = 1.5  # within which a predicted crossover counts as right
TIME_ERROR = 0.05  # of a measured time (assumed; repeated launches of the tables differ by 2% on average, by 20% at most)
HEADER = (
    "kernel, length from which on sparse beats dense attention", "measured crossovers", "determined",
    f"of these within a factor of {FACTOR:g}", "median factor", "median length [tokens]",
)  # fmt: skip


class Crossover(NamedTuple):
    """Crossover of one curve over context lengths [tokens]; None where the predicted curve has none.

    `is_determined`: measured times that are 5% shorter or longer move the measured crossover by a factor of at most 1.5.
    """

    key: ModuleKey
    heads: int
    sequences: int
    cached: int  # tokens of each sequence before a prompt
    measured: float
    predicted: float | None
    is_determined: bool

    @property
    def ratio(self) -> float:
        """The larger of both lengths over the smaller one; infinite if none is predicted."""
        return np.inf if self.predicted is None else max(self.predicted / self.measured, self.measured / self.predicted)


def list_crossovers(kernel: ModuleKernel, left_out: LeftOutPrediction) -> list[Crossover]:
    """The crossovers of all curves of a kernel: launches that differ in their length alone, at least four of them."""
    crossovers, first = list[Crossover](), 0
    for launches in kernel.groups:
        rows = slice(first, first + len(launches))
        first += len(launches)
        dense = predict_dense(kernel.model, launches)
        if dense is not None:
            crossovers += _of_group(launches, np.log(launches.time / dense), np.log(left_out.time[rows] / dense))
    return crossovers


def find_crossovers(kernels: Sequence[ModuleKernel], left_out: Sequence[LeftOutPrediction]) -> list[Crossover]:
    """The crossovers of all kernels."""
    return [crossover for kernel, prediction in zip(kernels, left_out, strict=True) for crossover in list_crossovers(kernel, prediction)]


def format_crossovers(crossovers: Sequence[Crossover], markdown: bool = False) -> str:
    """One line for each device, kernel, release, phase and network, as aligned text or Markdown; empty without crossovers."""
    by_name = dict[str, list[Crossover]]()
    for each in crossovers:
        key = each.key
        by_name.setdefault(" ".join(filter(None, (key.device, key.kernel, key.release, key.phase, key.network))), []).append(each)
    lines = [_format_line(name, by_name[name]) for name in sorted(by_name)]
    return format_lines([HEADER, *lines, _format_line("all", crossovers)], markdown) if lines else ""


def _format_line(name: str, crossovers: Sequence[Crossover]) -> tuple[str, ...]:
    ratios = [each.ratio for each in crossovers if each.is_determined]
    if not ratios:
        return name, str(len(crossovers)), "0", "", "", ""
    within, median = sum(ratio <= FACTOR for ratio in ratios), float(np.median(ratios))
    length = np.median([each.measured for each in crossovers if each.is_determined])
    factor = f"{median:.2f}" if np.isfinite(median) else "none predicted"
    return name, str(len(crossovers)), str(len(ratios)), f"{within} ({within / len(ratios):.0%})", factor, f"{length:,.0f}"


def predict_dense(model: ModuleModel, launches: ModuleLaunches) -> PerLaunch | None:
    """Time of the same modules with dense attention [s]; None if no fused attention of the phase is fitted for the device."""
    time = model.predict_features(dense_features(launches))
    if isinstance(launches.key.shape, LatentShape):
        return time
    key, bits = launches.key, {"bf16": 16, "fp8": 8}[launches.key.cache_dtype]
    selection = select_attention(shipped_attention(), key.device, key.phase, bits)
    if selection is None or not selection.is_measured:
        return None
    return time + selection.record.model.predict_times(_fused_attention(launches))


def _fused_attention(launches: ModuleLaunches) -> AttentionLaunches:
    """Dense causal attention of the same queries and keys."""
    key, rates, shape = launches.key, launches.rates, launches.key.shape
    assert not isinstance(shape, LatentShape)
    peaks = rates.peak["bf16"], rates.peak[key.cache_dtype]
    size, yes = np.full(len(launches), float(shape.size)), np.ones(len(launches), bool)
    return AttentionLaunches(
        AttentionKey(key.device, "", "", key.phase, "bf16", key.cache_dtype),
        AttentionRates(*peaks, rates.bandwidth, rates.cache, rates.processors),
        launches.sequences, launches.queries, launches.keys, launches.heads, launches.kv_heads, size, np.full(len(launches), np.inf),
        yes, yes, launches.time,
    )  # fmt: skip


def _of_group(launches: ModuleLaunches, measured: PerLaunch, predicted: PerLaunch) -> Iterator[Crossover]:
    decodes = launches.key.phase == "decode"
    cached = np.zeros(len(launches)) if decodes else launches.keys - launches.queries
    curves = np.stack([launches.heads, launches.sequences, cached], axis=1)
    for curve in np.unique(curves, axis=0):
        rows = np.flatnonzero((curves == curve).all(axis=1))
        rows = rows[np.argsort(launches.keys[rows])]
        if len(rows) < MIN_LENGTHS:
            continue
        length = np.log(launches.keys[rows])
        at = _last_crossing(length, measured[rows])
        if at is not None:
            other = _last_crossing(length, predicted[rows], np.inf)
            ends = [_last_crossing(length, measured[rows] + error, np.inf) for error in (-TIME_ERROR, TIME_ERROR)]
            is_determined = all(end is not None and abs(end - at) <= np.log(FACTOR) for end in ends)
            lengths = float(np.exp(at)), None if other is None else float(np.exp(other))
            heads, sequences, tokens = map(int, curve)
            yield Crossover(launches.key, heads, sequences, tokens, *lengths, is_determined)


def _last_crossing(length: PerLaunch, difference: PerLaunch, max_step: float = MAX_STEP) -> float | None:
    """Logarithm of the length from which on the sparse module is faster (`difference` of logarithms below 0), interpolated linearly.

    None if it is never slower, or not faster at the greatest length, or if the lengths on both sides are more than `max_step` apart.
    """
    slower = np.flatnonzero(difference >= 0)
    if not len(slower) or slower[-1] == len(length) - 1:
        return None
    last = slower[-1]
    if length[last + 1] - length[last] > np.log(max_step) + 1e-9:
        return None
    share = difference[last] / (difference[last] - difference[last + 1])
    return float(length[last] + share * (length[last + 1] - length[last]))
