"""Simulate the reads and writes of an order of connections, value by value, under a cache policy.

The machine: to compute a connection (u, v), its weight, the value of u and the partial sum of v must be in fast memory. The
weight takes one value of its capacity M and is dropped at once, so that M - 1 neuron values can be cached. A cached value is
clean (slow memory has it) or dirty (it must be written if it is evicted before its last use).
"""

from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt8

from dse.base.errors import InputError
from dse.io_theory import bitset_max
from dse.io_theory.bitset_max import contains, insert, largest, remove
from dse.io_theory.network import Network
from dse.io_theory.numba_jit import jit
from dse.io_theory.orders import Order, check_order

Policy = Literal["min", "lru", "fifo"]
POLICIES: tuple[Policy, ...] = ("min", "lru", "fifo")
MIN_CAPACITY = 3  # values: a weight, its source, its target
ABSENT, CLEAN, DIRTY = 0, 1, 2
BIASES_READ, INPUTS_READ, INTERMEDIATES_READ, INTERMEDIATES_WRITTEN, OUTPUTS_WRITTEN = range(5)


@dataclass(frozen=True)
class Traffic:
    """Values read from and written to slow memory.

    Intermediates are values of computed neurons: partial sums, and complete values that are used again.
    """

    weights_read: int
    biases_read: int
    inputs_read: int
    intermediates_read: int
    intermediates_written: int
    outputs_written: int

    @property
    def reads(self) -> int:
        return self.weights_read + self.biases_read + self.inputs_read + self.intermediates_read

    @property
    def writes(self) -> int:
        return self.intermediates_written + self.outputs_written

    @property
    def total(self) -> int:
        return self.reads + self.writes

    def counts(self) -> dict[str, int]:
        return asdict(self)


def simulate(network: Network, order: Order, capacity: int, policy: Policy = "min", free_dead: bool = True) -> Traffic:
    """Simulate an order with a fast memory of `capacity` values (M, at least 3).

    `policy` is Belady's "min", which evicts the value with the farthest next use (of two that are used in the same step, the
    clean one), "lru" or "fifo". MIN has the fewest reads of all policies, but not always the fewest reads and writes.
    `free_dead` drops a value after its last use without writing it, as a compiler-managed scratchpad can and a cache cannot.

    Raises InputError if the capacity is below 3 or the order is not topological.
    """
    check_capacity(capacity)
    check_order(network, order)
    source, target, in_degree = network.source[order], network.target[order], network.in_degree
    max_cached = min(capacity - 1, network.num_neurons)
    if policy == "min":
        words, level_starts = bitset_max.empty_set(2 * len(order))
        next_use = _next_uses(source, target, network.num_neurons)
        counts = _run_min(source, target, next_use, in_degree, network.is_output, max_cached, free_dead, words, level_starts)
    else:
        remaining_uses = in_degree + network.out_degree
        counts = _run_lru_or_fifo(source, target, remaining_uses, in_degree, network.is_output, max_cached, free_dead, policy == "lru")
    return Traffic(len(order), *map(int, counts))


def check_capacity(capacity: int) -> None:
    """Raise InputError for a fast memory that cannot hold the operands of one connection."""
    if capacity < MIN_CAPACITY:
        raise InputError(f"a fast memory of {capacity} values is too small", "give at least 3: a weight, its source and its target")


class _Cache(NamedTuple):
    """Neuron values in fast memory, and the reads and writes counted so far."""

    state: UInt8[np.ndarray, "neuron"]  # ABSENT, CLEAN or DIRTY
    was_read: Bool[np.ndarray, "neuron"]
    counts: Int[np.ndarray, "5"]


@jit()
def _empty_cache(num_neurons: int) -> _Cache:
    return _Cache(np.zeros(num_neurons, np.uint8), np.zeros(num_neurons, np.bool_), np.zeros(5, np.int64))


@jit()
def _read(cache, neuron: int, in_degree) -> None:
    cache.state[neuron] = CLEAN
    if in_degree[neuron] == 0:
        cache.counts[INPUTS_READ] += 1
    elif cache.was_read[neuron]:
        cache.counts[INTERMEDIATES_READ] += 1
    else:
        cache.counts[BIASES_READ] += 1
    cache.was_read[neuron] = True


@jit()
def _evict(cache, neuron: int, is_finished_output: bool) -> None:
    """Remove a value from fast memory; write it if slow memory does not have it."""
    if cache.state[neuron] == DIRTY:
        cache.counts[OUTPUTS_WRITTEN if is_finished_output else INTERMEDIATES_WRITTEN] += 1
    cache.state[neuron] = ABSENT


@jit()
def _free(cache, neuron: int, is_output) -> None:
    """Remove a dead value from fast memory; write it only if it is an output."""
    if is_output[neuron]:
        _evict(cache, neuron, True)
    cache.state[neuron] = ABSENT


@jit()
def _write_outputs(cache, is_output) -> None:
    for neuron in range(len(is_output)):
        if is_output[neuron]:
            _evict(cache, neuron, True)


@jit()
def _next_uses(source, target, num_neurons: int):
    """Time of the next use of the source (2 x step) and of the target (2 x step + 1) of each step, [2 W].

    A time is 2 x step for a use as a source and 2 x step + 1 for a use as a target; -1 means never.
    """
    next_use = np.empty(2 * len(source), np.int64)
    later = np.full(num_neurons, -1, np.int64)
    for step in range(len(source) - 1, -1, -1):
        next_use[2 * step], next_use[2 * step + 1] = later[source[step]], later[target[step]]
        later[source[step]], later[target[step]] = 2 * step, 2 * step + 1
    return next_use


@jit()
def _run_min(source, target, next_use, in_degree, is_output, max_cached: int, free_dead: bool, words, level_starts):
    """Counts of reads and writes under Belady's MIN, [5].

    `words` and `level_starts` are an empty set, which holds the times of the next uses of all cached values. Values without a
    next use, which are kept unless `free_dead`, are evicted first, clean ones before dirty ones.
    """
    cache = _empty_cache(len(in_degree))
    dead, num_dead = np.empty((2, len(in_degree)), np.int32), np.zeros(2, np.int64)  # clean and dirty
    num_cached = 0
    for step in range(len(source)):
        u, v = source[step], target[step]
        num_missing = 0
        for neuron, time in ((u, 2 * step), (v, 2 * step + 1)):
            if cache.state[neuron] == ABSENT:
                num_missing += 1
            else:
                remove(words, level_starts, time)
        while num_cached + num_missing > max_cached:
            if num_dead[0] + num_dead[1] > 0:
                _evict_dead(cache, dead, num_dead, is_output)
            else:
                _evict_farthest(cache, source, target, is_output, words, level_starts)
            num_cached -= 1
        num_cached += num_missing
        for neuron in (u, v):
            if cache.state[neuron] == ABSENT:
                _read(cache, neuron, in_degree)
        cache.state[v] = DIRTY
        for neuron, time in ((u, next_use[2 * step]), (v, next_use[2 * step + 1])):
            if time >= 0:
                insert(words, level_starts, time)
            elif free_dead:
                _free(cache, neuron, is_output)
                num_cached -= 1
            else:
                is_dirty = 1 if cache.state[neuron] == DIRTY else 0
                dead[is_dirty, num_dead[is_dirty]] = neuron
                num_dead[is_dirty] += 1
    _write_outputs(cache, is_output)
    return cache.counts


@jit()
def _evict_dead(cache, dead, num_dead, is_output) -> None:
    is_dirty = 0 if num_dead[0] > 0 else 1
    num_dead[is_dirty] -= 1
    neuron = dead[is_dirty, num_dead[is_dirty]]
    _evict(cache, neuron, is_output[neuron])


@jit()
def _evict_farthest(cache, source, target, is_output, words, level_starts) -> None:
    """Evict the value with the farthest next use; of the two operands of one step, a clean source rather than the target."""
    time = largest(words, level_starts)
    if time & 1 and contains(words, time - 1) and cache.state[source[time >> 1]] == CLEAN:
        time -= 1
    remove(words, level_starts, time)
    neuron = target[time >> 1] if time & 1 else source[time >> 1]
    _evict(cache, neuron, is_output[neuron] and not time & 1)


@jit()
def _run_lru_or_fifo(source, target, remaining_uses, in_degree, is_output, max_cached: int, free_dead: bool, is_lru: bool):
    """Counts of reads and writes under LRU or FIFO, [5]; changes `remaining_uses`, the number of uses of each neuron.

    Cached values form a ring, newest first, whose last one is evicted; LRU moves a value to the front at every use.
    """
    num_neurons = len(in_degree)
    cache = _empty_cache(num_neurons)
    after, before = np.full(num_neurons + 1, num_neurons, np.int32), np.full(num_neurons + 1, num_neurons, np.int32)
    remaining_in, num_cached = in_degree.copy(), 0
    for step in range(len(source)):
        u, v = source[step], target[step]
        for neuron in (u, v):
            if cache.state[neuron] == ABSENT:
                if num_cached == max_cached:
                    oldest = _oldest_but(u, v, before)
                    _unlink(oldest, after, before)
                    _evict(cache, oldest, is_output[oldest] and remaining_in[oldest] == 0)
                    num_cached -= 1
                _read(cache, neuron, in_degree)
                _link_first(neuron, after, before)
                num_cached += 1
            elif is_lru:
                _unlink(neuron, after, before)
                _link_first(neuron, after, before)
        cache.state[v] = DIRTY
        remaining_in[v] -= 1
        for neuron in (u, v):
            remaining_uses[neuron] -= 1
            if remaining_uses[neuron] == 0 and free_dead:
                _free(cache, neuron, is_output)
                _unlink(neuron, after, before)
                num_cached -= 1
    _write_outputs(cache, is_output)
    return cache.counts


@jit()
def _oldest_but(u: int, v: int, before) -> int:
    """The last value of the ring except the operands of the current step."""
    oldest = before[len(before) - 1]
    while oldest in (u, v):
        oldest = before[oldest]
    return oldest


@jit()
def _unlink(neuron: int, after, before) -> None:
    after[before[neuron]], before[after[neuron]] = after[neuron], before[neuron]


@jit()
def _link_first(neuron: int, after, before) -> None:
    end = len(after) - 1
    after[neuron], before[neuron] = after[end], end
    before[after[end]] = neuron
    after[end] = neuron
