"""Compulsory traffic: the bytes of each layer that must cross every memory level at least once.

Each stored weight, its metadata, each needed input and each output crosses the outermost memory once (Shinn et al. 2023, arXiv
2310.00496). An input is needed if some nonzero weight multiplies it (`dse.model.needed_inputs`).

    bytes = s_w z + metadata + s_a needed inputs + s_o outputs

If a pass expands the inputs in memory by a factor x, it reads them once and writes x times as many, which the kernel reads: 1 + 2 x.
"""

from typing import NamedTuple

import numpy as np

from dse.base.dtype import OperandDtypes
from dse.model.activation_zeros import fit_activation_pattern, used_share
from dse.model.attention_scores import attention_scores
from dse.model.executions import Execution
from dse.model.needed_inputs import needed_input_share
from dse.model.operand_blocks import bytes_in_rows, cached_bytes, cached_elements
from dse.model.stored_weights import StoredWeights, expansion_in_memory
from dse.networks.layers import LayerArrays, PerLayer
from dse.schema.model_options import ConvolutionReads, ModelOptions
from dse.sparsity.kinds import Structured
from dse.workload import Variant


class OperandBytes(NamedTuple):
    """Bytes of one instance of each layer [B]: stored weights with metadata, all inputs (whether or not needed), and outputs."""

    weights: PerLayer
    inputs: PerLayer
    outputs: PerLayer


def compulsory_bytes(
    layers: LayerArrays, variant: Variant, stored: StoredWeights, execution: Execution, dtype: OperandDtypes, options: ModelOptions
) -> PerLayer:
    """Bytes that one instance of each layer must move [B]: of the inputs, only the needed ones."""
    operands = operand_bytes(layers, variant, stored, execution, dtype, options)
    moved_inputs = operands.inputs * (1 + 2 * expansion_in_memory(stored, execution))
    return operands.weights + needed_input_share(layers, variant, execution, options).lower * moved_inputs + operands.outputs


def operand_bytes(
    layers: LayerArrays, variant: Variant, stored: StoredWeights, execution: Execution, dtype: OperandDtypes, options: ModelOptions
) -> OperandBytes:
    """Bytes of all operands of one instance of each layer.

    Every output is written, the zeros of an empty row of A included, because the next layer reads them. Rows that structured pruning
    removed are not written.
    """
    scores = attention_scores(layers, execution.run)
    read = scores.layers_as_read(layers)
    inputs = _input_bytes(read, variant, execution, dtype, input_elements(read, options.activations)) + scores.index_bytes
    outputs = written_bytes(layers, dtype, output_share(layers, variant, execution) * layers.output_elements)
    return OperandBytes(weight_bytes(layers, stored, dtype) * read_weight_share(layers, variant, execution), inputs, outputs)


def read_weight_share(layers: LayerArrays, variant: Variant, execution: Execution) -> PerLayer:
    """Share of the stored weights that are read [1]: all, unless the run leaves out those whose input is zero in every column."""
    activations = execution.run.activations
    if activations is None or not activations.gathers_weights:
        return np.ones(len(layers))
    return used_share(activations, variant, layers.n)


def detected_bytes(layers: LayerArrays, execution: Execution, dtype: OperandDtypes, options: ModelOptions) -> PerLayer:
    """Bytes of the activations that the decoder of a run reads to find their zeros [B]."""
    activations = execution.run.activations
    if activations is None or not activations.detected:
        return np.zeros(len(layers))
    return np.where(layers.has_weights, read_bytes(layers, dtype, input_elements(layers, options.activations)), 0.0)


def output_share(layers: LayerArrays, variant: Variant, execution: Execution) -> PerLayer:
    """Share of the outputs that remains if whole rows are pruned [1]; all remain if another tensor is added to the result."""
    removes_rows = not execution.is_sparse and isinstance(variant.pattern, Structured) and variant.pattern.axis == "row"
    return np.where(removes_rows & np.array([added is None for added in layers.adds]), variant.density, 1.0)


def _input_bytes(layers: LayerArrays, variant: Variant, execution: Execution, dtype: OperandDtypes, elements: PerLayer) -> PerLayer:
    """Bytes of the inputs [B], compressed if the run has a format for them: matrices [n, inputs of a position] with random zeros."""
    activations, total = execution.run.activations, read_bytes(layers, dtype, elements)
    if activations is None or activations.format is None:
        return total
    n, k = np.maximum(layers.n, 1.0), np.maximum(np.round(elements / np.maximum(layers.n, 1.0)), 1.0)
    _, chosen_pattern = fit_activation_pattern(activations.patterns, variant.input_density)
    for number, pattern in enumerate(activations.patterns):
        cost = activations.format.cost(pattern, np.ceil(n), k, pattern.stored_elements(np.ceil(n), k, variant.input_density))
        matrix_bytes = dtype.bytes_per_element("activations") * cost.elements + cost.metadata_bits / 8
        compressed = matrix_bytes * elements / (np.ceil(n) * k)
        total = np.where((chosen_pattern == number) & layers.has_weights & cost.fits, compressed, total)
    return total


def weight_bytes(layers: LayerArrays, stored: StoredWeights, dtype: OperandDtypes) -> PerLayer:
    """Bytes of the stored weights, their scales and their metadata [B]."""
    bits = dtype.number_format("weights").element_bits * stored.elements + stored.scale_bits + stored.metadata_bits
    return np.where(layers.has_weights, bits / 8, 0.0)


def read_bytes(layers: LayerArrays, dtype: OperandDtypes, elements: PerLayer) -> PerLayer:
    """Bytes of the input elements of each layer [B]; 0 for a conversion that has nothing to do."""
    between = dtype.bytes_between_products("activations")
    read = np.where(layers.has_weights, bytes_in_rows(dtype.number_format("activations"), elements, layers.n), between * elements)
    if dtype.cache is not None:
        cached = cached_elements(layers, elements)
        read = read + cached_bytes(layers, dtype.number_format("cache"), cached) - between * cached
    return _of_conversions(layers, dtype, read, between * elements, dtype.bytes_per_element("outputs") * elements)


def written_bytes(layers: LayerArrays, dtype: OperandDtypes, elements: PerLayer) -> PerLayer:
    """Bytes of the output elements of each layer [B]; 0 for a conversion that has nothing to do."""
    between = dtype.bytes_between_products("outputs")
    written = np.where(layers.has_weights, bytes_in_rows(dtype.number_format("outputs"), elements, layers.n), between * elements)
    return _of_conversions(layers, dtype, written, dtype.bytes_per_element("activations") * elements, between * elements)


def cache_width_ratio(layers: LayerArrays, dtype: OperandDtypes) -> PerLayer:
    """Bytes of an element of the first operand of a product of activations over those of the second [1]: not 1 if it is in the cache."""
    if dtype.cache is None:
        return np.ones(len(layers))
    ratio = dtype.number_format("cache").mean_bits / 8 / dtype.bytes_between_products("activations")
    return np.where(cached_elements(layers, layers.input_elements) > 0, ratio, 1.0)


def _of_conversions(layers: LayerArrays, dtype: OperandDtypes, others: PerLayer, of_inputs: PerLayer, of_outputs: PerLayer) -> PerLayer:
    """Bytes of the elements of each layer, of conversions those of their kind, which quantise if `elementwise` is another dtype."""
    quantizes = dtype.elementwise not in (None, dtype.activations)
    converted = np.where(layers.conversion == "inputs", of_inputs, of_outputs) * (layers.transposes | quantizes)
    return np.where(layers.conversion == "none", others, converted)


def input_elements(layers: LayerArrays, activations: ConvolutionReads) -> PerLayer:
    """Input elements that are read: `implicit`, each element once; `im2col`, a convolution reads its unrolled k x n matrix per group."""
    if activations == "implicit":
        return layers.input_elements
    return np.where(layers.kind == "conv", layers.k * layers.n * layers.groups, layers.input_elements)
