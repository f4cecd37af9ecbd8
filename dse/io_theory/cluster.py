"""Tiles of destinations that share their sources: fewer sources stream past each tile."""

import numpy as np

from dse.io_theory.compiled import compiled
from dse.io_theory.network import Network
from dse.io_theory.order import Order, sums_kept
from dse.io_theory.schedule import graph_of, schedule_of


def clustered(network: Network, memory: int) -> Order:
    """As `order.tiled`, the tiles filled greedily within each level: first the destination with most sources, then always the one
    that shares most sources with those in the tile."""
    graph = graph_of(network)
    level = _levels(graph)
    by_level = np.argsort(level, kind="stable")
    uses = schedule_of(graph, np.arange(network.weights)).user
    sums = sums_kept(network, memory)
    ranked = _fill(graph, uses, level, by_level, sums)
    rank = np.empty(network.neurons, np.int64)
    rank[ranked] = np.arange(network.neurons)
    tile = (rank[network.target] - network.inputs) // sums
    return np.lexsort((rank[network.target], rank[network.source], tile)).astype(np.int32)


@compiled()
def _levels(graph):
    """The longest path to each neuron; connections come by their target, so that their sources are done."""
    level = np.zeros(len(graph.into), np.int64)
    for e in range(len(graph.source)):
        level[graph.target[e]] = max(level[graph.target[e]], level[graph.source[e]] + 1)
    return level


@compiled()
def _fill(graph, uses, level, by_level, size):
    """The neurons of each level in the order in which they enter tiles of `size`; a tile may go on in the next level."""
    ranked, shared, placed = by_level.copy(), np.zeros(len(level), np.int64), level == 0
    covered = np.full(len(level), -1)
    inputs = int(placed.sum())
    first = inputs
    while first < len(level):
        last = first
        while last < len(level) and level[by_level[last]] == level[by_level[first]]:
            last += 1
        members = by_level[first:last]
        for place in range(first, last):
            tile = (place - inputs) // size
            if (place - inputs) % size == 0 or place == first:
                shared[members] = 0
            best, most = -1, -1
            for neuron in members:
                score = shared[neuron] * len(level) + graph.into[neuron]
                if not placed[neuron] and score > most:
                    best, most = neuron, score
            ranked[place], placed[best] = best, True
            for slot in range(graph.offset[best], graph.offset[best] + graph.into[best]):
                source = graph.source[uses[slot]]
                if covered[source] != tile:
                    covered[source] = tile
                    for other in range(graph.offset[source] + graph.into[source], graph.offset[source + 1]):
                        shared[graph.target[uses[other]]] += 1
        first = last
    return ranked
