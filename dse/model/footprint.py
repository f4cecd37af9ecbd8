"""Bytes that a network needs in the outermost memory while it runs, beside its weights.

activations   the largest working set of any layer: its inputs and outputs, and where the graph is known every tensor that a later layer
              still needs; layers run one at a time, unfused
cache         keys and values of all tokens of each sample, in networks that generate
"""

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from dse.base.dtype import OperandDtypes
from dse.networks.layers import LayerArrays

PerLayer = Float[np.ndarray, "layer"]


def cache(layers: LayerArrays, batch: int, dtype: OperandDtypes) -> float:
    """Bytes of the key-value cache [B]."""
    return float(layers.cache_elements.sum()) * batch * dtype.bytes_per_element("activations")


def activations(layers: LayerArrays, batch: int, dtype: OperandDtypes) -> float:
    """Bytes of the largest working set [B]; what is in the key-value cache is not counted twice."""
    read, others = working_set(layers)
    return float((dtype.bytes_per_element("activations") * read + dtype.bytes_per_element("outputs") * others).max(initial=0.0)) * batch


@lru_cache(maxsize=64)
def working_set(layers: LayerArrays) -> tuple[PerLayer, PerLayer]:
    """Elements of one sample that each layer reads, and all others that are needed while it runs, its own outputs among them [layer]."""
    read, written = layers.input_elements * layers.instances, layers.output_elements * layers.instances
    if (graph := layers.graph) is None:
        return read, written
    kept = np.maximum(written - layers.cache_elements, 0.0)  # beside the cache
    sources = [sum(links, ()) for links in zip(graph.reads, graph.adds, strict=True)]
    own = np.array([kept[list(dict.fromkeys(found))].sum() for found in sources])
    made = np.array([written[list(found)].sum() for found in graph.reads])
    cached = (layers.kind == "matmul") & (layers.cache_elements.sum() > 0)
    outside = np.where(cached, 0.0, np.maximum(read - made, 0.0))
    return own + outside, kept @ graph.live - own
