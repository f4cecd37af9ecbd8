"""Work of the compute units: the FLOPs of each layer, dense and as an execution stores it.

A multiply-add counts as 2 FLOPs: C[m, n] = A[m, k] B[k, n] takes 2 m k n FLOPs dense, and 2 z n FLOPs with z stored weights.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from dse.base.number_format import NumberFormat
from dse.model.activation_zeros import used_share
from dse.model.attention_scores import attention_scores
from dse.model.executions import Execution
from dse.model.expanded import expanded_storage
from dse.model.stored_weights import StoredWeights, no_storage, smaller_storage
from dse.networks.layers import LayerArrays, LayerMask, PerLayer
from dse.sparsity import expectation
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, Dense, Structured
from dse.sparsity.layout import scale_bits
from dse.sparsity.pattern import Pattern
from dse.workload import Variant


def dense_flops(layers: LayerArrays) -> PerLayer:
    """FLOPs of one instance of each layer if nothing is skipped [FLOP]."""
    return np.where(layers.has_flops, 2 * layers.m * layers.k * layers.n, 0.0)


def stored_flops(layers: LayerArrays, variant: Variant, stored: StoredWeights, execution: Execution) -> PerLayer:
    """FLOPs that take time [FLOP]: of the executed weights with the activations that are not skipped, at most the dense FLOPs."""
    elements = stored.executed_elements if execution.run.zeros == "skipped" else layers.weights * stored.column_share
    share = _activation_share(layers, variant, execution, {"skipped"}) * _score_share(layers, execution, {"skipped"})
    return _flops_of_elements(layers, elements) * share


def energy_flops(layers: LayerArrays, variant: Variant, stored: StoredWeights, execution: Execution) -> PerLayer:
    """FLOPs that take energy [FLOP]: those that take time, without the gated ones."""
    gates_weights = execution.is_sparse and execution.run.zeros == "gated"
    elements = np.minimum(stored.executed_elements, layers.weights * variant.density) if gates_weights else stored.executed_elements
    return _flops_of_elements(layers, elements) * computed_share(layers, variant, execution)


def computed_share(layers: LayerArrays, variant: Variant, execution: Execution) -> PerLayer:
    """Share of the products with a stored weight that are computed [1]: their activation is neither skipped nor gated.

    Of an attention, the share of the scores that are neither skipped nor gated.
    """
    left_out = {"skipped", "gated"}
    return _activation_share(layers, variant, execution, left_out) * _score_share(layers, execution, left_out)


def _score_share(layers: LayerArrays, execution: Execution, left_out: set[str]) -> PerLayer:
    """Share of the scores of an attention that are computed, if the run treats the others in one of the modes `left_out` [1]."""
    scores = execution.run.scores
    if scores is None or scores.zeros not in left_out:
        return np.ones(len(layers))
    return attention_scores(layers, execution.run).computed_share


def _flops_of_elements(layers: LayerArrays, elements: PerLayer) -> PerLayer:
    dense = dense_flops(layers)
    return np.where(layers.has_weights, np.minimum(2 * elements * layers.n, dense), dense)


def _activation_share(layers: LayerArrays, variant: Variant, execution: Execution, left_out: set[str]) -> PerLayer:
    """Share of the activations that are used, if the run treats their zeros in one of the modes `left_out`.

    Zeros of weights and activations are independent: a product is left out if either operand is zero. What several tokens share is left out
    if it is zero in all of them.
    """
    activations = execution.run.activations
    if activations is None or activations.zeros not in left_out:
        return np.ones(len(layers))
    return np.where(layers.has_weights, used_share(activations, variant, np.minimum(activations.tokens, layers.n)), 1.0)


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
