"""Slow reference implementations for tiny networks: the optimum over all schedules, and cache policies on lists.

They share no code with the package.
"""

import heapq
from collections.abc import Iterator

from dse.io_theory.network import Network


def optimum(network: Network, capacity: int) -> int:
    """Fewest reads and writes of any order and any evictions: Dijkstra over (computed connections, cached, dirty)."""
    edges, outputs, uses = _edges_outputs_uses(network)
    start = (0, frozenset(), frozenset())
    best, queue = {start: 0}, [(0, 0, start)]
    while queue:
        cost, _, state = heapq.heappop(queue)
        computed, _, dirty = state
        if cost > best[state]:
            continue
        if computed == 2 ** len(edges) - 1 and not dirty & outputs:
            return cost
        for step_cost, successor in _successors(state, edges, outputs, uses, capacity - 1):
            if cost + step_cost < best.get(successor, 10**9):
                best[successor] = cost + step_cost
                heapq.heappush(queue, (cost + step_cost, len(best), successor))
    raise AssertionError("no schedule")


def brute_force_optimum(network: Network, capacity: int) -> int:
    """The same by trying every order, and every eviction at every step of it."""
    edges, outputs, uses = _edges_outputs_uses(network)
    return min(_cheapest(order, 0, frozenset(), frozenset(), edges, outputs, uses, capacity - 1) for order in legal_orders(network))


def legal_orders(network: Network) -> Iterator[tuple[int, ...]]:
    """Every order in which all connections into a neuron come before those out of it."""
    edges, *_ = _edges_outputs_uses(network)

    def extend(prefix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(prefix) == len(edges):
            yield prefix
        for n in range(len(edges)):
            if n not in prefix and all(m in prefix for m, (_, v) in enumerate(edges) if v == edges[n][0]):
                yield from extend((*prefix, n))

    return extend(())


def _edges_outputs_uses(network: Network):
    edges = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
    outputs = frozenset(n for n in range(network.num_neurons) if network.is_output[n])
    uses = [sum(1 << e for e, ends in enumerate(edges) if n in ends) for n in range(network.num_neurons)]
    return edges, outputs, uses


def _successors(state, edges, outputs, uses, max_cached):
    """Costs and states after each step: drop, write, read, compute. A bias is read like any value that slow memory has."""
    computed, cached, dirty = state
    for n in cached:
        is_dead = computed & uses[n] == uses[n]
        if n not in dirty or (is_dead and n not in outputs):
            yield 0, (computed, cached - {n}, dirty - {n})
        else:
            yield 1, (computed, cached, dirty - {n})
    if len(cached) < max_cached:
        for n in range(len(uses)):
            if n not in cached and computed & uses[n] != uses[n]:
                yield 1, (computed, cached | {n}, dirty)
    for e, (u, v) in enumerate(edges):
        if not computed >> e & 1 and u in cached and v in cached and all(computed >> m & 1 for m, (_, t) in enumerate(edges) if t == u):
            yield 1, (computed | 1 << e, cached, dirty | {v})


def _cheapest(order, step, cached, dirty, edges, outputs, uses, max_cached):
    """Fewest reads and writes from a step of an order on: every set of values to keep is tried."""
    if step == len(order):
        return len(dirty & outputs)
    u, v = edges[order[step]]
    computed = sum(1 << e for e in order[:step])
    live = {n for n in cached if computed & uses[n] != uses[n]}
    finished_outputs = len((dirty - live) & outputs)
    best = 10**9
    for others in _subsets(live - {u, v}, max_cached - 2):
        kept = others | ({u, v} & live)
        written = len((dirty & live) - kept)
        read = len({u, v} - kept)
        rest = _cheapest(order, step + 1, frozenset(kept | {u, v}), frozenset(dirty & kept) | {v}, edges, outputs, uses, max_cached)
        best = min(best, finished_outputs + written + read + 1 + rest)
    return best


def _subsets(values, max_size):
    subsets = [frozenset()]
    for n in values:
        subsets += [subset | {n} for subset in subsets]
    return [subset for subset in subsets if len(subset) <= max_size]


def traffic(network: Network, order, capacity: int, policy: str, free_dead: bool) -> dict[str, int]:
    """LRU, FIFO and MIN as defined, on lists."""
    edges = [(int(network.source[n]), int(network.target[n])) for n in order]
    names = ("weights_read", "biases_read", "inputs_read", "intermediates_read", "intermediates_written", "outputs_written")
    counts = dict.fromkeys(names, 0)
    cached, dirty, was_read = [], set(), set()  # cached: oldest first

    def next_use(n, step):
        return next((later for later in range(step, len(edges)) if n in edges[later]), len(edges))

    def evict(n, step):
        cached.remove(n)
        if n in dirty:
            complete = network.is_output[n] and all(v != n for _, v in edges[step:])
            counts["outputs_written" if complete else "intermediates_written"] += 1
            dirty.discard(n)

    for step, (u, v) in enumerate(edges):
        num_missing = sum(n not in cached for n in (u, v))
        while len(cached) + num_missing > capacity - 1:
            others = [m for m in cached if m not in (u, v)]
            evict(max(others, key=lambda m, step=step: (next_use(m, step), m not in dirty)) if policy == "min" else others[0], step)
        for n in (u, v):
            if n not in cached:
                is_input = all(t != n for _, t in edges)
                counts["inputs_read" if is_input else "intermediates_read" if n in was_read else "biases_read"] += 1
                was_read.add(n)
                cached.append(n)
            elif policy == "lru":
                cached.remove(n)
                cached.append(n)
        counts["weights_read"] += 1
        dirty.add(v)
        for n in (u, v):
            if free_dead and next_use(n, step + 1) == len(edges):
                if not network.is_output[n]:
                    dirty.discard(n)
                evict(n, step + 1)
    counts["outputs_written"] += sum(bool(network.is_output[n]) for n in dirty)
    return counts
