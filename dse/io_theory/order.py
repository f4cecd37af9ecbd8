"""Schedules: orders of the connections, in which all of those into a neuron come before any out of it.

An order is a permutation of the network's connections, [W].
"""

import numpy as np
from jaxtyping import Int

from dse.base.errors import InputError
from dse.io_theory.network import Connections, Network

Order = Connections


def two_optimal(network: Network) -> Order:
    """Destination by destination in topological order: within twice the lower bound with any memory of at least 3 values."""
    return np.arange(network.weights, dtype=np.int32)


def tiled(network: Network, memory: int) -> Order:
    """Tiles of M - 2 destinations, in each of them source by source: the sums stay while the sources stream past.

    Legal in any network, since its neurons are numbered in a topological order: what goes into a neuron of the tile comes
    from sources before it.
    """
    computed = np.cumsum(~network.input) - 1
    tile = computed[network.target] // sums_kept(network, memory)
    return np.lexsort((network.target, network.source, tile)).astype(np.int32)


def sums_kept(network: Network, memory: int) -> int:
    """The destinations of a tile: what is left beside a weight and a source."""
    return min(memory - 2, network.neurons)


def checked(network: Network, order: Order) -> Order:
    """The order itself; raises InputError with the first connection that comes before one it needs."""
    source, target = network.source[order], network.target[order]
    last_into = np.full(network.neurons, -1)
    last_into[target] = np.arange(len(order))
    early = np.flatnonzero(last_into[source] > np.arange(len(order)))
    if len(early):
        u, v = int(source[early[0]]), int(target[early[0]])
        awaited = int(source[last_into[u]])
        name = network.names
        what = f"the order is not topological: {name[u]} -> {name[v]} comes before {name[awaited]} -> {name[u]}"
        raise InputError(what, "put all connections into a neuron before those out of it")
    return order


def live_peak(network: Network, order: Order) -> int:
    """The most neurons that have been touched and are still to be touched, over the steps of an order."""
    first, last = _touched(network, order)
    change = np.bincount(first, minlength=len(order) + 1) - np.bincount(last + 1, minlength=len(order) + 1)
    return int(np.cumsum(change).max())


def _touched(network: Network, order: Order) -> tuple[Int[np.ndarray, "neuron"], Int[np.ndarray, "neuron"]]:
    """The first and the last step that touches each neuron."""
    touched = np.stack([network.source[order], network.target[order]], 1).ravel()
    steps = np.arange(len(touched)) // 2
    first, last = np.empty(network.neurons, np.int64), np.empty(network.neurons, np.int64)
    first[touched[::-1]] = steps[::-1]
    last[touched] = steps
    return first, last


def memory_of_lower_bound(network: Network, order: Order) -> int:
    """The least M with which this order moves no more than the lower bound, under any policy that frees dead values."""
    return live_peak(network, order) + 1


def bandwidth(network: Network) -> int:
    """The longest connection, in places of the topological order; k lets the two-optimal order reach the lower bound with M = k + 2."""
    return int((network.target - network.source).max())
