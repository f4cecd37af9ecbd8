"""The weights of each layer as one execution stores them: as its pattern, or by windows over an expanded k.

An expanded execution runs a pattern that the unit does not list as the unit's own N:M, by overlapping windows (`dse.sparsity.windows` says
which windows cover a pattern). With k' columns after expansion, a layer C[m, n] = A[m, k] B[k, n] takes

    FLOPs       2 m k' n / gain, and those of the stored weights: the unit runs its own pattern on [m, k']
    weights     the n elements of every window, with the metadata of the unit's pattern
    inputs      `on_chip`: B once; the unit repeats columns as it loads them
                `in_memory`: an activation pass reads B and writes B' [k', n], and the kernel reads B'

The pass overlaps with the kernel as all resources do (`overlap`). Every copy of a needed input counts as needed. Convolutions repeat
channels, so that their inputs grow as k does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from dse.base.number_format import NumberFormat
from dse.model.executions import Execution
from dse.networks.layers import LayerArrays, LayerMask, PerLayer
from dse.schema.model_options import ModelOptions
from dse.schema.unit_run import Run
from dse.sparsity import expectation
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, Dense, Structured
from dse.sparsity.layout import scale_bits
from dse.sparsity.pattern import Pattern
from dse.sparsity.windows import WindowCover, window_cover
from dse.workload import Variant


@dataclass(frozen=True)
class StoredWeights:
    """The weights of each layer as one execution stores them; `legal` masks the layers that it may run.

    `elements` are stored, padding included, next to `metadata_bits` of their positions and `scale_bits` of their scales.
    `executed_elements` take part in the computation: more than the stored ones if only whole tiles are skipped. `column_share` is the
    number of columns that the unit sees, over k: less than 1 if columns are gathered, more than 1 if windows repeat
    them.
    """

    legal: LayerMask
    elements: PerLayer
    metadata_bits: PerLayer
    column_share: PerLayer
    executed_elements: PerLayer
    scale_bits: PerLayer


def no_storage(layers: int) -> StoredWeights:
    """The storage of an execution that may run none of the layers."""
    infinite = np.full(layers, np.inf)
    return StoredWeights(np.zeros(layers, bool), infinite, np.zeros(layers), np.ones(layers), infinite, np.zeros(layers))


def smaller_storage(current: StoredWeights, option: StoredWeights) -> StoredWeights:
    """The better of two stored forms of each layer: legal, then fewer executed elements, then less metadata."""
    tie = (option.executed_elements == current.executed_elements) & (option.metadata_bits < current.metadata_bits)
    better = option.legal & ((option.executed_elements < current.executed_elements) | tie)

    def choose(new: PerLayer, old: PerLayer) -> PerLayer:
        return np.where(better, new, old)

    return StoredWeights(
        option.legal | current.legal,
        choose(option.elements, current.elements),
        choose(option.metadata_bits, current.metadata_bits),
        choose(option.column_share, current.column_share),
        choose(option.executed_elements, current.executed_elements),
        choose(option.scale_bits, current.scale_bits),
    )


def store_weights(layers: LayerArrays, variant: Variant, execution: Execution, numbers: NumberFormat) -> StoredWeights:
    """How an execution stores each layer of a variant, its values as `numbers`, and which layers it may run.

    A sparse run may run the pruned layers whose pattern it contains, and an expanded one those whose pattern its windows cover. Of several
    stored forms of a layer, the one with the fewest executed elements is used, of equals the one with the least metadata. A dense execution
    may run every layer, structured pruning as a smaller matrix. (Whether a pruned layer should run dense is an option of the model,
    `dense_fallback`.)
    """
    if not execution.is_sparse:
        return _store_dense(layers, variant, numbers)
    listed = (_store_as(layers, variant, execution, option, numbers) for option in _storage_options(layers, variant, execution))
    forms = expanded_storage(layers, variant, execution, numbers) if execution.is_expanded else listed
    best = reduce(smaller_storage, forms, no_storage(len(layers)))
    elements, executed = (np.where(best.legal, values, layers.weights) for values in (best.elements, best.executed_elements))
    return replace(best, elements=elements, executed_elements=executed)


def _store_dense(layers: LayerArrays, variant: Variant, numbers: NumberFormat) -> StoredWeights:
    stored_as = variant.pattern if isinstance(variant.pattern, Structured) else Dense()
    kept = layers.weights * (variant.density if isinstance(stored_as, Structured) else 1.0)
    scales = scale_bits(numbers, stored_as, layers.m, layers.k, kept) * layers.has_weights
    return StoredWeights(np.ones(len(layers), bool), kept, np.zeros(len(layers)), np.ones(len(layers)), kept, scales)


class _StorageOption(NamedTuple):
    """A pattern as which the weights of some layers can be stored, and the number of elements stored then."""

    pattern: Pattern
    layers: LayerMask
    elements: PerLayer


def _storage_options(layers: LayerArrays, variant: Variant, execution: Execution) -> Iterator[_StorageOption]:
    """The patterns as which a run can store a variant in its format.

    First what the variant's pattern guarantees, then what was counted from its masks: an unstructured variant may happen to be 2:4 in some
    layers, and a mask can be stored as the blocks that it occupies, if that leaves anything out.
    """
    options = _pattern_options(layers, variant, execution.pattern)
    return (option for option in options if execution.format.can_store(option.pattern))


def _pattern_options(layers: LayerArrays, variant: Variant, run_pattern: Pattern) -> Iterator[_StorageOption]:
    pruned = variant.is_pruned
    guaranteed = (run_pattern.storage_pattern_for(variant.pattern), gathered_pattern(run_pattern, variant.pattern))
    for pattern in filter(None, guaranteed):
        yield _StorageOption(pattern, pruned, pattern.stored_elements(layers.m, layers.k, variant.density))
    for counted, elements in variant.stored_elements.items():
        pattern, possible = run_pattern.storage_pattern_for(counted), pruned & (elements < layers.weights)  # False where it is NaN
        if pattern == counted:
            yield _StorageOption(counted, possible, np.where(possible, elements, 0.0))
        elif isinstance(pattern, NM):
            yield _StorageOption(pattern, possible, pattern.stored_elements(layers.m, layers.k, variant.density))


def _store_as(layers: LayerArrays, variant: Variant, execution: Execution, option: _StorageOption, numbers: NumberFormat) -> StoredWeights:
    cost = execution.format.cost(option.pattern, layers.m, layers.k, option.elements)
    gathers = isinstance(option.pattern, VNM) and isinstance(execution.pattern, NM)
    column_share = VNM_COLUMNS / option.pattern.m if isinstance(option.pattern, VNM) and gathers else 1.0
    executed = _executed_elements(layers, variant, execution, option.pattern, cost.elements)
    scales = scale_bits(numbers, option.pattern, layers.m, layers.k, cost.elements)
    columns = (cost.elements, cost.metadata_bits, column_share, executed, scales)
    return StoredWeights(option.layers & cost.fits, *(np.zeros(len(layers)) + column for column in columns))


def gathered_pattern(run_pattern: Pattern, pattern: Pattern) -> VNM | None:
    """The V:N:M pattern as which a unit that runs N:4 can execute `pattern`, by gathering the chosen columns; None if it cannot.

    N of the 4 chosen columns are nonzero in each row (VENOM, Castro et al. 2023, arXiv 2310.02065); a sparser pattern is padded.
    """
    if not isinstance(pattern, VNM) or not isinstance(run_pattern, NM) or (run_pattern.m, run_pattern.v) != (VNM_COLUMNS, 1):
        return None
    return VNM(pattern.v, run_pattern.n, pattern.m) if pattern.n <= run_pattern.n else None


def _executed_elements(layers: LayerArrays, variant: Variant, execution: Execution, pattern: Pattern, stored: PerLayer) -> PerLayer:
    """Elements that take part in the computation.

    If the unit skips only whole tiles, these are the elements of the tiles that the mask occupies: as counted, otherwise as expected.
    """
    if execution.run.tile is None:
        return stored
    tile = Block(*map(int, execution.run.tile.split("x")))
    if pattern.has_free_tiles and Block(*pattern.tile).is_below(tile):
        return stored
    counted = variant.stored_elements.get(tile, np.full(len(layers), np.nan))
    expected = _expected_tile_elements(layers, variant, tile)
    return np.minimum(np.where(np.isnan(counted), expected, counted), layers.weights)


def _expected_tile_elements(layers: LayerArrays, variant: Variant, tile: Block) -> PerLayer:
    """Expected elements of the tiles that random masks of the variant's pattern occupy; all, if every group keeps a fixed number."""
    pattern, (down, across) = variant.pattern, tile.tile_grid(layers.m, layers.k)
    if not pattern.has_free_tiles:
        return layers.weights
    kept_blocks = pattern.levels(layers.m, layers.k, pattern.stored_elements(layers.m, layers.k, variant.density))[0].kept
    if Block(*pattern.tile).is_below(tile):
        return kept_blocks * pattern.tile[0] * pattern.tile[1]
    blocks_per_tile = np.ceil(tile.rows / pattern.tile[0]) * np.ceil(tile.columns / pattern.tile[1])
    tiles = np.maximum(down * across, 1)
    occupied = expectation.occupied_fibres(tiles, blocks_per_tile, np.minimum(kept_blocks, tiles * blocks_per_tile))
    return occupied * tile.rows * tile.columns


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
