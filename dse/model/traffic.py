"""W of the memory: the bytes that a layer must move.

Compulsory traffic (Shinn et al. 2023, arXiv 2310.00496): each stored weight, its metadata, each input that is needed and each
output crosses the outermost memory once. An input is needed if some kept weight multiplies it (`dse.model.inputs`).

    bytes = s_w z + metadata + s_a needed inputs + s_o outputs
"""

import numpy as np

from dse.base.dtype import OperandDtypes
from dse.model.inputs import needed
from dse.model.peak import Execution
from dse.model.work import PerLayer, Stored, held_activations
from dse.networks.layers import LayerArrays
from dse.schema.model_options import ConvolutionReads, ModelOptions
from dse.sparsity.kinds import Structured
from dse.workload import Variant


def compulsory(
    layers: LayerArrays, variant: Variant, stored: Stored, execution: Execution, dtype: OperandDtypes, options: ModelOptions
) -> PerLayer:
    """Bytes of one instance of each layer [B]: of the inputs, only what some kept weight needs."""
    weights, inputs, outputs = parts(layers, variant, stored, execution, dtype, options)
    return weights + needed(layers, variant, execution, options).least * inputs + outputs


def parts(
    layers: LayerArrays, variant: Variant, stored: Stored, execution: Execution, dtype: OperandDtypes, options: ModelOptions
) -> tuple[PerLayer, PerLayer, PerLayer]:
    """Bytes of the weights, of all inputs, needed or not, and of the outputs [B].

    Every output is written, also the zeros of an empty row of A: whoever comes next reads them. Structured rows that are pruned write none.
    """
    inputs = _input_bytes(layers, variant, execution, dtype, input_elements(layers, options.activations))
    outputs = written_share(layers, variant, execution) * dtype.bytes_per_element("outputs") * layers.output_elements
    return weight_bytes(layers, stored, dtype), inputs, outputs


def written_share(layers: LayerArrays, variant: Variant, execution: Execution) -> PerLayer:
    """Share of the outputs that is left where whole rows are pruned [1]; what is added to a result has all rows."""
    rows = not execution.sparse and isinstance(variant.pattern, Structured) and variant.pattern.axis == "row"
    return np.where(rows & np.array([added is None for added in layers.adds]), variant.density, 1.0)


def _input_bytes(layers: LayerArrays, variant: Variant, execution: Execution, dtype: OperandDtypes, elements: PerLayer) -> PerLayer:
    """Bytes of the inputs [B], compressed where the run has a format for them: [n, inputs of a position], random zeros."""
    run, plain = execution.how.activations, dtype.bytes_per_element("activations") * elements
    if run is None or run.format is None:
        return plain
    n = np.maximum(layers.n, 1.0)
    _, which = held_activations(run.patterns, variant.input_density)
    for number, pattern in enumerate(run.patterns):
        k = np.maximum(np.round(elements / n), 1.0)
        cost = run.format.cost(pattern, np.ceil(n), k, pattern.stored_elements(np.ceil(n), k, variant.input_density))
        packed = (dtype.bytes_per_element("activations") * cost.elements + cost.metadata_bits / 8) * elements / (np.ceil(n) * k)
        plain = np.where((which == number) & layers.has_weights & cost.fits, packed, plain)
    return plain


def weight_bytes(layers: LayerArrays, stored: Stored, dtype: OperandDtypes) -> PerLayer:
    """Bytes of the weights and of what says where they stand [B]."""
    sized = dtype.bytes_per_element("weights") * stored.elements + stored.metadata_bits / 8
    return np.where(layers.has_weights, sized, 0.0)


def input_elements(layers: LayerArrays, activations: ConvolutionReads) -> PerLayer:
    """`implicit`: each input element once; `im2col`: a convolution reads its unrolled k x n matrix of each group."""
    if activations == "implicit":
        return layers.input_elements
    return np.where(layers.kind == "conv", layers.k * layers.n * layers.groups, layers.input_elements)
