"""Fidelity `calibrated`: the two products of a fused attention are predicted as one kernel that was fitted to measurements.

A pair of products counts as fused attention if it states `queries` and the scores are not written. Tiles of masked scores take no time, so
the FLOPs of a causal pair are those of the scores that are not masked. Each of the two layers has half of the kernel's launch, of its time
of the unit and of its traffic, so that the pair takes the time of the kernel. Operands are cold, and the write of the cache belongs to the
layers that compute keys and values. The keys of decoding sequences are taken to be of one length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from dse.base.dtype import BITS_PER_ELEMENT, OperandDtypes, storage_dtype
from dse.model.efficiency import assertions
from dse.model.efficiency.attention_file import AttentionRecord
from dse.model.efficiency.attention_launches import PHASES, AttentionKey, AttentionLaunches, AttentionRates, Phase, phase_of
from dse.model.efficiency.attention_selection import AttentionSelection, select_attention
from dse.model.executions import Execution
from dse.model.rates import DENSE_FLOPS, STORED_FLOPS, TRAFFIC
from dse.model.terms import LayerTerms
from dse.networks.layers import LayerArrays
from dse.schema.accelerator import Accelerator

ATTENTION_DTYPES = ("fp16", "bf16", "fp8")  # in which fused kernels exist
QUERY_DTYPES = ("bf16", "fp16")  # of queries and exponentials where the products are fp8

LayerIndex = Int[np.ndarray, "pair"]


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
    pairs, execution = find_fused_attention(terms.layers), _find_execution(terms, accelerator, dtype)
    if not records or not len(pairs) or execution is None:
        return terms
    bits = BITS_PER_ELEMENT[storage_dtype(dtype.compute)]
    phases = [phase_of(float(terms.layers.queries[pair]), bool(terms.layers.causal[pair])) for pair in pairs]
    for phase in PHASES:
        selection = select_attention(records, described.name, phase, bits)
        if phase in phases and selection is not None:
            of_phase = pairs[[each == phase for each in phases]]
            terms = _with_kernel(terms, of_phase, execution, accelerator, dtype, phase, selection)
    return terms


def _find_execution(terms: LayerTerms, accelerator: Accelerator, dtype: OperandDtypes) -> int | None:
    """Number of the dense execution on the unit of the highest peak; None if that is no dtype of attention or states no processors."""
    if dtype.compute not in ATTENTION_DTYPES:
        return None
    dense = [number for number, execution in enumerate(terms.executions) if not execution.is_sparse and not execution.is_expanded]
    best = max(dense, key=lambda number: accelerator.units[terms.executions[number].unit].peak[dtype.compute].value, default=None)
    return None if best is None or accelerator.units[terms.executions[best].unit].processors is None else best


@dataclass(frozen=True, eq=False)
class _KernelTimes:
    """Overhead, time of the unit and time of the memory of the kernel of each pair [s], and the bytes that it has to move [B]."""

    overhead: Float[np.ndarray, "pair"]
    unit: Float[np.ndarray, "pair"]
    memory: Float[np.ndarray, "pair"]
    moved_bytes: Float[np.ndarray, "pair"]


def _with_kernel(
    terms: LayerTerms, pairs: LayerIndex, number: int, accelerator: Accelerator, dtype: OperandDtypes, phase: Phase,
    selection: AttentionSelection,
) -> LayerTerms:  # fmt: skip
    """The terms with the kernel of one phase in the place of the products of `pairs`, under execution `number` only."""
    assert terms.slowdown is not None
    assert terms.overhead is not None
    assert terms.kernels is not None
    execution, layers = terms.executions[number], np.stack([pairs, pairs + 1], axis=1).ravel()
    launches = _launches(terms.layers, pairs, terms.executions[number], accelerator, dtype, phase)
    moved = (terms.traffic[pairs, number, 0] + terms.traffic[pairs + 1, number, 0]) * terms.count[pairs]
    times = _kernel_times(launches, selection, accelerator, np.minimum(moved, launches.compulsory_bytes))
    samples = len(terms.slowdown)
    factors = np.repeat(selection.sample_time_factors(launches)[:samples], 2, axis=1)
    per_layer = np.repeat(1 / (2 * terms.count[pairs]), 2)  # each layer has half of the kernel, in `count` instances
    flops = np.repeat(launches.flops, 2) * per_layer
    computed = flops / terms.stored_flops[layers, number]  # share of the scores that is not masked
    slowdown, overhead, kernels, legal = terms.slowdown.copy(), terms.overhead.copy(), terms.kernels.copy(), terms.legal.copy()
    peak, bandwidth = accelerator.units[execution.unit].peak[dtype.compute].value, launches.rates.bandwidth
    of_unit, of_memory = times.unit * peak / launches.flops, times.memory * bandwidth / np.maximum(times.moved_bytes, 1e-300)
    assertions.check_slowdown(np.concatenate([of_unit, of_memory]), f"'{accelerator.name}', {selection.label}")
    for term in (DENSE_FLOPS, STORED_FLOPS):
        slowdown[:, layers, number, term] = np.maximum(np.repeat(of_unit, 2) * factors, 1.0)
    slowdown[:, layers, number, TRAFFIC] = np.maximum(np.repeat(of_memory, 2) * factors, 1.0)
    overhead[:, layers, number] = np.repeat(times.overhead, 2) * per_layer * factors
    kernels[layers, number] = selection.label
    legal[layers] = False
    legal[layers, number] = True
    traffic = _masked(terms.traffic, legal)
    traffic[layers, number, 0] = np.repeat(times.moved_bytes, 2) * per_layer
    names = ("dense_flops", "stored_flops", "energy_flops")
    work = {name: _masked(getattr(terms, name), legal) for name in names}
    for values in work.values():
        values[layers, number] *= computed
    return replace(terms, **work, traffic=traffic, legal=legal, slowdown=slowdown, overhead=overhead, kernels=kernels)


def _masked(values: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """A copy with zeros under executions that are not legal."""
    return np.where(legal.reshape(legal.shape + (1,) * (values.ndim - 2)), values, 0.0)


def _kernel_times(
    launches: AttentionLaunches, selection: AttentionSelection, accelerator: Accelerator, moved_bytes: Float[np.ndarray, "pair"]
) -> _KernelTimes:
    """The times of cold launches; a launch latency that the description states replaces the fitted one, whose rest the unit takes."""
    overhead, unit, memory = selection.record.model.time_components(launches, moved_bytes)
    if stated := accelerator.overhead.launch:
        unit = unit + overhead - selection.record.parameters["launch"].value
        overhead = np.full(len(launches), stated.value)
    return _KernelTimes(overhead, unit, memory, moved_bytes)


def _launches(
    layers: LayerArrays, pairs: LayerIndex, execution: Execution, accelerator: Accelerator, dtype: OperandDtypes, phase: Phase
) -> AttentionLaunches:
    """The pairs as launches; fewer keys than causal queries are a window."""
    peaks = accelerator.units[execution.unit].peak
    query_dtype = next((name for name in QUERY_DTYPES if name in peaks), dtype.compute) if dtype.compute == "fp8" else dtype.compute
    key = AttentionKey(accelerator.name, "network", "", phase, query_dtype, dtype.compute)
    sequences, queries, keys, causal = (getattr(layers, name)[pairs] for name in ("sequences", "queries", "m", "causal"))
    kv_heads = layers.count[pairs] / sequences
    has_window = causal & (keys < queries)
    return AttentionLaunches(
        key,
        AttentionRates.from_accelerator(accelerator, execution.unit, query_dtype, dtype.compute),
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
