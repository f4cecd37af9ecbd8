"""Fidelity `calibrated`: the two products of a fused attention are predicted as one kernel that was fitted to measurements.

A pair of products counts as fused attention if it states `queries` and the scores are not written. Tiles of masked scores take no time, so
the FLOPs of a causal pair are those of the scores that are not masked. A pair has the mask of the pattern that the unit runs it as: all
keys, those up to the query, or as many keys of each query as the pattern has at most, which count as a window of that length. Each of the
two layers has half of the kernel's launch, of its time of the unit and of its traffic, so that the pair takes the time of the kernel.
Operands are cold, and the write of the cache belongs to the layers that compute keys and values. The keys of decoding sequences are taken
to be of one length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from dse.base.dtype import BITS_PER_ELEMENT, OperandDtypes, storage_dtype
from dse.model.attention_scores import attention_scores
from dse.model.efficiency import assertions
from dse.model.efficiency.attention.launches import PHASES, AttentionKey, AttentionLaunches, AttentionRates, Phase, phase_of
from dse.model.efficiency.attention.record import AttentionRecord
from dse.model.efficiency.attention.selection import AttentionSelection, select_attention
from dse.model.rates import DENSE_FLOPS, STORED_FLOPS, TRAFFIC
from dse.model.terms import LayerTerms
from dse.networks.layers import LayerArrays
from dse.schema.accelerator import Accelerator
from dse.sparsity.attention.kinds import Causal, Full

ATTENTION_DTYPES = ("fp16", "bf16", "fp8")  # in which fused kernels exist
QUERY_DTYPES = ("bf16", "fp16")  # of queries and exponentials where the products are fp8

LayerIndex = Int[np.ndarray, "pair"]  # of the first layer of each pair


def find_fused_attention(layers: LayerArrays) -> LayerIndex:
    """Index of the first of each two layers that compute scores, which are not written, and their products with the values."""
    first, second = np.arange(len(layers) - 1), np.arange(1, len(layers))
    states = (layers.queries[first] > 0) & (layers.queries[first] == layers.queries[second])
    same = np.all([getattr(layers, name)[first] == getattr(layers, name)[second] for name in ("n", "count", "sequences", "causal")], axis=0)
    chained = (layers.m[first] == layers.k[second]) & (layers.k[first] == layers.m[second])
    return first[states & same & chained & (layers.output_elements[first] == 0) & (layers.output_elements[second] > 0)]


def predict_fused_attention(
    terms: LayerTerms, accelerator: Accelerator, described: Accelerator, dtype: OperandDtypes, records: Sequence[AttentionRecord]
) -> LayerTerms:
    """The terms with fused attention by fitted kernels, on the unit that is fastest in its dtype.

    Unchanged where there is none, where no kernel was fitted for its phase, or where the description does not state processors.
    """
    pairs, execution = find_fused_attention(terms.layers), _find_execution(terms, accelerator, described, dtype)
    if execution is not None:
        pairs = _with_fitted_mask(terms, pairs, execution)
    if not records or not len(pairs) or execution is None:
        return terms
    bits = BITS_PER_ELEMENT[storage_dtype(_attention_dtype(dtype))]
    phases = [phase_of(float(terms.layers.queries[pair]), bool(terms.layers.causal[pair])) for pair in pairs]
    for phase in PHASES:
        selection = select_attention(records, described.name, phase, bits)
        if phase in phases and selection is not None:
            of_phase = pairs[[each == phase for each in phases]]
            launches = _launches(terms, of_phase, execution, accelerator, described, dtype, phase)
            times = _kernel_times(terms, of_phase, execution, launches, selection, accelerator, described)
            peak = described.units[terms.executions[execution].unit].peak[dtype.compute].value
            terms = _with_kernel(terms, of_phase, execution, launches, times, selection, peak)
    return terms


def _with_fitted_mask(terms: LayerTerms, pairs: LayerIndex, number: int) -> LayerIndex:
    """The pairs whose mask some fitted kernel has: all but those with strides, or with a share of the blocks."""
    scores = attention_scores(terms.layers, terms.executions[number].run)
    patterns = [scores.patterns[pair] for pair in pairs]
    fitted = [pattern is None or isinstance(pattern, Full | Causal) or pattern.most_keys is not None for pattern in patterns]
    return pairs[np.array(fitted, bool) | ~scores.applies[pairs]]


def _find_execution(terms: LayerTerms, accelerator: Accelerator, described: Accelerator, dtype: OperandDtypes) -> int | None:
    """Number of the dense execution on the unit described with the highest peak that computes attention; None in other dtypes, or without
    `processors`."""
    if _attention_dtype(dtype) not in ATTENTION_DTYPES:
        return None
    dense = [number for number, execution in enumerate(terms.executions) if not execution.is_sparse and not execution.is_expanded]
    able = [number for number in dense if _query_dtype(described, terms.executions[number].unit, dtype) is not None]
    best = max(able, key=lambda number: described.units[terms.executions[number].unit].peak[dtype.compute].value, default=None)
    return None if best is None or accelerator.units[terms.executions[best].unit].processors is None else best


def _attention_dtype(dtype: OperandDtypes) -> str:
    """The dtype of both products: that of the cache or of what runs between the products with weights, if it is given."""
    return dtype.cache or dtype.elementwise or dtype.compute


def _query_dtype(described: Accelerator, unit: str, dtype: OperandDtypes) -> str | None:
    """The dtype of queries and exponentials; None if the unit does not compute in it."""
    names = (*QUERY_DTYPES, "fp8") if _attention_dtype(dtype) == "fp8" else (_attention_dtype(dtype),)
    return next((name for name in names if name in described.units[unit].peak), None)


@dataclass(frozen=True, eq=False)
class _KernelTimes:
    """Times of the kernel of each pair [s], and the bytes that it has to move [B].

    `factors`: samples of actual over predicted time; the first is 1.
    """

    overhead: Float[np.ndarray, "pair"]
    unit: Float[np.ndarray, "pair"]
    memory: Float[np.ndarray, "pair"]
    moved_bytes: Float[np.ndarray, "pair"]
    factors: Float[np.ndarray, "sample pair"]


def _kernel_times(
    terms: LayerTerms, pairs: LayerIndex, number: int, launches: AttentionLaunches, selection: AttentionSelection,
    accelerator: Accelerator, described: Accelerator,
) -> _KernelTimes:  # fmt: skip
    """The times of cold launches; a launch latency that is stated replaces the fitted one, whose rest the unit takes.

    The traffic is that of the processors of the description, since capacities decide traffic and processors the time of the unit.
    """
    assert terms.slowdown is not None
    moved = (terms.traffic[pairs, number, 0] + terms.traffic[pairs + 1, number, 0]) * terms.count[pairs]
    indices = attention_scores(terms.layers, terms.executions[number].run).index_bytes[pairs] * terms.count[pairs]
    moved = np.minimum(moved, launches.compulsory_bytes + indices)
    overhead, unit, _ = selection.record.model.time_components(launches, moved)
    processors = described.units[terms.executions[number].unit].processors
    rates = replace(launches.rates, processors=processors.value) if processors else launches.rates
    memory = selection.record.model.time_components(replace(launches, rates=rates), moved)[2]
    if stated := accelerator.overhead.launch:
        unit = unit + overhead - selection.record.parameters["launch"].value
        overhead = np.full(len(launches), stated.value)
    return _KernelTimes(overhead, unit, memory, moved, selection.sample_time_factors(launches)[: len(terms.slowdown)])


def _with_kernel(
    terms: LayerTerms, pairs: LayerIndex, number: int, launches: AttentionLaunches, times: _KernelTimes, selection: AttentionSelection,
    peak: float,
) -> LayerTerms:  # fmt: skip
    """The terms with a kernel in the place of the products of `pairs`, under execution `number` only, at whose `peak` [FLOP/s] they are."""
    layers, terms = _layers_of(pairs), _with_unmasked_work(terms, pairs, number, launches, times)
    assert terms.overhead is not None
    assert terms.kernels is not None
    overhead, kernels = terms.overhead.copy(), terms.kernels.copy()
    overhead[:, layers, number] = _per_layer(times.overhead * times.factors, pairs, terms)
    kernels[layers, number] = selection.label
    return replace(terms, slowdown=_slowdown(terms, pairs, number, launches, times, peak), overhead=overhead, kernels=kernels)


def _with_unmasked_work(terms: LayerTerms, pairs: LayerIndex, number: int, launches: AttentionLaunches, times: _KernelTimes) -> LayerTerms:
    """The terms with the FLOPs of the scores that are not masked and the bytes of the kernel; no other execution is legal."""
    layers, legal = _layers_of(pairs), terms.legal.copy()
    legal[layers] = np.arange(legal.shape[1]) == number
    values = {name: getattr(terms, name) * legal for name in ("dense_flops", "stored_flops", "energy_flops")}
    unmasked = _per_layer(launches.flops, pairs, terms)
    for flops in values.values():
        flops[layers, number] = np.where(flops[layers, number] > 0, unmasked, 0.0)
    traffic = terms.traffic * legal[:, :, None]
    traffic[layers, number, 0] = _per_layer(times.moved_bytes, pairs, terms)
    return replace(terms, **values, legal=legal, traffic=traffic)


def _slowdown(
    terms: LayerTerms, pairs: LayerIndex, number: int, launches: AttentionLaunches, times: _KernelTimes, peak: float
) -> Float[np.ndarray, "sample layer execution term"]:
    """Time of the unit and of the outermost memory over those of the work at the peak and the bandwidth of the description [1].

    The kernel may compute in another dtype than the products with weights, and be faster than the peak of theirs.
    """
    assert terms.slowdown is not None
    least_of_unit = min(1.0, peak / max(launches.rates.peak, launches.rates.cache_peak))
    layers, slowdown = _layers_of(pairs), terms.slowdown.copy()
    columns = (
        ([DENSE_FLOPS, STORED_FLOPS], times.unit * peak, terms.stored_flops[layers, number], least_of_unit),
        ([TRAFFIC], times.memory * launches.rates.bandwidth, terms.traffic[layers, number, 0], 1.0),
    )
    for numbers, work_in_time, work, least in columns:
        ratio = np.where(work > 0, _per_layer(work_in_time, pairs, terms) / np.where(work > 0, work, 1.0), 1.0)
        assertions.check_slowdown(ratio / least, kernel=str(launches.key))
        for term in numbers:
            slowdown[:, layers, number, term] = np.maximum(ratio * np.repeat(times.factors, 2, axis=1), least)
    return slowdown


def _layers_of(pairs: LayerIndex) -> Int[np.ndarray, "layer"]:
    """Both layers of each pair."""
    return np.stack([pairs, pairs + 1], axis=1).ravel()


def _per_layer(of_kernel: Float[np.ndarray, "*sample pair"], pairs: LayerIndex, terms: LayerTerms) -> Float[np.ndarray, "*sample layer"]:
    """The part of a kernel's number that one instance of each of its two layers has."""
    return np.repeat(of_kernel / (2 * terms.count[pairs]), 2, axis=-1)


def _launches(
    terms: LayerTerms, pairs: LayerIndex, number: int, accelerator: Accelerator, described: Accelerator, dtype: OperandDtypes, phase: Phase
) -> AttentionLaunches:
    """The pairs as launches; fewer keys than causal queries are a window.

    The peaks and the bandwidth are those of the description, so that the slowdown does not depend on those of a design.
    """
    layers, unit = terms.layers, terms.executions[number].unit
    query_dtype, cache_dtype = _query_dtype(described, unit, dtype), _attention_dtype(dtype)
    assert query_dtype is not None  # of an execution that `_find_execution` chose
    rates, base = (AttentionRates.from_accelerator(one, unit, query_dtype, cache_dtype) for one in (accelerator, described))
    sequences, queries, causal = (getattr(layers, name)[pairs] for name in ("sequences", "queries", "causal"))
    keys = attention_scores(layers, terms.executions[number].run).most_keys[pairs]
    kv_heads, has_window = layers.count[pairs] / sequences, causal & (keys < queries)
    return AttentionLaunches(
        AttentionKey(accelerator.name, "fused attention", "", phase, query_dtype, cache_dtype),
        replace(rates, peak=base.peak, cache_peak=base.cache_peak, bandwidth=base.bandwidth),
        sequences=sequences,
        queries=queries,
        keys=np.where(has_window, queries, keys),
        heads=kv_heads * layers.n[pairs] / queries,
        kv_heads=kv_heads,
        size=layers.k[pairs],
        window=np.where(has_window, keys, np.inf),
        is_causal=causal,
        writes_cache=np.zeros(len(pairs), bool),
        time=np.full(len(pairs), np.nan),
    )
