"""Better schedules by connection reordering: simulated annealing of an order's traffic under MIN (Gleinig et al. 2023, whose
parameters are not known: these are our own).

A move takes a connection, or a run of them with an equal target or source, to another legal place. It starts from the
two-optimal, the tiled or the clustered order, whichever moves least. A seed decides everything; an annealing that was cut short
goes on from its checkpoint to the very order that it would have found.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dse.errors import BadInput
from dse.explore.store import replacing
from dse.io_theory import bounds
from dse.io_theory.anneal import BEST, CURRENT, MOVES, anneal
from dse.io_theory.cluster import clustered
from dse.io_theory.network import Network
from dse.io_theory.order import Order, tiled, two_optimal
from dse.io_theory.schedule import Schedule, graph_of, schedule_of
from dse.io_theory.simulate import check_memory, simulate
from dse.io_theory.trial import past_of

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
    """Anneal for a number of moves, fewer if the lower bound is reached; raises BadInput below three values of memory.

    `checkpoints`: a folder; `progress` is told how many moves were made since it was last.
    """
    check_memory(memory)
    if moves < 0 or seed < 0:
        raise BadInput.one(f"{moves} moves with the seed {seed}", "write numbers from 0 on")
    least = bounds.lower(network).total
    start, order = _start(network, memory)
    start_total = simulate(network, order, memory).total
    file = checkpoints and checkpoints / f"{_fingerprint(network, memory, moves, seed)}.npz"
    status = np.array([start_total - least, start_total - least, 0, 0])
    best, state = order.astype(np.int64), np.array([(2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64], np.uint64)
    if file and file.exists():
        with np.load(file) as saved:
            order, best, status, state = (saved[name] for name in ("order", "best", "status", "state"))
        progress(int(status[MOVES]))
    _anneal(network, memory, moves, order, best, status, state, file, progress)
    return Reordered(best.astype(np.int32), least + int(status[BEST]), start, start_total)


def _start(network: Network, memory: int) -> tuple[str, Order]:
    orders = {"two-optimal": two_optimal(network), "tiled": tiled(network, memory), "clustered": clustered(network, memory)}
    return min(orders.items(), key=lambda item: simulate(network, item[1], memory).total)


def _fingerprint(network: Network, memory: int, moves: int, seed: int) -> str:
    """Of all that decides the result."""
    digest = hashlib.sha256(f"{memory} {moves} {seed} {HOT} {COLD}".encode())
    for array in (network.source, network.target, network.output):
        digest.update(array.tobytes())
    return f"{memory}-{digest.hexdigest()[:16]}"


def _anneal(network: Network, memory: int, moves: int, order, best, status, state, file, progress) -> None:
    """In pieces of about the time between two reports, with a checkpoint now and then; `best` and `status` are left filled."""
    if status[CURRENT] == 0 or status[MOVES] == moves:
        return _finish(order, best, status)
    graph = graph_of(network)
    schedule = schedule_of(graph, order)
    past, fast, _ = past_of(graph, schedule, memory)
    piece, saved = 16, time.monotonic()
    while status[MOVES] < moves and status[CURRENT] > 0:
        before, began = int(status[MOVES]), time.monotonic()
        until = min(before + piece, moves)
        anneal(graph, schedule, past, fast, best, status, state, until, moves, HOT, COLD)
        progress(int(status[MOVES]) - before)
        piece = max(16, min(4 * piece, int(piece * BETWEEN_PROGRESS / max(time.monotonic() - began, 1e-6))))
        done = status[MOVES] == moves or status[CURRENT] == 0
        if file and (done or time.monotonic() - saved > BETWEEN_CHECKPOINTS):
            _save(file, schedule, best, status, state)
            saved = time.monotonic()
    return _finish(schedule.connection, best, status)


def _finish(order: np.ndarray, best: np.ndarray, status: np.ndarray) -> None:
    if status[CURRENT] < status[BEST]:
        best[:], status[BEST] = order, status[CURRENT]


def _save(file: Path, schedule: Schedule, best: np.ndarray, status: np.ndarray, state: np.ndarray) -> None:
    def write(path: Path) -> None:
        with path.open("wb") as stream:
            np.savez(stream, order=schedule.connection, best=best, status=status, state=state)

    replacing(file, write)
