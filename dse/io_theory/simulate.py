"""What a schedule moves between slow and fast memory, value by value."""

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from dse.base.errors import InputError
from dse.io_theory import bitset_max, cache
from dse.io_theory.network import Network
from dse.io_theory.order import Order, checked

Policy = Literal["lru", "fifo", "min"]
POLICIES: tuple[Policy, ...] = ("min", "lru", "fifo")
LEAST = 3  # values: a weight, its source, its target


@dataclass(frozen=True)
class Traffic:
    """Values read and written. A sum is the value of a neuron that is computed: partial, or complete and used again."""

    weights_read: int
    biases_read: int
    inputs_read: int
    sums_read: int
    sums_written: int
    outputs_written: int

    @property
    def reads(self) -> int:
        return self.weights_read + self.biases_read + self.inputs_read + self.sums_read

    @property
    def writes(self) -> int:
        return self.sums_written + self.outputs_written

    @property
    def total(self) -> int:
        return self.reads + self.writes

    def counts(self) -> dict[str, int]:
        return asdict(self)


def simulate(network: Network, order: Order, memory: int, policy: Policy = "min", free_dead: bool = True) -> Traffic:
    """The traffic of an order with a fast memory of `memory` values (at least 3), of which one is the weight's.

    `min` evicts the value whose next use is farthest (Belady; of two used in the same step the clean one): least reads of any
    policy, though not always least reads and writes. `free_dead` drops a value after its last use, as a compiler could and a
    cache couldn't. Raises InputError for fewer values, and for an order that is not topological.
    """
    check_memory(memory)
    checked(network, order)
    source, target = network.source[order], network.target[order]
    into = network.in_degree
    room = min(memory - 1, network.neurons)
    if policy == "min":
        words, starts = bitset_max.levels(2 * len(order))
        following = cache.next_uses(source, target, network.neurons)
        counts = cache.farthest_use(source, target, following, into, network.output, room, free_dead, words, starts)
    else:
        left = into + np.bincount(source, minlength=network.neurons)
        counts = cache.in_turn(source, target, left, into, network.output, room, free_dead, policy == "lru")
    return Traffic(len(order), *map(int, counts))


def check_memory(memory: int) -> None:
    if memory < LEAST:
        raise InputError(f"a fast memory of {memory} values is too small", "give at least 3: a weight, its source and its target")
