"""W of the memory: the bytes that a layer must move.

Compulsory traffic (Shinn et al. 2023, arXiv 2310.00496): each stored weight, its metadata, each input and each
output crosses the outermost memory once.

    bytes = s_w z + metadata + s_a inputs + s_o outputs
"""

import numpy as np

from dse.dtype import Dtype
from dse.model.options import Counting
from dse.model.work import PerLayer, Stored
from dse.network.layers import Layers


def compulsory(layers: Layers, stored: Stored, dtype: Dtype, activations: Counting) -> PerLayer:
    """Bytes of one instance of each layer [B]."""
    inputs = dtype.bytes("activations") * input_elements(layers, activations)
    return weight_bytes(layers, stored, dtype) + inputs + dtype.bytes("outputs") * layers.output_elements


def weight_bytes(layers: Layers, stored: Stored, dtype: Dtype) -> PerLayer:
    """Bytes of the weights and of what says where they stand [B]."""
    sized = dtype.bytes("weights") * stored.elements + stored.metadata_bits / 8
    return np.where(layers.has_weights, sized, 0.0)


def input_elements(layers: Layers, activations: Counting) -> PerLayer:
    """`implicit`: each input element once; `im2col`: a convolution reads its unrolled k x n matrix of each group."""
    if activations == "implicit":
        return layers.input_elements
    return np.where(layers.kind == "conv", layers.k * layers.n * layers.groups, layers.input_elements)
