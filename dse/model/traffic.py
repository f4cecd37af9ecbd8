"""W of the memory: the bytes that a layer must move.

Compulsory traffic (Shinn et al. 2023, arXiv 2310.00496): each stored weight, its metadata, each input and each
output crosses the outermost memory once.

    bytes = s_w z + metadata + s_a inputs + s_o outputs
"""

import numpy as np

from dse.dtype import Dtype
from dse.model.options import Counting
from dse.model.peak import Execution
from dse.model.work import PerLayer, Stored, held_activations
from dse.network.layers import Layers
from dse.sparsity.kinds import Whole
from dse.workload import Variant


def compulsory(layers: Layers, variant: Variant, stored: Stored, execution: Execution, dtype: Dtype, activations: Counting) -> PerLayer:
    """Bytes of one instance of each layer [B]."""
    return sum(parts(layers, variant, stored, execution, dtype, activations), np.zeros(len(layers)))


def parts(
    layers: Layers, variant: Variant, stored: Stored, execution: Execution, dtype: Dtype, activations: Counting
) -> tuple[PerLayer, PerLayer, PerLayer]:
    """Bytes of the weights, inputs and outputs [B]. Whole rows that are gone write no outputs, whole channels read no inputs."""
    read, written = compacted(layers, variant, execution)
    inputs = read * _input_bytes(layers, variant, execution, dtype, input_elements(layers, activations))
    return weight_bytes(layers, stored, dtype), inputs, written * dtype.bytes("outputs") * layers.output_elements


def compacted(layers: Layers, variant: Variant, execution: Execution) -> tuple[PerLayer, PerLayer]:
    """Share of the inputs and of the outputs that a smaller matrix has. Columns of a convolution share their channel, which is read."""
    whole = np.ones(len(layers))
    if execution.sparse or not isinstance(variant.pattern, Whole):
        return whole, whole
    if variant.pattern.axis == "row":  # what is added to a result has all rows
        return whole, np.where([added is None for added in layers.adds], variant.density, 1.0)
    return np.where((layers.kind == "gemm") | (variant.pattern.axis == "channel"), variant.density, 1.0), whole


def _input_bytes(layers: Layers, variant: Variant, execution: Execution, dtype: Dtype, elements: PerLayer) -> PerLayer:
    """Bytes of the inputs [B], compressed where the run has a format for them: [n, inputs of a position], random zeros."""
    run, plain = execution.how.activations, dtype.bytes("activations") * elements
    if run is None or run.format is None:
        return plain
    n = np.maximum(layers.n, 1.0)
    _, which = held_activations(run.patterns, variant.activations)
    for number, pattern in enumerate(run.patterns):
        k = np.maximum(np.round(elements / n), 1.0)
        cost = run.format.cost(pattern, np.ceil(n), k, pattern.stored(np.ceil(n), k, variant.activations))
        packed = (dtype.bytes("activations") * cost.elements + cost.metadata / 8) * elements / (np.ceil(n) * k)
        plain = np.where((which == number) & layers.has_weights & cost.fits, packed, plain)
    return plain


def weight_bytes(layers: Layers, stored: Stored, dtype: Dtype) -> PerLayer:
    """Bytes of the weights and of what says where they stand [B]."""
    sized = dtype.bytes("weights") * stored.elements + stored.metadata_bits / 8
    return np.where(layers.has_weights, sized, 0.0)


def input_elements(layers: Layers, activations: Counting) -> PerLayer:
    """`implicit`: each input element once; `im2col`: a convolution reads its unrolled k x n matrix of each group."""
    if activations == "implicit":
        return layers.input_elements
    return np.where(layers.kind == "conv", layers.k * layers.n * layers.groups, layers.input_elements)
