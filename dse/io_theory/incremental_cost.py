"""What a change of a schedule costs under MIN, simulated no further than it matters.

MIN looks ahead, so that a change is felt from the last use, before it, of a neuron that it moves; and it is over once fast
memory holds what it held before at the same step. The state of fast memory is kept as a hash for every step and in full for
every `spacing` steps. Costs are those above the lower bound: values read again, sums written.
"""

from typing import NamedTuple

import numpy as np

from dse.io_theory import bitset_max
from dse.io_theory.bitset_max import contains, insert, largest, remove
from dse.io_theory.cache import ABSENT, CLEAN, DIRTY
from dse.io_theory.compiled import compiled
from dse.io_theory.schedule import Graph, Schedule, key_of, shorter

MOST_KEPT = 2**25  # values in all states kept in full


class Past(NamedTuple):
    """Of the schedule as it stands: hash before and cost of each step; the values held (2 x neuron + dirty) and their number
    before every spacing-th step; `room` for how many values there is."""

    hash: np.ndarray
    cost: np.ndarray
    kept: np.ndarray
    number: np.ndarray
    spacing: int
    room: int


class Fast(NamedTuple):
    """Fast memory: what is held, where in that list, clean or dirty, next used when; the set of next uses; codes to hash by."""

    held: np.ndarray
    place: np.ndarray
    state: np.ndarray
    key: np.ndarray
    words: np.ndarray
    starts: np.ndarray
    code: np.ndarray


def past_of(graph: Graph, schedule: Schedule, memory: int) -> tuple[Past, Fast, int]:
    """The past of a schedule, an empty fast memory to try changes with, and the cost."""
    steps, neurons = len(schedule.connection), len(graph.into)
    room = min(memory - 1, neurons)
    spacing = max(32, room // 4, -(-steps * room // MOST_KEPT))
    states = -(-steps // spacing)
    past = Past(
        np.zeros(steps + 1, np.uint64),
        np.zeros(steps, np.int8),
        np.zeros((states, room), np.int32),
        np.zeros(states, np.int64),
        spacing,
        room,
    )
    code = np.random.default_rng(0).integers(2**64, size=(2, neurons), dtype=np.uint64)
    empty = np.zeros(neurons, np.int64)
    fast = Fast(np.zeros(room, np.int64), empty, np.zeros(neurons, np.uint8), empty.copy(), *bitset_max.levels(2 * steps), code)
    return past, fast, int(run(graph, schedule, past, fast, 0, steps, True))


@compiled()
def begin_of(graph, schedule, a, m, b):
    """The first step that may go otherwise after the exchange of [a, m) and [m, b)."""
    begin = a
    first, last = shorter(a, m, b)
    for place in range(first, last):
        e = schedule.connection[place]
        for side, neuron in enumerate((graph.source[e], graph.target[e])):
            slot, offset = schedule.slot[2 * e + side], graph.offset[neuron]
            while slot > offset and schedule.step[slot - 1] >= a:
                slot -= 1
            if slot > offset:
                begin = min(begin, schedule.step[slot - 1])
    return begin


@compiled()
def run(graph, schedule, past, fast, begin, end, record):
    """How much more a changed schedule costs, if it is as it was before `begin` and from `end` on; `record` makes it the past."""
    start = begin // past.spacing
    number = _restore(graph, schedule, past, fast, start)
    first = start * past.spacing
    mark, delta = past.hash[first], 0
    for step in range(first, len(schedule.connection)):
        if step >= end and mark == past.hash[step]:
            break
        if record:
            past.hash[step] = mark
            if step % past.spacing == 0:
                _keep(past, fast, step // past.spacing, number)
        cost, number, mark = _step(graph, schedule, fast, past.room, step, number, mark)
        delta += cost - past.cost[step]
        if record:
            past.cost[step] = cost
    for place in range(number):
        fast.state[fast.held[place]] = ABSENT
        remove(fast.words, fast.starts, fast.key[fast.held[place]])
    return delta


@compiled()
def _restore(graph, schedule, past, fast, start):
    """Fill fast memory as it was before a step that is kept; returns how much it holds."""
    now = start * past.spacing
    for place in range(past.number[start]):
        neuron, dirty = past.kept[start, place] >> 1, past.kept[start, place] & 1
        slot = graph.offset[neuron]
        slot += np.searchsorted(schedule.step[slot : graph.offset[neuron + 1]], now)
        fast.state[neuron] = DIRTY if dirty else CLEAN
        fast.held[place], fast.place[neuron] = neuron, place
        _await(graph, schedule, fast, neuron, slot)
    return past.number[start]


@compiled()
def _keep(past, fast, number_of_state, number):
    past.number[number_of_state] = number
    for place in range(number):
        neuron = fast.held[place]
        past.kept[number_of_state, place] = 2 * neuron + (fast.state[neuron] == DIRTY)


@compiled()
def _await(graph, schedule, fast, neuron, slot):
    fast.key[neuron] = key_of(graph, schedule, neuron, slot)
    insert(fast.words, fast.starts, fast.key[neuron])


@compiled()
def _release(fast, neuron, number):
    last = fast.held[number - 1]
    fast.held[fast.place[neuron]], fast.place[last] = last, fast.place[neuron]
    fast.state[neuron] = ABSENT
    return number - 1


@compiled()
def _step(graph, schedule, fast, room, step, number, mark):
    """One connection under MIN with dead values freed, as in `cache.farthest_use`: cost, number held and hash after it."""
    e, cost, needed = schedule.connection[step], 0, 0
    u, v = graph.source[e], graph.target[e]
    for neuron in (u, v):
        if fast.state[neuron] == ABSENT:
            needed += 1
        else:
            remove(fast.words, fast.starts, fast.key[neuron])
            mark ^= fast.code[fast.state[neuron] - 1, neuron]
    while number + needed > room:
        key = largest(fast.words, fast.starts)
        if key & 1 and contains(fast.words, key - 1) and fast.state[graph.source[schedule.connection[key >> 1]]] == CLEAN:
            key -= 1
        remove(fast.words, fast.starts, key)
        other = schedule.connection[key >> 1]
        neuron = graph.target[other] if key & 1 else graph.source[other]
        mark ^= fast.code[fast.state[neuron] - 1, neuron]
        if fast.state[neuron] == DIRTY and (key & 1 or not graph.output[neuron]):
            cost += 1
        number = _release(fast, neuron, number)
    for side, neuron in enumerate((u, v)):
        slot = schedule.slot[2 * e + side]
        if fast.state[neuron] == ABSENT:
            fast.state[neuron], fast.held[number], fast.place[neuron] = CLEAN, neuron, number
            number += 1
            if slot > graph.offset[neuron]:
                cost += 1
        if side == 1:
            fast.state[neuron] = DIRTY
    for side, neuron in enumerate((u, v)):
        slot = schedule.slot[2 * e + side] + 1
        if slot < graph.offset[neuron + 1]:
            _await(graph, schedule, fast, neuron, slot)
            mark ^= fast.code[fast.state[neuron] - 1, neuron]
        else:
            number = _release(fast, neuron, number)
    return cost, number, mark
