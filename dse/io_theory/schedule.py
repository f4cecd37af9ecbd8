"""An order of connections that can be changed in place, with an index of the steps that use each neuron.

Step s of a schedule computes `connection[s]`, which uses its source and its target. The uses of all neurons are numbered by
slots: neuron n has the slots from first_use[n] to first_use[n + 1], in ascending order of time. In a legal order, its
in_degree[n] uses as a target come first.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from dse.io_theory.network import Network, PerConnection, PerNeuron
from dse.io_theory.numba_jit import jit

PerSlot = Int[np.ndarray, "slot"]


class Graph(NamedTuple):
    """Arrays of a network for compiled loops."""

    source: PerConnection
    target: PerConnection
    is_output: Bool[np.ndarray, "neuron"]
    in_degree: PerNeuron
    first_use: Int[np.ndarray, "neuron_plus_1"]


class Schedule(NamedTuple):
    """An order and its uses: `slot_of_end` is the slot of connection e as a use of its source, 2 e, and of its target, 2 e + 1."""

    connection: PerConnection
    use_step: PerSlot
    use_connection: PerSlot
    slot_of_end: Int[np.ndarray, "end"]


def build_graph(network: Network) -> Graph:
    first_use = np.concatenate([[0], np.cumsum(network.in_degree + network.out_degree)])
    return Graph(network.source, network.target, network.is_output, network.in_degree, first_use)


def build_schedule(graph: Graph, order: PerConnection) -> Schedule:
    """Index an order. The schedule shares the memory of an int64 order, and changes it in place."""
    size = 2 * len(order)
    schedule = Schedule(order.astype(np.int64, copy=False), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64))
    _index_uses(graph, schedule)
    return schedule


@jit()
def _index_uses(graph, schedule) -> None:
    next_slot = graph.first_use.copy()
    for step, e in enumerate(schedule.connection):
        for side, neuron in enumerate((graph.source[e], graph.target[e])):
            slot = next_slot[neuron]
            next_slot[neuron] += 1
            schedule.use_step[slot], schedule.use_connection[slot], schedule.slot_of_end[2 * e + side] = step, e, slot


@jit()
def swap_blocks(array, a: int, m: int, b: int) -> None:
    """Swap the neighbouring blocks [a, m) and [m, b) of an array; swap_blocks(array, a, a + b - m, b) undoes it."""
    if m - a <= b - m:
        block = array[a:m].copy()
        array[a : a + b - m] = array[m:b]
        array[a + b - m : b] = block
    else:
        block = array[m:b].copy()
        array[a + b - m : b] = array[a:m]
        array[a : a + b - m] = block


@jit()
def shorter_block(a: int, m: int, b: int) -> tuple[int, int]:
    """Position of the shorter one of two blocks after their swap: any two steps that changed their order have one in it."""
    return (a + b - m, b) if m - a <= b - m else (a, a + b - m)


@jit()
def swap_steps(graph, schedule, a: int, m: int, b: int) -> None:
    """Swap the steps [a, m) and [m, b) of a schedule, and update its index of uses."""
    swap_blocks(schedule.connection, a, m, b)
    for step in range(a, b):
        e = schedule.connection[step]
        schedule.use_step[schedule.slot_of_end[2 * e]] = step
        schedule.use_step[schedule.slot_of_end[2 * e + 1]] = step
    first, last = shorter_block(a, m, b)
    u = v = -1
    for step in range(first, last):
        e = schedule.connection[step]
        if graph.source[e] != u:
            u = graph.source[e]
            _sort_uses(graph, schedule, u)
        if graph.target[e] != v:
            v = graph.target[e]
            _sort_uses(graph, schedule, v)


@jit()
def _sort_uses(graph, schedule, neuron: int) -> None:
    """Sort the uses of a neuron by step: an insertion sort, since they are nearly sorted."""
    first = graph.first_use[neuron]
    for unsorted in range(first + 1, graph.first_use[neuron + 1]):
        step, e, slot = schedule.use_step[unsorted], schedule.use_connection[unsorted], unsorted
        while slot > first and schedule.use_step[slot - 1] > step:
            _set_use(graph, schedule, neuron, slot, schedule.use_step[slot - 1], schedule.use_connection[slot - 1])
            slot -= 1
        if slot < unsorted:
            _set_use(graph, schedule, neuron, slot, step, e)


@jit()
def _set_use(graph, schedule, neuron: int, slot: int, step: int, e: int) -> None:
    schedule.use_step[slot], schedule.use_connection[slot] = step, e
    schedule.slot_of_end[2 * e + (graph.target[e] == neuron)] = slot


@jit()
def use_key(graph, schedule, neuron: int, slot: int) -> int:
    """A number that increases with the time of a use: 2 x step, + 1 for a use as a target."""
    return 2 * schedule.use_step[slot] + (slot < graph.first_use[neuron] + graph.in_degree[neuron])


@jit()
def earliest_start(graph, schedule, first: int, last: int) -> int:
    """First step to which the steps [first, last) may move: after all connections into their sources."""
    earliest = 0
    for step in range(first, last):
        u = graph.source[schedule.connection[step]]
        if graph.in_degree[u] > 0:
            earliest = max(earliest, schedule.use_step[graph.first_use[u] + graph.in_degree[u] - 1] + 1)
    return earliest


@jit()
def latest_end(graph, schedule, first: int, last: int) -> int:
    """Last step before which the steps [first, last) may end: the first connection out of any of their targets."""
    latest = len(schedule.connection)
    for step in range(first, last):
        v = graph.target[schedule.connection[step]]
        slot = graph.first_use[v] + graph.in_degree[v]
        if slot < graph.first_use[v + 1]:
            latest = min(latest, schedule.use_step[slot])
    return latest
