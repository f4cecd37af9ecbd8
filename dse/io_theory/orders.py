"""Orders in which the connections of a network are computed, and two constructions that need no search.

An order is a permutation of the connections, [W]. It is legal (topological) if all connections into a neuron come before all
connections out of it.
"""

import numpy as np
from jaxtyping import Int

from dse.base.errors import InputError
from dse.io_theory.network import Network, PerConnection, PerNeuron
from dse.io_theory.numba_jit import jit
from dse.io_theory.schedule import build_graph, build_schedule

Order = PerConnection


def check_order(network: Network, order: Order) -> Order:
    """Return the order if it is topological; raises InputError that names the first connection that comes too early."""
    source, target = network.source[order], network.target[order]
    last_incoming_step = np.full(network.num_neurons, -1)
    last_incoming_step[target] = np.arange(len(order))
    early = np.flatnonzero(last_incoming_step[source] > np.arange(len(order)))
    if len(early):
        u, v = int(source[early[0]]), int(target[early[0]])
        missing = int(source[last_incoming_step[u]])
        name = network.names
        problem = f"the order is not topological: {name[u]} -> {name[v]} comes before {name[missing]} -> {name[u]}"
        raise InputError(problem, "put all connections into a neuron before all connections out of it")
    return order


def two_optimal_order(network: Network) -> Order:
    """The order that computes one target after the other: at most twice the lower bound with a fast memory of 3 values or more."""
    return np.arange(network.num_connections, dtype=np.int32)


def tile_order(network: Network, capacity: int) -> Order:
    """The order that computes tiles of M - 2 targets, each source by source, so that partial sums stay and sources stream.

    It is legal for every network because neurons are numbered topologically: the sources of a tile come before it.
    """
    computed_index = np.cumsum(~network.is_input) - 1
    tile = computed_index[network.target] // tile_size(network, capacity)
    return np.lexsort((network.target, network.source, tile)).astype(np.int32)


def tile_size(network: Network, capacity: int) -> int:
    """Number of partial sums that fit in fast memory next to one weight and one source."""
    return min(capacity - 2, network.num_neurons)


def clustered_tile_order(network: Network, capacity: int) -> Order:
    """The tile order after targets that share sources were put into the same tile, so that fewer sources stream.

    Tiles are filled greedily within each level (longest path from an input): first the target with most sources, then always
    the one that shares most sources with the tile.
    """
    graph = build_graph(network)
    level = _levels(graph)
    by_level = np.argsort(level, kind="stable")
    use_connection = build_schedule(graph, np.arange(network.num_connections)).use_connection
    size = tile_size(network, capacity)
    rank = np.empty(network.num_neurons, np.int64)
    rank[_fill_tiles(graph, use_connection, level, by_level, size)] = np.arange(network.num_neurons)
    tile = (rank[network.target] - network.num_inputs) // size
    return np.lexsort((rank[network.target], rank[network.source], tile)).astype(np.int32)


@jit()
def _levels(graph) -> Int[np.ndarray, "neuron"]:
    """Length of the longest path to each neuron; connections are sorted by target, so that the levels of sources are final."""
    level = np.zeros(len(graph.in_degree), np.int64)
    for e in range(len(graph.source)):
        level[graph.target[e]] = max(level[graph.target[e]], level[graph.source[e]] + 1)
    return level


@jit()
def _fill_tiles(graph, use_connection, level: PerNeuron, by_level: PerNeuron, size: int) -> PerNeuron:
    """All neurons, those of each level in the order in which they enter tiles; a tile may continue in the next level."""
    ranked, is_placed = by_level.copy(), level == 0
    num_shared = np.zeros(len(level), np.int64)  # sources that a neuron shares with the current tile
    last_tile = np.full(len(level), -1)  # last tile that read a source
    num_inputs = int(is_placed.sum())
    first = num_inputs
    while first < len(level):
        last = first
        while last < len(level) and level[by_level[last]] == level[by_level[first]]:
            last += 1
        members = by_level[first:last]
        for position in range(first, last):
            tile = (position - num_inputs) // size
            if (position - num_inputs) % size == 0 or position == first:
                num_shared[members] = 0
            best = _best_member(graph, members, is_placed, num_shared)
            ranked[position], is_placed[best] = best, True
            _count_shared(graph, use_connection, best, tile, last_tile, num_shared)
        first = last
    return ranked


@jit()
def _best_member(graph, members, is_placed, num_shared) -> int:
    """The member not placed yet that shares most sources with the tile; of equals, the first one with most sources."""
    best, best_score = -1, -1
    for neuron in members:
        score = num_shared[neuron] * len(is_placed) + graph.in_degree[neuron]
        if not is_placed[neuron] and score > best_score:
            best, best_score = neuron, score
    return best


@jit()
def _count_shared(graph, use_connection, neuron: int, tile: int, last_tile, num_shared) -> None:
    """Update `num_shared` for the sources that `neuron` adds to the tile."""
    for slot in range(graph.first_use[neuron], graph.first_use[neuron] + graph.in_degree[neuron]):
        source = graph.source[use_connection[slot]]
        if last_tile[source] != tile:
            last_tile[source] = tile
            for outgoing in range(graph.first_use[source] + graph.in_degree[source], graph.first_use[source + 1]):
                num_shared[graph.target[use_connection[outgoing]]] += 1
