"""Better schedules by connection reordering: simulated annealing of an order's traffic under MIN (Gleinig et al. 2023, whose
parameters are not known: these are our own).

A move takes a connection, or a run of them with an equal target or source, to another legal place. It starts from the
two-optimal, the tiled or the clustered order, whichever moves least. A seed decides everything; an annealing that was cut short
goes on from its checkpoint to the very order that it would have found.
"""

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dse.base import checksum
from dse.base.atomic_write import replace_file
from dse.base.errors import InputError
from dse.io_theory import bounds
from dse.io_theory.anneal import BEST, CURRENT, MOVES, anneal
from dse.io_theory.cluster import clustered
from dse.io_theory.incremental_cost import past_of
from dse.io_theory.network import Network
from dse.io_theory.order import Order, tiled, two_optimal
from dse.io_theory.schedule import graph_of, schedule_of
from dse.io_theory.simulate import check_memory, simulate

HOT, COLD = 0.1, 0.02  # values; near zero does better than 1, since most changes cost nothing or one
BETWEEN_PROGRESS, BETWEEN_CHECKPOINTS = 0.3, 2.0  # seconds


@dataclass(frozen=True, eq=False)
class Reordered:
    """The best order found, what it moves under MIN, and what the annealing began with."""

    order: Order
    total: int
    start: str
    start_total: int


def reorder(
    network: Network,
    memory: int,
    moves: int = 20_000,
    seed: int = 0,
    checkpoints: Path | None = None,
    progress: Callable[[int], object] = lambda moves: None,
) -> Reordered:
    """Anneal for a number of moves, fewer if the lower bound is reached; raises InputError below three values of memory.

    `checkpoints`: a folder; `progress` is told how many moves were made since it was last.
    """
    check_memory(memory)
    if moves < 0 or seed < 0:
        raise InputError(f"{moves} moves with the seed {seed}", "write numbers from 0 on")
    least = bounds.lower(network).total
    start, order = _start(network, memory)
    start_total = simulate(network, order, memory).total
    file = checkpoints and checkpoints / f"{_fingerprint(network, memory, moves, seed)}.npz"
    state = _saved(file) if file and file.exists() else None
    if state is None:
        state = _fresh(order.astype(np.int64), start_total - least, seed)
    progress(int(state.status[MOVES]))
    _anneal(network, memory, moves, state, file, progress)
    best = state.order if state.status[CURRENT] < state.status[BEST] else state.best
    return Reordered(best.astype(np.int32), least + int(min(state.status[CURRENT], state.status[BEST])), start, start_total)


class State(NamedTuple):
    """An annealing under way, all of it: the order, the best one that was left, what `anneal.anneal` counts, random numbers."""

    order: np.ndarray
    best: np.ndarray
    status: np.ndarray
    random: np.ndarray


def _fresh(order: np.ndarray, excess: int, seed: int) -> State:
    odd = (2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64  # a generator of shifts and exclusive ors must not begin with 0
    return State(order, order.copy(), np.array([excess, excess, 0, 0]), np.array([odd], np.uint64))


def _start(network: Network, memory: int) -> tuple[str, Order]:
    orders = {"two-optimal": two_optimal(network), "tiled": tiled(network, memory), "clustered": clustered(network, memory)}
    return min(orders.items(), key=lambda item: simulate(network, item[1], memory).total)


def _fingerprint(network: Network, memory: int, moves: int, seed: int) -> str:
    """Of all that decides the result."""
    digest = hashlib.sha256(f"{memory} {moves} {seed} {HOT} {COLD}".encode())
    for array in (network.source, network.target, network.output):
        digest.update(array.tobytes())
    return f"{memory}-{digest.hexdigest()[:16]}"


def _anneal(network: Network, memory: int, moves: int, state: State, file: Path | None, progress: Callable[[int], object]) -> None:
    """Bring a state to its end, in pieces of about the time between two reports, with a checkpoint now and then."""
    graph, status = graph_of(network), state.status
    schedule = schedule_of(graph, state.order)
    past, fast, _ = past_of(graph, schedule, memory)
    piece, saved = 16, time.monotonic()
    while status[MOVES] < moves and status[CURRENT] > 0:
        before, began = int(status[MOVES]), time.monotonic()
        anneal(graph, schedule, past, fast, state.best, status, state.random, min(before + piece, moves), moves, HOT, COLD)
        progress(int(status[MOVES]) - before)
        piece = max(16, min(4 * piece, int(piece * BETWEEN_PROGRESS / max(time.monotonic() - began, 1e-6))))
        done = status[MOVES] == moves or status[CURRENT] == 0
        if file and (done or time.monotonic() - saved > BETWEEN_CHECKPOINTS):
            _save(file, state)
            saved = time.monotonic()


def _save(file: Path, state: State) -> None:
    replace_file(file, lambda path: checksum.save_arrays(path, state._asdict(), file.name))


def _saved(file: Path) -> State | None:
    """What a checkpoint holds; None if it is damaged, after a warning."""
    try:
        saved = checksum.load_arrays(file, "the annealing begins anew", file.name)
        return State(*(saved[name] for name in State._fields))
    except InputError as error:
        warnings.warn(str(error), stacklevel=4)
        return None
