"""Bounds on the reads and writes of any order, and the fast memory with which an order attains the lower bound.

Lower bound: every weight, bias and input is read once, and every output is written once. Upper bound: neuron by neuron, the bias
is read, then the weight and the source of each connection, and the value is written. They differ by at most a factor of 2
(Gleinig, Ben-Nun, Hoefler 2023; fast memory of M >= 3 values).
"""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import TypedDict

import numpy as np

from dse.io_theory.network import Network, PerNeuron
from dse.io_theory.orders import Order


class NetworkSummary(TypedDict):
    """Properties of a network that do not depend on the size of the fast memory; bounds and capacities in values."""

    connections: int
    neurons: int
    inputs: int
    outputs: int
    dead_neurons_removed: dict[str, int]  # by reason
    lower_bound: int
    upper_bound: int
    dtype: str
    bytes_per_value: float
    memory_of_lower_bound: dict[str, int]  # by order of the connections: the capacity with which it attains the lower bound


@dataclass(frozen=True)
class Bound:
    """Reads and writes, in values."""

    reads: int
    writes: int

    @property
    def total(self) -> int:
        return self.reads + self.writes


def lower_bound(network: Network) -> Bound:
    """W + N reads and O writes, which are attained if and only if some order has a live peak of at most M - 1."""
    return Bound(network.num_connections + network.num_neurons, network.num_outputs)


def upper_bound(network: Network) -> Bound:
    """2 W + N - I reads and N - I writes, which the two-optimal order never exceeds with a fast memory of 3 values."""
    num_computed = network.num_neurons - network.num_inputs
    return Bound(2 * network.num_connections + num_computed, num_computed)


def batch_lower_bound(network: Network, batch: int, capacity: int) -> float:
    """Lower bound on reads and writes of `batch` samples, however layers are fused.

    The larger of the compulsory traffic W + N - I + b (I + O) and b W / sqrt(M) - 2 M - b (N - I) + b O.
    """
    num_computed = network.num_neurons - network.num_inputs
    compulsory = network.num_connections + num_computed + batch * (network.num_inputs + network.num_outputs)
    reuse_limited = batch * network.num_connections / sqrt(capacity) - 2 * capacity - batch * (num_computed - network.num_outputs)
    return max(compulsory, reuse_limited)


def layer_batch_lower_bound(num_connections: int, batch: int, capacity: int) -> float:
    """Lower bound 2 b W / sqrt(M) - 2 M of one layer, at least 0. A sum over layers is valid only if no layers are fused."""
    return max(0.0, 2 * batch * num_connections / sqrt(capacity) - 2 * capacity)


def dense_layer_traffic(num_outputs: int, num_inputs: int, capacity: int) -> int:
    """Reads and writes of a dense layer in the tile order under MIN: W + 2 n_out + n_in ceil(n_out / t), t = M - 2."""
    return num_outputs * num_inputs + 2 * num_outputs + num_inputs * ceil(num_outputs / _tile_size(num_outputs, capacity))


def random_layer_traffic(num_connections: float, num_outputs: int, num_inputs: int, density: float, capacity: int) -> float:
    """Expected reads and writes of a random layer in the tile order: W + 2 n_out + n_in n_out (1 - (1 - d)^t) / t.

    A tile of t partial sums reads an input with probability 1 - (1 - d)^t.
    """
    size = _tile_size(num_outputs, capacity)
    return num_connections + 2 * num_outputs + num_inputs * num_outputs * (1 - (1 - density) ** size) / size


def _tile_size(num_outputs: int, capacity: int) -> int:
    return min(max(capacity - 2, 1), num_outputs)


def capacity_for_lower_bound(network: Network, order: Order) -> int:
    """Smallest M with which this order attains the lower bound, under every policy that frees dead values."""
    return live_peak(network, order) + 1


def live_peak(network: Network, order: Order) -> int:
    """Maximum over the steps of an order of the number of live neurons: already used, and still to be used."""
    first, last = _first_and_last_use(network, order)
    change = np.bincount(first, minlength=len(order) + 1) - np.bincount(last + 1, minlength=len(order) + 1)
    return int(np.cumsum(change).max())


def _first_and_last_use(network: Network, order: Order) -> tuple[PerNeuron, PerNeuron]:
    """The first and the last step that uses each neuron, as source or target."""
    used = np.stack([network.source[order], network.target[order]], 1).ravel()
    steps = np.arange(len(used)) // 2
    first, last = np.empty(network.num_neurons, np.int64), np.empty(network.num_neurons, np.int64)
    first[used[::-1]] = steps[::-1]
    last[used] = steps
    return first, last


def topological_bandwidth(network: Network) -> int:
    """Largest distance between source and target in the topological numbering.

    With bandwidth k, the two-optimal order attains the lower bound with M = k + 2.
    """
    return int((network.target - network.source).max())
