"""An order of connections that can be changed in place, and where in it each neuron is used."""

from typing import NamedTuple

import numpy as np

from dse.io_theory.compiled import compiled
from dse.io_theory.network import Network


class Graph(NamedTuple):
    """A network as the compiled loops take it; neuron n has the uses offset[n] to offset[n + 1], those as a target first."""

    source: np.ndarray
    target: np.ndarray
    output: np.ndarray
    into: np.ndarray
    offset: np.ndarray


class Schedule(NamedTuple):
    """`step` of each use, rising for each neuron; `user`, the connection that is it; `slot` of connection e as its source's
    use, 2 e, and as its target's, 2 e + 1."""

    connection: np.ndarray
    step: np.ndarray
    user: np.ndarray
    slot: np.ndarray


def graph_of(network: Network) -> Graph:
    degrees = network.in_degree + np.bincount(network.source, minlength=network.neurons)
    offset = np.concatenate([[0], np.cumsum(degrees)])
    return Graph(network.source, network.target, network.output, network.in_degree, offset)


def schedule_of(graph: Graph, order: np.ndarray) -> Schedule:
    """The schedule of an order, which it changes in place if that is of int64."""
    size = 2 * len(order)
    schedule = Schedule(order.astype(np.int64, copy=False), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64))
    _index(graph, schedule)
    return schedule


@compiled()
def _index(graph, schedule):
    free = graph.offset.copy()
    for step, e in enumerate(schedule.connection):
        for side, neuron in enumerate((graph.source[e], graph.target[e])):
            slot = free[neuron]
            free[neuron] += 1
            schedule.step[slot], schedule.user[slot], schedule.slot[2 * e + side] = step, e, slot


@compiled()
def swap(array, a, m, b):
    """Exchange the neighbours [a, m) and [m, b); undone by swap(array, a, a + b - m, b)."""
    if m - a <= b - m:
        short = array[a:m].copy()
        array[a : a + b - m] = array[m:b]
        array[a + b - m : b] = short
    else:
        short = array[m:b].copy()
        array[a + b - m : b] = array[a:m]
        array[a : a + b - m] = short


@compiled()
def shorter(a, m, b):
    """Where the shorter of two neighbours is after their exchange: what changed its place among the rest, so to say."""
    return (a + b - m, b) if m - a <= b - m else (a, a + b - m)


@compiled()
def exchange(graph, schedule, a, m, b):
    """`swap` with the uses kept up: any two that changed their order have one in the shorter part."""
    swap(schedule.connection, a, m, b)
    for step in range(a, b):
        e = schedule.connection[step]
        schedule.step[schedule.slot[2 * e]] = step
        schedule.step[schedule.slot[2 * e + 1]] = step
    first, last = shorter(a, m, b)
    u = v = -1
    for step in range(first, last):
        e = schedule.connection[step]
        if graph.source[e] != u:
            u = graph.source[e]
            _sort(graph, schedule, u)
        if graph.target[e] != v:
            v = graph.target[e]
            _sort(graph, schedule, v)


@compiled()
def _sort(graph, schedule, neuron):
    """Insertion: the uses are nearly in order."""
    first = graph.offset[neuron]
    for slot in range(first + 1, graph.offset[neuron + 1]):
        step, user, place = schedule.step[slot], schedule.user[slot], slot
        while place > first and schedule.step[place - 1] > step:
            _put(graph, schedule, neuron, place, schedule.step[place - 1], schedule.user[place - 1])
            place -= 1
        if place < slot:
            _put(graph, schedule, neuron, place, step, user)


@compiled()
def _put(graph, schedule, neuron, slot, step, user):
    schedule.step[slot], schedule.user[slot] = step, user
    schedule.slot[2 * user + (graph.target[user] == neuron)] = slot


@compiled()
def key_of(graph, schedule, neuron, slot):
    """The use at a slot as a number that rises with time: 2 x step, + 1 as a target."""
    return 2 * schedule.step[slot] + (slot < graph.offset[neuron] + graph.into[neuron])


@compiled()
def earliest(graph, schedule, first, last):
    """Where an insertion of [first, last) may begin at the soonest: after all connections into its sources."""
    bound = 0
    for place in range(first, last):
        u = graph.source[schedule.connection[place]]
        if graph.into[u] > 0:
            bound = max(bound, schedule.step[graph.offset[u] + graph.into[u] - 1] + 1)
    return bound


@compiled()
def latest(graph, schedule, first, last):
    """Where it must end: before all connections out of its targets."""
    bound = len(schedule.connection)
    for place in range(first, last):
        v = graph.target[schedule.connection[place]]
        slot = graph.offset[v] + graph.into[v]
        if slot < graph.offset[v + 1]:
            bound = min(bound, schedule.step[slot])
    return bound
