"""Expanded executions: a unit runs a pattern that it does not list as its own N:M, by overlapping windows over an expanded k.

`dse.sparsity.windows` says which windows cover a pattern. With k' columns after expansion, a layer C[m, n] = A[m, k] B[k, n] takes

    FLOPs       2 m k' n / gain, and those of the stored weights: the unit runs its own pattern on [m, k']
    weights     the n elements of every window, with the metadata of the unit's pattern
    inputs      `on_chip`: B once; the unit repeats columns as it loads them
                `in_memory`: an activation pass reads B and writes B' [k', n], and the kernel reads B'

The pass overlaps with the kernel as all resources do (`overlap`). Every copy of a needed input counts as needed. Convolutions repeat
channels, so that their inputs grow as k does.
"""

from collections.abc import Iterator

import numpy as np

from dse.base.number_format import NumberFormat
from dse.model.executions import Execution
from dse.model.stored_weights import StoredWeights
from dse.networks.layers import LayerArrays, LayerMask, PerLayer
from dse.schema.compute_unit import Run
from dse.schema.model_options import ModelOptions
from dse.sparsity.layout import scale_bits
from dse.sparsity.pattern import Pattern
from dse.sparsity.windows import WindowCover, window_cover
from dse.workload import Variant


def expanded_storage(layers: LayerArrays, variant: Variant, execution: Execution, numbers: NumberFormat) -> Iterator[StoredWeights]:
    """The stored forms of a variant by windows of the run's pattern, each legal where it stores less than all weights.

    First what the variant's pattern guarantees, then what was counted from its masks. A pattern that the run contains needs no windows.
    """
    pruned = variant.is_pruned
    counted = ((pattern, pruned & (elements < layers.weights)) for pattern, elements in variant.stored_elements.items())
    for pattern, possible in ((variant.pattern, pruned), *counted):
        cover = window_cover(pattern, execution.pattern)
        if cover is not None and execution.pattern.storage_pattern_for(pattern) is None:
            yield _store_windows(layers, execution, cover, possible, numbers)


def _store_windows(
    layers: LayerArrays, execution: Execution, cover: WindowCover, possible: LayerMask, numbers: NumberFormat
) -> StoredWeights:
    columns = cover.expanded_columns(layers.k)
    elements = cover.unit.stored_elements(layers.m, columns, np.ones(len(layers)))
    cost = execution.format.cost(cover.unit, layers.m, columns, elements)
    share = columns / np.maximum(layers.k, 1.0)
    scales = scale_bits(numbers, cover.unit, layers.m, columns, cost.elements)
    legal = possible & cost.fits & (cost.elements < layers.weights)
    return StoredWeights(legal, cost.elements, cost.metadata_bits, share, cost.elements, scales)


def can_execute(run: Run, pattern: Pattern) -> bool:
    """Whether a run executes a pattern, as its own or expanded."""
    if run.pattern.storage_pattern_for(pattern) is not None:
        return True
    return run.expanded != "none" and window_cover(pattern, run.pattern) is not None


def may_expand(execution: Execution, options: ModelOptions) -> bool:
    """Whether the options admit an execution: layers are not fused across a pass that writes activations to memory."""
    return execution.expansion != "in_memory" or options.fusion == "none"


def expansion_in_memory(stored: StoredWeights, execution: Execution) -> PerLayer:
    """Elements of the expanded activations over those of the inputs, if a pass writes them to memory; 0 otherwise [1]."""
    return np.where(stored.legal & (execution.expansion == "in_memory"), stored.column_share, 0.0)
