"""The compiled loops of the simulation, one step a connection. `room` is how many neurons' values fit.

A value in fast memory is clean (slow memory has it as it is) or dirty. Both operands of a step are there at once, and neither
makes room for the other. Returned: biases, inputs and sums read; sums and outputs written.
"""

import numpy as np

from dse.io_theory.bitset_max import contains, insert, largest, remove
from dse.io_theory.compiled import compiled

ABSENT, CLEAN, DIRTY = 0, 1, 2
BIASES, INPUTS, SUMS, SUMS_OUT, OUTPUTS_OUT = range(5)


@compiled()
def next_uses(source, target, neurons):
    """For the source and the target of each step, when each is used next: 2 x step, + 1 as a target; -1 for never."""
    following = np.empty(2 * len(source), np.int64)
    later = np.full(neurons, -1, np.int64)
    for step in range(len(source) - 1, -1, -1):
        following[2 * step], following[2 * step + 1] = later[source[step]], later[target[step]]
        later[source[step]], later[target[step]] = 2 * step, 2 * step + 1
    return following


@compiled()
def _load(neuron, state, touched, into, counts):
    state[neuron] = CLEAN
    if into[neuron] == 0:
        counts[INPUTS] += 1
    elif touched[neuron]:
        counts[SUMS] += 1
    else:
        counts[BIASES] += 1
    touched[neuron] = True


@compiled()
def _write(neuron, finished_output, state, counts):
    """What leaves fast memory, or is finished, is written if slow memory doesn't have it."""
    if state[neuron] == DIRTY:
        counts[OUTPUTS_OUT if finished_output else SUMS_OUT] += 1
    state[neuron] = ABSENT


@compiled()
def _evict_farthest(source, target, output, state, counts, words, starts):
    key = largest(words, starts)
    if key & 1 and contains(words, key - 1) and state[source[key >> 1]] == CLEAN:
        key -= 1  # of two that are used next in the same step
    remove(words, starts, key)
    neuron = target[key >> 1] if key & 1 else source[key >> 1]
    _write(neuron, output[neuron] and not key & 1, state, counts)


@compiled()
def farthest_use(source, target, following, into, output, room, free_dead, words, starts):
    """Belady's MIN. Values are known by their next use; those without one leave first, clean before dirty."""
    neurons = len(into)
    state, touched, counts = np.zeros(neurons, np.uint8), np.zeros(neurons, np.bool_), np.zeros(5, np.int64)
    dead = np.empty((2, neurons), np.int32)  # clean ones, dirty ones
    number_dead = np.zeros(2, np.int64)
    held = 0
    for step in range(len(source)):
        u, v = source[step], target[step]
        needed = 0
        for neuron, key in ((u, 2 * step), (v, 2 * step + 1)):
            if state[neuron] == ABSENT:
                needed += 1
            else:
                remove(words, starts, key)
        while held + needed > room:
            held -= 1
            if number_dead[0] + number_dead[1] > 0:
                kind = 0 if number_dead[0] > 0 else 1
                number_dead[kind] -= 1
                neuron = dead[kind, number_dead[kind]]
                _write(neuron, output[neuron], state, counts)
            else:
                _evict_farthest(source, target, output, state, counts, words, starts)
        held += needed
        for neuron in (u, v):
            if state[neuron] == ABSENT:
                _load(neuron, state, touched, into, counts)
        state[v] = DIRTY
        for neuron, key in ((u, following[2 * step]), (v, following[2 * step + 1])):
            if key >= 0:
                insert(words, starts, key)
            elif free_dead:
                if output[neuron]:
                    _write(neuron, True, state, counts)
                state[neuron] = ABSENT
                held -= 1
            else:
                kind = 1 if state[neuron] == DIRTY else 0
                dead[kind, number_dead[kind]] = neuron
                number_dead[kind] += 1
    for neuron in range(neurons):
        if output[neuron]:
            _write(neuron, True, state, counts)
    return counts


@compiled()
def _unlink(neuron, after, before):
    after[before[neuron]], before[after[neuron]] = after[neuron], before[neuron]


@compiled()
def _link_first(neuron, after, before):
    end = len(after) - 1
    after[neuron], before[neuron] = after[end], end
    before[after[end]] = neuron
    after[end] = neuron


@compiled()
def in_turn(source, target, left, into, output, room, free_dead, recency):
    """LRU (`recency`) or FIFO: a ring of what is held, newest first, whose last leaves; `left` is used up."""
    neurons = len(into)
    state, touched, counts = np.zeros(neurons, np.uint8), np.zeros(neurons, np.bool_), np.zeros(5, np.int64)
    after, before = np.full(neurons + 1, neurons, np.int32), np.full(neurons + 1, neurons, np.int32)
    into_left, held = into.copy(), 0
    for step in range(len(source)):
        u, v = source[step], target[step]
        for neuron in (u, v):
            if state[neuron] == ABSENT:
                if held == room:
                    last = before[neurons]
                    while last in (u, v):
                        last = before[last]
                    _unlink(last, after, before)
                    _write(last, output[last] and into_left[last] == 0, state, counts)
                    held -= 1
                _load(neuron, state, touched, into, counts)
                _link_first(neuron, after, before)
                held += 1
            elif recency:
                _unlink(neuron, after, before)
                _link_first(neuron, after, before)
        state[v] = DIRTY
        into_left[v] -= 1
        for neuron in (u, v):
            left[neuron] -= 1
            if left[neuron] == 0 and free_dead:
                if output[neuron]:
                    _write(neuron, True, state, counts)
                state[neuron] = ABSENT
                _unlink(neuron, after, before)
                held -= 1
    for neuron in range(neurons):
        if output[neuron]:
            _write(neuron, True, state, counts)
    return counts
