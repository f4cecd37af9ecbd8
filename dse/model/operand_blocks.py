"""Bytes of operands in number formats with scales, and of the key-value cache.

Rows of an operand run along the dimension that is summed over: an input of a product with weights is [n, k], its output [n, m]. Where the
elements of a row are no whole number (convolutions with a stride), each element counts its mean share of a scale.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
from jaxtyping import Int

from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.base.number_format import NumberFormat
from dse.networks.graph import LayerGraph
from dse.networks.layers import LayerArrays, PerLayer

ROW_TOLERANCE = 1e-6  # relative; sizes at a batch are products of floats


def bytes_in_rows(numbers: NumberFormat, elements: PerLayer, rows: PerLayer) -> PerLayer:
    """Bytes of `elements` in so many rows of equal length, scales and places included [B]."""
    if numbers.is_plain:
        return numbers.element_bits / 8 * elements
    columns = elements / np.where(rows > 0, rows, 1.0)
    whole = np.round(columns)
    is_whole = np.abs(columns - whole) <= ROW_TOLERANCE * np.maximum(columns, 1.0)
    return np.where(is_whole, numbers.bits(rows, whole), numbers.mean_bits * elements) / 8


def check_whole_blocks(layers: LayerArrays, dtype: OperandDtypes) -> None:
    """Raise InputError if a format has to divide the rows of an operand, and does not."""
    for role, columns in (("weights", layers.k), ("activations", layers.k), ("outputs", layers.m)):
        numbers = dtype.number_format(role)
        cut = np.flatnonzero(layers.has_weights & ~np.broadcast_to(numbers.divides(columns), len(layers)))
        if len(cut):
            first = f"layer '{layers.name[cut[0]]}' has {columns[cut[0]]:g} {role} in a row"
            problem = f"{first}, which the blocks of {numbers.columns:g} of '{getattr(dtype, role)}' do not divide"
            shorter = str(numbers).removesuffix("!")
            raise InputError(problem, f"write '{role}={shorter}', in which the rest of a row has a scale of its own")


def cached_elements(layers: LayerArrays, elements: PerLayer) -> PerLayer:
    """How many of the `elements` that each layer reads are keys or values in the cache.

    Queries, written scores and the keys of encoders are not, nor are keys that a layer expands from a latent cache: a product reads from
    the cache at most what the layers before it have there.
    """
    scores = _scores_of_values(layers)
    others = np.where(scores >= 0, layers.output_elements[scores], layers.k * layers.n)
    return np.minimum(np.maximum(elements - others, 0.0), _cache_before(layers))


@lru_cache(maxsize=64)
def _cache_before(layers: LayerArrays) -> PerLayer:
    """Elements of the cache that the layers before each product of activations hold for one instance of it.

    These are tokens that they compute or have computed. Elementwise layers between, such as conversions, are followed to what they read.
    Without a layer graph, every product of activations in a network with a cache reads from it.
    """
    products, graph = layers.kind == "matmul", layers.graph
    if graph is None:
        return np.where(products & (layers.cache_elements.sum() > 0), np.inf, 0.0)
    held = np.zeros(len(layers))
    for product in np.flatnonzero(products):
        sources = _cached_sources(layers, graph, int(product))
        total = np.maximum(layers.cache_elements[sources] * layers.sequences[product], layers.output_elements[sources]).sum()
        held[product] = total / layers.count[product]
    return held


def _cached_sources(layers: LayerArrays, graph: LayerGraph, product: int) -> list[int]:
    """The layers whose outputs a product reads, with elementwise layers between or not, and which the cache holds."""
    sources, waiting, seen = [], list(graph.reads[product]), set[int]()
    while waiting:
        layer = waiting.pop()
        if layer not in seen and layers.cache_elements[layer] > 0:
            sources.append(layer)
        elif layer not in seen and layers.kind[layer] == "elementwise":
            waiting += graph.reads[layer]
        seen.add(layer)
    return sources


def cached_bytes(layers: LayerArrays, numbers: NumberFormat, elements: PerLayer) -> PerLayer:
    """Bytes of keys or values that products of attention read, of which `elements` are read [B].

    A key or value of one head is a row. Scores are keys [m, k] times queries; their products with the values read values [k, m].
    """
    width = np.where(_scores_of_values(layers) >= 0, layers.m, layers.k)
    return bytes_in_rows(numbers, elements, elements / np.maximum(width, 1.0))


def stored_cache_bytes(layers: LayerArrays, numbers: NumberFormat) -> float:
    """Bytes of the key-value cache of one sample [B]: rows are keys or values of one head, as wide as those that attention reads next."""
    is_score, width, following = (layers.kind == "matmul") & (_scores_of_values(layers) < 0), np.ones(len(layers)), 1.0
    for layer in reversed(range(len(layers))):
        following = layers.k[layer] if is_score[layer] else following
        width[layer] = following
    return float(bytes_in_rows(numbers, layers.cache_elements, layers.cache_elements / width).sum())


def _scores_of_values(layers: LayerArrays) -> Int[np.ndarray, "layer"]:
    """Of each product of scores and values the layer that computes the scores, -1 for all others.

    It is the next product of activations after its scores, and has their keys as columns.
    """
    scores = np.full(len(layers), -1)
    for before, layer in pairwise(np.flatnonzero(layers.kind == "matmul")):
        if scores[before] < 0 and layers.m[before] == layers.k[layer]:
            scores[layer] = before
    return scores
