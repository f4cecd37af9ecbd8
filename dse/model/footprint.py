"""Bytes that a network occupies in the outermost memory while it runs, in addition to its weights.

Activations: the largest working set of any layer, which is its inputs (and the expanded ones, if an activation pass writes these) and
outputs and, if the layer graph is known, every tensor that a later layer still needs. Layers run one at a time, unfused. Key-value cache:
keys and values of all tokens of each sample, in networks that generate text.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dse.base.dtype import OperandDtypes
from dse.model.operand_blocks import stored_cache_bytes
from dse.networks.layers import LayerArrays, PerLayer
from dse.sparsity.pattern import FloatOrArray

ROUNDING = 1e-12  # relative: bytes are sums of floats


@dataclass(frozen=True)
class Footprint:
    """Bytes of a network in the outermost memory [B], of which `cache` and `activations` grow with the batch."""

    weights: float
    cache: float
    activations: float
    batch: int

    @property
    def total(self) -> float:
        """All bytes [B]."""
        return self.weights + self.cache + self.activations

    def largest_batch(self, capacity: FloatOrArray) -> FloatOrArray:
        """The largest batch with which the network fits a capacity [B]; 0 where the weights alone do not fit."""
        of_sample = (self.cache + self.activations) / self.batch
        if not of_sample:
            return np.where(self.weights <= capacity, np.inf, 0.0)
        return np.maximum(np.floor((capacity - self.weights) / of_sample * (1 + ROUNDING)), 0.0)


def kv_cache_bytes(layers: LayerArrays, batch: int, dtype: OperandDtypes) -> float:
    """Bytes of the key-value cache [B]."""
    return stored_cache_bytes(layers, dtype.number_format("cache")) * batch


def peak_activation_bytes(layers: LayerArrays, batch: int, dtype: OperandDtypes, expansion: PerLayer | float = 0.0) -> float:
    """Bytes of the largest working set of any layer [B], without what the key-value cache holds.

    `expansion`: elements of the expanded inputs over those of the inputs, if a pass writes them to memory; 0 otherwise.
    """
    read, other = working_set(layers)
    expanded = expansion * layers.input_elements * layers.instances
    activations = dtype.bytes_per_element("activations") * (read + expanded)
    return float((activations + dtype.bytes_per_element("outputs") * other).max(initial=0.0)) * batch


@lru_cache(maxsize=64)
def working_set(layers: LayerArrays) -> tuple[PerLayer, PerLayer]:
    """Elements of one sample that each layer reads, and all other elements in memory while it runs, its own outputs included [layer]."""
    read, written = layers.input_elements * layers.instances, layers.output_elements * layers.instances
    if (graph := layers.graph) is None:
        return read, written
    uncached = np.maximum(written - layers.cache_elements, 0.0)  # outputs outside the key-value cache
    sources = [sum(links, ()) for links in zip(graph.reads, graph.adds, strict=True)]
    read_tensors = np.array([uncached[list(dict.fromkeys(tensors))].sum() for tensors in sources])
    produced = np.array([written[list(tensors)].sum() for tensors in graph.reads])
    reads_cache = (layers.kind == "matmul") & (layers.cache_elements.sum() > 0)
    from_outside = np.where(reads_cache, 0.0, np.maximum(read - produced, 0.0))
    return read_tensors + from_outside, uncached @ graph.live - read_tensors
