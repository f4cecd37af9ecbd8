"""The compiled loop of the annealing: random moves of connections to other legal places."""

from math import exp, log

import numpy as np

from dse.io_theory.compiled import compiled
from dse.io_theory.incremental_cost import begin_of, run
from dse.io_theory.schedule import earliest, exchange, latest, swap

CURRENT, BEST, MOVES, ACCEPTED = range(4)  # what `status` [4] counts


@compiled()
def _random(state, below):
    """A whole number in [0, below): xorshift64*."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(11)) % below


@compiled()
def _share(state):
    """In (0, 1]."""
    return (_random(state, 2**53) + 1) / 2**53


@compiled()
def anneal(graph, schedule, past, fast, best, status, state, until, total, hot, cold):
    """Moves up to number `until` of `total`, the temperature falling geometrically from `hot` to `cold`.

    A change for the worse is accepted with probability exp(-increase / temperature). `best` is the best order that was left
    for a worse one: the last may be better still.
    """
    while status[MOVES] < until and status[CURRENT] > 0:
        temperature = hot * (cold / hot) ** (status[MOVES] / total)
        status[MOVES] += 1
        a, m, b = _propose(graph, schedule, state)
        limit = -temperature * log(_share(state))
        if not a < m < b:
            continue
        exchange(graph, schedule, a, m, b)
        begin = begin_of(graph, schedule, a, m, b)
        increase = run(graph, schedule, past, fast, begin, b, False)
        if increase > limit:
            exchange(graph, schedule, a, a + b - m, b)
            continue
        if increase > 0 and status[CURRENT] < status[BEST]:
            best[:] = schedule.connection
            swap(best, a, a + b - m, b)
            status[BEST] = status[CURRENT]
        run(graph, schedule, past, fast, begin, b, True)
        status[CURRENT] += increase
        status[ACCEPTED] += 1


@compiled()
def _propose(graph, schedule, state):
    """Two neighbours to exchange, one of them a connection or a run of them; [0, 0) if the place drawn is not legal."""
    steps = len(schedule.connection)
    first = _random(state, steps)
    last = first + 1
    kind = _random(state, 4)
    if kind >= 2:  # the whole run of an equal target, or source
        ends = graph.target if kind == 2 else graph.source
        end = ends[schedule.connection[first]]
        while first > 0 and ends[schedule.connection[first - 1]] == end:
            first -= 1
        while last < steps and ends[schedule.connection[last]] == end:
            last += 1
    place = _place(graph, schedule, state, first, last)
    if earliest(graph, schedule, first, last) <= place < first:
        return place, first, last
    if last < place <= latest(graph, schedule, first, last):
        return first, last, place
    return 0, 0, 0


@compiled()
def _place(graph, schedule, state, first, last):
    """Beside another use of its source or target, or a distance away that is as often short as long on a log scale."""
    kind = _random(state, 4)
    if kind < 2:
        e = schedule.connection[first]
        neuron = graph.source[e] if kind == 0 else graph.target[e]
        offset = graph.offset[neuron]
        return schedule.step[offset + _random(state, graph.offset[neuron + 1] - offset)] + _random(state, 2)
    distance = np.int64(exp(_share(state) * log(len(schedule.connection))))
    return first - distance if kind == 2 else last + distance
