"""Reorder connections by simulated annealing, to reduce the traffic under Belady's MIN.

After Gleinig et al. (2023), whose parameters are not known: these are our own. A move takes one connection, or a run of
connections with the same target or source, to another legal place. The search starts from the two-optimal, the tile or the
clustered tile order, whichever has the least traffic. A seed determines the result. An interrupted search continues from its
checkpoint and finds the same order as an uninterrupted one.
"""

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt64

from dse.base import checksum
from dse.base.errors import InputError
from dse.base.output_file import replace_file
from dse.io_theory.bounds import lower_bound
from dse.io_theory.incremental_cost import evaluate_move, first_affected_step, record_history
from dse.io_theory.network import Network
from dse.io_theory.numba_jit import jit
from dse.io_theory.orders import Order, clustered_tile_order, tile_order, two_optimal_order
from dse.io_theory.schedule import build_graph, build_schedule, earliest_start, latest_end, swap_blocks, swap_steps
from dse.io_theory.simulate import check_capacity, simulate

# Temperatures, in values. Starting near zero beats starting at 1: most moves change the cost by 0 or 1.
START_TEMPERATURE, END_TEMPERATURE = 0.1, 0.02
PROGRESS_INTERVAL_S, CHECKPOINT_INTERVAL_S = 0.3, 2.0
CURRENT, BEST, MOVES, ACCEPTED = range(4)  # entries of AnnealingState.status


@dataclass(frozen=True, eq=False)
class ReorderingResult:
    """The best order with its traffic under MIN [values], and the order from which the search started."""

    order: Order
    traffic: int
    start: str
    start_traffic: int


def reorder(
    network: Network,
    capacity: int,
    moves: int = 20_000,
    seed: int = 0,
    checkpoints: Path | None = None,
    progress: Callable[[int], object] = lambda moves: None,
) -> ReorderingResult:
    """Search for an order with less traffic, with a fast memory of `capacity` values.

    Stops after `moves` moves or when the lower bound is attained. `checkpoints` is a folder; `progress` is called with the
    number of moves since its last call. Raises InputError for a capacity below 3 and for negative numbers.
    """
    check_capacity(capacity)
    if moves < 0 or seed < 0:
        raise InputError(f"{moves} moves with the seed {seed}", "write numbers from 0 on")
    lower = lower_bound(network).total
    start, order = _best_start(network, capacity)
    start_traffic = simulate(network, order, capacity).total
    file = checkpoints and checkpoints / f"{_fingerprint(network, capacity, moves, seed)}.npz"
    state = _load_checkpoint(file) if file and file.exists() else None
    if state is None:
        state = _initial_state(order.astype(np.int64), start_traffic - lower, seed)
    progress(int(state.status[MOVES]))
    _anneal(network, capacity, moves, state, file, progress)
    best = state.order if state.status[CURRENT] < state.status[BEST] else state.best
    traffic = lower + int(min(state.status[CURRENT], state.status[BEST]))
    return ReorderingResult(best.astype(np.int32), traffic, start, start_traffic)


class AnnealingState(NamedTuple):
    """Everything that determines the rest of a search; the content of a checkpoint.

    `best` is the best order that was left for a worse one: the current `order` may be better still. `status` counts the traffic
    above the lower bound of the current and the best order, the moves, and the accepted moves.
    """

    order: Int[np.ndarray, "connection"]
    best: Int[np.ndarray, "connection"]
    status: Int[np.ndarray, "4"]
    random: UInt64[np.ndarray, "1"]  # state of the random number generator


def _initial_state(order: Order, excess: int, seed: int) -> AnnealingState:
    odd = (2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64  # a xorshift generator must not start at 0
    return AnnealingState(order, order.copy(), np.array([excess, excess, 0, 0]), np.array([odd], np.uint64))


def _best_start(network: Network, capacity: int) -> tuple[str, Order]:
    orders = {
        "two-optimal": two_optimal_order(network),
        "tiled": tile_order(network, capacity),
        "clustered": clustered_tile_order(network, capacity),
    }
    return min(orders.items(), key=lambda item: simulate(network, item[1], capacity).total)


def _fingerprint(network: Network, capacity: int, moves: int, seed: int) -> str:
    """A hash of everything that determines the result, as the name of the checkpoint."""
    digest = hashlib.sha256(f"{capacity} {moves} {seed} {START_TEMPERATURE} {END_TEMPERATURE}".encode())
    for array in (network.source, network.target, network.is_output):
        digest.update(array.tobytes())
    return f"{capacity}-{digest.hexdigest()[:16]}"


def _anneal(
    network: Network, capacity: int, moves: int, state: AnnealingState, checkpoint: Path | None, progress: Callable[[int], object]
) -> None:
    """Run the search to its end, in batches of moves that take about the time between two reports of progress."""
    graph, status = build_graph(network), state.status
    schedule = build_schedule(graph, state.order)
    history, fast, _ = record_history(graph, schedule, capacity)
    batch, saved = 16, time.monotonic()
    while status[MOVES] < moves and status[CURRENT] > 0:
        before, began = int(status[MOVES]), time.monotonic()
        until = min(before + batch, moves)
        _run_moves(graph, schedule, history, fast, state.best, status, state.random, until, moves, START_TEMPERATURE, END_TEMPERATURE)
        progress(int(status[MOVES]) - before)
        batch = max(16, min(4 * batch, int(batch * PROGRESS_INTERVAL_S / max(time.monotonic() - began, 1e-6))))
        finished = status[MOVES] == moves or status[CURRENT] == 0
        if checkpoint and (finished or time.monotonic() - saved > CHECKPOINT_INTERVAL_S):
            _save_checkpoint(checkpoint, state)
            saved = time.monotonic()


def _save_checkpoint(file: Path, state: AnnealingState) -> None:
    replace_file(file, lambda path: checksum.save_arrays(path, state._asdict(), file.name))


def _load_checkpoint(file: Path) -> AnnealingState | None:
    """The state in a checkpoint; warns and returns None if the file is damaged."""
    try:
        arrays = checksum.load_arrays(file, "the annealing starts again", file.name)
        return AnnealingState(*(arrays[name] for name in AnnealingState._fields))
    except InputError as error:
        warnings.warn(str(error), stacklevel=4)
        return None


@jit()
def _run_moves(graph, schedule, history, fast, best, status, random, until: int, total: int, start: float, end: float) -> None:
    """Try moves up to number `until` of `total`, while the temperature falls geometrically from `start` to `end`.

    A move that increases the cost is accepted with probability exp(-increase / temperature).
    """
    while status[MOVES] < until and status[CURRENT] > 0:
        temperature = start * (end / start) ** (status[MOVES] / total)
        status[MOVES] += 1
        a, m, b = _propose_move(graph, schedule, random)
        max_increase = -temperature * log(_random_fraction(random))
        if not a < m < b:
            continue
        swap_steps(graph, schedule, a, m, b)
        begin = first_affected_step(graph, schedule, a, m, b)
        increase = evaluate_move(graph, schedule, history, fast, begin, b, False)
        if increase > max_increase:
            swap_steps(graph, schedule, a, a + b - m, b)
            continue
        if increase > 0 and status[CURRENT] < status[BEST]:
            best[:] = schedule.connection
            swap_blocks(best, a, a + b - m, b)
            status[BEST] = status[CURRENT]
        evaluate_move(graph, schedule, history, fast, begin, b, True)
        status[CURRENT] += increase
        status[ACCEPTED] += 1


@jit()
def _propose_move(graph, schedule, random) -> tuple[int, int, int]:
    """Blocks [a, m) and [m, b) of steps to swap, one of which is a connection or a run; (0, 0, 0) if the move is illegal."""
    steps = len(schedule.connection)
    first = _random_below(random, steps)
    last = first + 1
    kind = _random_below(random, 4)
    if kind >= 2:  # the whole run of connections with the same target, or source
        ends = graph.target if kind == 2 else graph.source
        neuron = ends[schedule.connection[first]]
        while first > 0 and ends[schedule.connection[first - 1]] == neuron:
            first -= 1
        while last < steps and ends[schedule.connection[last]] == neuron:
            last += 1
    destination = _propose_destination(graph, schedule, random, first, last)
    if earliest_start(graph, schedule, first, last) <= destination < first:
        return destination, first, last
    if last < destination <= latest_end(graph, schedule, first, last):
        return first, last, destination
    return 0, 0, 0


@jit()
def _propose_destination(graph, schedule, random, first: int, last: int) -> np.int64:
    """A step next to another use of the source or target, or at a distance that is uniform on a log scale."""
    kind = _random_below(random, 4)
    if kind < 2:
        e = schedule.connection[first]
        neuron = graph.source[e] if kind == 0 else graph.target[e]
        first_slot = graph.first_use[neuron]
        slot = first_slot + _random_below(random, graph.first_use[neuron + 1] - first_slot)
        return schedule.use_step[slot] + _random_below(random, 2)
    distance = np.int64(exp(_random_fraction(random) * log(len(schedule.connection))))
    return first - distance if kind == 2 else last + distance


@jit()
def _random_below(random, limit: int) -> np.int64:
    """A random integer in [0, limit), by xorshift64*."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    return np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(11)) % limit


@jit()
def _random_fraction(random) -> float:
    """A random number in (0, 1]."""
    return (_random_below(random, 2**53) + 1) / 2**53
