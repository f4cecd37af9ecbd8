"""W of the compute units: the FLOPs that a layer asks for, dense and as stored.

A multiply-add counts 2 FLOPs. `C[m, n] = A[m, k] B[k, n]` takes 2 m k n (2 z n for z stored weights).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from dse.model.peak import Execution
from dse.network.layers import Layers
from dse.workload import Variant

PerLayer = Float[np.ndarray, "layer"]


@dataclass(frozen=True)
class Stored:
    """The weights of each layer as one execution stores them."""

    legal: Bool[np.ndarray, "layer"]
    elements: PerLayer
    metadata_bits: PerLayer


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
    a dense execution takes every layer (whether a pruned one *should* run dense is `equation`'s choice).
    """
    everything = np.ones(len(layers), bool)
    if not execution.sparse:
        return Stored(everything, layers.weights, np.zeros(len(layers)))
    member = execution.pattern.member_for(variant.pattern)
    pruned = layers.has_weights & (variant.density < 1)
    if member is None:
        return Stored(~everything, layers.weights, np.zeros(len(layers)))
    elements = member.stored(layers.m, layers.k, variant.density)
    return Stored(pruned, elements, execution.format.metadata_bits(member, layers.m, layers.k, elements))
