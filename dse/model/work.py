"""W of the compute units: the FLOPs that a layer asks for, dense and as stored.

A multiply-add counts 2 FLOPs. `C[m, n] = A[m, k] B[k, n]` takes 2 m k n (2 z n for z stored weights).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from dse.model.peak import Execution
from dse.networks.layers import LayerArrays
from dse.sparsity import expectation
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, Structured
from dse.sparsity.pattern import Pattern
from dse.workload import Variant

PerLayer = Float[np.ndarray, "layer"]


@dataclass(frozen=True)
class Stored:
    """The weights of each layer as one execution stores them."""

    legal: Bool[np.ndarray, "layer"]
    elements: PerLayer
    metadata_bits: PerLayer
    columns: PerLayer  # share of k that the unit sees: gathered columns make a narrower matrix
    worked: PerLayer  # elements that the unit works through: whole tiles, where it skips no less


def dense_flops(layers: LayerArrays) -> PerLayer:
    """FLOPs of one instance of each layer, nothing skipped [FLOP]."""
    return np.where(layers.has_flops, 2 * layers.m * layers.k * layers.n, 0.0)


def worked_flops(layers: LayerArrays, variant: Variant, stored: Stored, execution: Execution) -> PerLayer:
    """FLOPs that take time [FLOP]: over the weights worked through and the activations not skipped, never more than dense ones."""
    elements = stored.worked if execution.how.zeros == "skipped" else layers.weights * stored.columns
    return _products(layers, elements) * _activations(layers, variant, execution, {"skipped"})


def done_flops(layers: LayerArrays, variant: Variant, stored: Stored, execution: Execution) -> PerLayer:
    """FLOPs that take energy [FLOP]: those that take time, without the gated ones."""
    gated = execution.sparse and execution.how.zeros == "gated"
    elements = np.minimum(stored.worked, layers.weights * variant.density) if gated else stored.worked
    return _products(layers, elements) * activations_done(layers, variant, execution)


def activations_done(layers: LayerArrays, variant: Variant, execution: Execution) -> PerLayer:
    """Share of the products with a weight that are made at all."""
    return _activations(layers, variant, execution, {"skipped", "gated"})


def _products(layers: LayerArrays, elements: PerLayer) -> PerLayer:
    whole = dense_flops(layers)
    return np.where(layers.has_weights, np.minimum(2 * elements * layers.n, whole), whole)


def _activations(layers: LayerArrays, variant: Variant, execution: Execution, how: set[str]) -> PerLayer:
    """Share of the activations that meet a weight. Zeros of the two operands fall independently: a product is left if both are not."""
    run = execution.how.activations
    if run is None or run.zeros not in how:
        return np.ones(len(layers))
    return np.where(layers.has_weights, held_activations(run.patterns, variant.input_density)[0], 1.0)


def held_activations(patterns: tuple[Pattern, ...], density: PerLayer) -> tuple[PerLayer, np.ndarray]:
    """Share of the activations that the sparsest pattern holding them keeps, and the number of that pattern (-1: none, all kept).

    An N:M holds what is no denser than N/M, as if the nonzeros came evenly spread; hardware that prunes to N:M on the fly
    (S2TA, Liu et al. 2022, arXiv 2107.07983) sees to that, at an accuracy that nobody states here.
    """
    share, which = np.ones(len(density)), np.full(len(density), -1)
    for number, pattern in enumerate(patterns):
        kept = density if pattern.density is None else np.full(len(density), pattern.density)
        better = (density <= kept) & (kept < share)
        share, which = np.where(better, kept, share), np.where(better, number, which)
    return share, which


def stored_weights(layers: LayerArrays, variant: Variant, execution: Execution) -> Stored:
    """How `execution` stores each layer of `variant`, and whether it may run it at all.

    Sparse runs take pruned layers whose pattern they contain, stored as the member of their pattern that fits;
    a dense execution takes every layer (whether a pruned one *should* run dense is `equation`'s choice), what is left of
    whole rows or columns as a smaller matrix.
    """
    everything, nothing = np.ones(len(layers), bool), np.zeros(len(layers))
    if not execution.sparse:
        kept = layers.weights * (variant.density if isinstance(variant.pattern, Structured) else 1.0)
        return Stored(everything, kept, nothing, np.ones(len(layers)), kept)
    infinite = np.full(len(layers), np.inf)
    smallest = Stored(~everything, infinite, nothing, np.ones(len(layers)), infinite)
    for member, legal, elements in _ways(layers, variant, execution.pattern):
        if not execution.format.can_store(member):
            continue
        cost = execution.format.cost(member, layers.m, layers.k, elements)
        gathered = VNM_COLUMNS / member.m if isinstance(member, VNM) and isinstance(execution.pattern, NM) else 1.0
        worked = _worked(layers, variant, execution, member, cost.elements)
        legal = legal & cost.fits
        tie = (worked == smallest.worked) & (cost.metadata_bits < smallest.metadata_bits)
        smaller = legal & ((worked < smallest.worked) | tie)
        news = (cost.elements, cost.metadata_bits, gathered, worked)
        olds = (smallest.elements, smallest.metadata_bits, smallest.columns, smallest.worked)
        smallest = Stored(legal | smallest.legal, *(np.where(smaller, new, old) for new, old in zip(news, olds, strict=True)))
    elements, worked = (np.where(smallest.legal, part, layers.weights) for part in (smallest.elements, smallest.worked))
    return replace(smallest, elements=elements, worked=worked)


def _ways(layers: LayerArrays, variant: Variant, pattern: Pattern) -> Iterator[tuple[Pattern, np.ndarray, PerLayer]]:
    """As which patterns hardware that lists `pattern` may store a variant, which layers, in how many elements.

    First what the variant's pattern guarantees, then what was counted from its masks: one that has no pattern as a whole may
    be 2:4 in some layers, and a mask can be stored in the blocks that it occupies, if that leaves anything out.
    """
    pruned = layers.has_weights & (variant.density < 1)
    if (member := pattern.storage_pattern_for(variant.pattern)) is not None:
        yield member, pruned, member.stored_elements(layers.m, layers.k, variant.density)
    if (narrow := gathered(pattern, variant.pattern)) is not None:
        yield narrow, pruned, narrow.stored_elements(layers.m, layers.k, variant.density)
    for counted, elements in variant.stored_elements.items():
        member, known = pattern.storage_pattern_for(counted), pruned & (elements < layers.weights)  # not where it is NaN
        if member == counted:
            yield counted, known, np.where(known, elements, 0.0)
        elif isinstance(member, NM):
            yield member, known, member.stored_elements(layers.m, layers.k, variant.density)


def gathered(pattern: Pattern, own: Pattern) -> VNM | None:
    """A unit that runs N:4 runs V:N:M too: it gathers the chosen columns, of which N of 4 are left in each row (VENOM,
    Castro et al. 2023, arXiv 2310.02065); a sparser one fills its slots."""
    if not isinstance(own, VNM) or not isinstance(pattern, NM) or (pattern.m, pattern.v) != (VNM_COLUMNS, 1):
        return None
    return VNM(own.v, pattern.n, own.m) if own.n <= pattern.n else None


def _worked(layers: LayerArrays, variant: Variant, execution: Execution, member: Pattern, elements: PerLayer) -> PerLayer:
    """Elements worked through where only whole tiles are skipped: those that the mask occupies, as counted, else as expected."""
    if execution.how.tile is None:
        return elements
    tile = Block(*map(int, execution.how.tile.split("x")))
    if member.has_free_tiles and Block(*member.tile).is_below(tile):
        return elements
    counted = variant.stored_elements.get(tile, np.full(len(layers), np.nan))
    expected = _occupied(layers, variant, tile)
    return np.minimum(np.where(np.isnan(counted), expected, counted), layers.weights)


def _occupied(layers: LayerArrays, variant: Variant, tile: Block) -> PerLayer:
    """Elements of the tiles that random masks of the variant's own pattern would occupy; one that fixes what each group keeps
    leaves none empty."""
    own, (down, across) = variant.pattern, tile.tile_grid(layers.m, layers.k)
    if not own.has_free_tiles:
        return layers.weights
    kept = own.levels(layers.m, layers.k, own.stored_elements(layers.m, layers.k, variant.density))[0].kept
    if Block(*own.tile).is_below(tile):
        return kept * own.tile[0] * own.tile[1]
    inside = np.ceil(tile.rows / own.tile[0]) * np.ceil(tile.columns / own.tile[1])
    tiles = np.maximum(down * across, 1)
    return expectation.occupied_fibres(tiles, inside, np.minimum(kept, tiles * inside)) * tile.rows * tile.columns
