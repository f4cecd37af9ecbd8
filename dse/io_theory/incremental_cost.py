"""Cost change of a reordering move under MIN, simulated only as far as the move has an effect.

The cost is the traffic above the lower bound: values read again and intermediates written. MIN looks ahead, so a move has an
effect from the last use, before the moved steps, of any neuron that it moves. The effect ends at the first step, after the moved
ones, before which fast memory is in the same state as without the move. To detect that, a history keeps a hash of the state
before every step. To start in the middle, it keeps the full state before every `interval`-th step (a snapshot).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int8, Int32, UInt8, UInt64

from dse.io_theory import bitset_max
from dse.io_theory.bitset_max import contains, insert, largest, remove
from dse.io_theory.numba_jit import jit
from dse.io_theory.schedule import Graph, Schedule, shorter_block, use_key
from dse.io_theory.simulate import ABSENT, CLEAN, DIRTY

MAX_SNAPSHOT_VALUES = 2**25  # in all snapshots together


class History(NamedTuple):
    """States and costs of the current schedule. A snapshot lists the cached values as 2 x neuron + is_dirty."""

    hash_before: UInt64[np.ndarray, "step_plus_1"]
    cost: Int8[np.ndarray, "step"]
    snapshot: Int32[np.ndarray, "snapshot value"]
    snapshot_size: Int[np.ndarray, "snapshot"]
    interval: int
    max_cached: int


class FastMemory(NamedTuple):
    """State of fast memory: the list of cached neurons, and for each neuron its position there, its state and its next use.

    `words` and `level_starts` are the set of the next uses. `code` has a random number for each clean and each dirty neuron;
    the hash of a state is the exclusive or of the codes of its values.
    """

    cached: Int[np.ndarray, "value"]
    position: Int[np.ndarray, "neuron"]
    state: UInt8[np.ndarray, "neuron"]
    next_use: Int[np.ndarray, "neuron"]
    words: UInt64[np.ndarray, "word"]
    level_starts: Int[np.ndarray, "level"]
    code: UInt64[np.ndarray, "2 neuron"]


def record_history(graph: Graph, schedule: Schedule, capacity: int) -> tuple[History, FastMemory, int]:
    """Simulate a schedule; returns its history, an empty fast memory for `evaluate_move`, and its cost."""
    steps, num_neurons = len(schedule.connection), len(graph.in_degree)
    max_cached = min(capacity - 1, num_neurons)
    interval = max(32, max_cached // 4, -(-steps * max_cached // MAX_SNAPSHOT_VALUES))
    snapshots = -(-steps // interval)
    history = History(
        np.zeros(steps + 1, np.uint64),
        np.zeros(steps, np.int8),
        np.zeros((snapshots, max_cached), np.int32),
        np.zeros(snapshots, np.int64),
        interval,
        max_cached,
    )
    fast = FastMemory(
        np.zeros(max_cached, np.int64),
        np.zeros(num_neurons, np.int64),
        np.zeros(num_neurons, np.uint8),
        np.zeros(num_neurons, np.int64),
        *bitset_max.empty_set(2 * steps),
        np.random.default_rng(0).integers(2**64, size=(2, num_neurons), dtype=np.uint64),
    )
    return history, fast, int(evaluate_move(graph, schedule, history, fast, 0, steps, True))


@jit()
def first_affected_step(graph, schedule, a: int, m: int, b: int) -> int:
    """First step with a possibly different cost after `swap_steps(graph, schedule, a, m, b)`."""
    affected = a
    first, last = shorter_block(a, m, b)
    for step in range(first, last):
        e = schedule.connection[step]
        for side, neuron in enumerate((graph.source[e], graph.target[e])):
            slot, first_slot = schedule.slot_of_end[2 * e + side], graph.first_use[neuron]
            while slot > first_slot and schedule.use_step[slot - 1] >= a:
                slot -= 1
            if slot > first_slot:
                affected = min(affected, schedule.use_step[slot - 1])
    return affected


@jit()
def evaluate_move(graph, schedule, history, fast, begin: int, end: int, record: bool) -> int:
    """Cost of a changed schedule minus the cost in the history.

    The schedule must be unchanged before `begin` and from `end` on. `record` updates the history to the changed schedule.
    """
    snapshot = begin // history.interval
    num_cached = _restore_snapshot(graph, schedule, history, fast, snapshot)
    first = snapshot * history.interval
    state_hash, increase = history.hash_before[first], 0
    for step in range(first, len(schedule.connection)):
        if step >= end and state_hash == history.hash_before[step]:
            break
        if record:
            history.hash_before[step] = state_hash
            if step % history.interval == 0:
                _save_snapshot(history, fast, step // history.interval, num_cached)
        cost, num_cached, state_hash = _run_step(graph, schedule, fast, history.max_cached, step, num_cached, state_hash)
        increase += cost - history.cost[step]
        if record:
            history.cost[step] = cost
    _clear(fast, num_cached)
    return increase


@jit()
def _clear(fast, num_cached: int) -> None:
    for position in range(num_cached):
        neuron = fast.cached[position]
        fast.state[neuron] = ABSENT
        remove(fast.words, fast.level_starts, fast.next_use[neuron])


@jit()
def _restore_snapshot(graph, schedule, history, fast, snapshot: int) -> int:
    """Fill the empty fast memory from a snapshot; returns the number of cached values."""
    step = snapshot * history.interval
    for position in range(history.snapshot_size[snapshot]):
        neuron, is_dirty = history.snapshot[snapshot, position] >> 1, history.snapshot[snapshot, position] & 1
        slot = graph.first_use[neuron]
        slot += np.searchsorted(schedule.use_step[slot : graph.first_use[neuron + 1]], step)
        fast.state[neuron] = DIRTY if is_dirty else CLEAN
        fast.cached[position], fast.position[neuron] = neuron, position
        _set_next_use(graph, schedule, fast, neuron, slot)
    return history.snapshot_size[snapshot]


@jit()
def _save_snapshot(history, fast, snapshot: int, num_cached: int) -> None:
    history.snapshot_size[snapshot] = num_cached
    for position in range(num_cached):
        neuron = fast.cached[position]
        history.snapshot[snapshot, position] = 2 * neuron + (fast.state[neuron] == DIRTY)


@jit()
def _set_next_use(graph, schedule, fast, neuron: int, slot: int) -> None:
    fast.next_use[neuron] = use_key(graph, schedule, neuron, slot)
    insert(fast.words, fast.level_starts, fast.next_use[neuron])


@jit()
def _drop(fast, neuron: int, num_cached: int) -> int:
    """Remove a neuron from the list of cached ones; returns their number."""
    last = fast.cached[num_cached - 1]
    fast.cached[fast.position[neuron]], fast.position[last] = last, fast.position[neuron]
    fast.state[neuron] = ABSENT
    return num_cached - 1


@jit()
def _run_step(graph, schedule, fast, max_cached: int, step: int, num_cached: int, state_hash):
    """Simulate one step like `simulate` with MIN and free_dead; returns its cost, the number of cached values and the hash.

    One function, because this loop decides the speed of the search: to pass these arrays to another one takes as long as a step.
    """
    e, num_missing = schedule.connection[step], 0
    u, v = graph.source[e], graph.target[e]
    for neuron in (u, v):
        if fast.state[neuron] == ABSENT:
            num_missing += 1
        else:
            remove(fast.words, fast.level_starts, fast.next_use[neuron])
            state_hash ^= fast.code[fast.state[neuron] - 1, neuron]
    cost = 0
    while num_cached + num_missing > max_cached:
        key = largest(fast.words, fast.level_starts)
        if key & 1 and contains(fast.words, key - 1) and fast.state[graph.source[schedule.connection[key >> 1]]] == CLEAN:
            key -= 1
        remove(fast.words, fast.level_starts, key)
        evicted = schedule.connection[key >> 1]
        neuron = graph.target[evicted] if key & 1 else graph.source[evicted]
        state_hash ^= fast.code[fast.state[neuron] - 1, neuron]
        if fast.state[neuron] == DIRTY and (key & 1 or not graph.is_output[neuron]):
            cost += 1
        num_cached = _drop(fast, neuron, num_cached)
    for side, neuron in enumerate((u, v)):
        if fast.state[neuron] == ABSENT:
            fast.state[neuron], fast.cached[num_cached], fast.position[neuron] = CLEAN, neuron, num_cached
            num_cached += 1
            if schedule.slot_of_end[2 * e + side] > graph.first_use[neuron]:
                cost += 1
        if side == 1:
            fast.state[neuron] = DIRTY
    for side, neuron in enumerate((u, v)):
        slot = schedule.slot_of_end[2 * e + side] + 1
        if slot < graph.first_use[neuron + 1]:
            _set_next_use(graph, schedule, fast, neuron, slot)
            state_hash ^= fast.code[fast.state[neuron] - 1, neuron]
        else:
            num_cached = _drop(fast, neuron, num_cached)
    return cost, num_cached, state_hash
