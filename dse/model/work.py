"""W of the compute units: the FLOPs that a layer asks for, dense and as stored.

A multiply-add counts 2 FLOPs. `C[m, n] = A[m, k] B[k, n]` takes 2 m k n (2 z n for z stored weights).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from dse.model.peak import Execution
from dse.network.layers import Layers
from dse.sparsity.kinds import CHOSEN, NM, VNM, Whole
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


def dense_flops(layers: Layers) -> PerLayer:
    """FLOPs of one instance of each layer, nothing skipped [FLOP]."""
    return np.where(layers.has_flops, 2 * layers.m * layers.k * layers.n, 0.0)


def stored_flops(layers: Layers, stored: Stored) -> PerLayer:
    """FLOPs over the stored weights [FLOP], never more than dense ones: the gain is at least 1."""
    whole = dense_flops(layers)
    return np.where(layers.has_weights, np.minimum(2 * stored.elements * layers.n, whole), whole)


def stored_weights(layers: Layers, variant: Variant, execution: Execution) -> Stored:
    """How `execution` stores each layer of `variant`, and whether it may run it at all.

    Sparse runs take pruned layers whose pattern they contain, stored as the member of their pattern that fits;
    a dense execution takes every layer (whether a pruned one *should* run dense is `equation`'s choice), what is left of
    whole rows or columns as a smaller matrix.
    """
    everything, nothing = np.ones(len(layers), bool), np.zeros(len(layers))
    if not execution.sparse:
        kept = variant.density if isinstance(variant.pattern, Whole) else np.ones(len(layers))
        return Stored(everything, layers.weights * kept, nothing, np.ones(len(layers)))
    smallest = Stored(~everything, np.full(len(layers), np.inf), nothing, np.ones(len(layers)))
    for member, legal, elements in _ways(layers, variant, execution.pattern):
        cost = execution.format.cost(member, layers.m, layers.k, elements)
        elements, bits, legal = cost.elements, cost.metadata, legal & cost.fits
        gathered = CHOSEN / member.m if isinstance(member, VNM) and isinstance(execution.pattern, NM) else 1.0
        tie = (elements == smallest.elements) & (bits < smallest.metadata_bits)
        smaller = legal & ((elements < smallest.elements) | tie)
        columns = ((elements, smallest.elements), (bits, smallest.metadata_bits), (gathered, smallest.columns))
        smallest = Stored(legal | smallest.legal, *(np.where(smaller, new, old) for new, old in columns))
    return replace(smallest, elements=np.where(smallest.legal, smallest.elements, layers.weights))


def _ways(layers: Layers, variant: Variant, pattern: Pattern) -> Iterator[tuple[Pattern, np.ndarray, PerLayer]]:
    """As which patterns hardware that lists `pattern` may store a variant, which layers, in how many elements.

    First what the variant's pattern guarantees, then what was counted from its masks: one that has no pattern as a whole may
    be 2:4 in some layers, and a mask can be stored in the blocks that it occupies, if that leaves anything out.
    """
    pruned = layers.has_weights & (variant.density < 1)
    if (member := pattern.member_for(variant.pattern)) is not None:
        yield member, pruned, member.stored(layers.m, layers.k, variant.density)
    if (gathered := _gathered(pattern, variant.pattern)) is not None:
        yield gathered, pruned, gathered.stored(layers.m, layers.k, variant.density)
    for counted, elements in variant.stored.items():
        member, known = pattern.member_for(counted), pruned & (elements < layers.weights)  # not where it is NaN
        if member == counted:
            yield counted, known, np.where(known, elements, 0.0)
        elif isinstance(member, NM):
            yield member, known, member.stored(layers.m, layers.k, variant.density)


def _gathered(pattern: Pattern, own: Pattern) -> VNM | None:
    """A unit that runs N:4 runs V:N:M too: it gathers the chosen columns, of which N of 4 are left in each row (VENOM,
    Castro et al. 2023, arXiv 2310.02065); a sparser one fills its slots."""
    if not isinstance(own, VNM) or not isinstance(pattern, NM) or (pattern.m, pattern.v) != (CHOSEN, 1):
        return None
    return VNM(own.v, pattern.n, own.m) if own.n <= pattern.n else None
