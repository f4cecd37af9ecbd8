"""Slow answers for tiny networks, sharing no code with the package: the least traffic of any schedule, and policies step by step."""

import heapq
from collections.abc import Iterator

from dse.io_theory.network import Network


def optimum(network: Network, memory: int) -> int:
    """The least reads and writes of any order and any evictions, by Dijkstra over what is done, held and dirty."""
    edges, output, uses = _described(network)
    start = (0, frozenset(), frozenset())
    seen, queue = {start: 0}, [(0, 0, start)]
    while queue:
        cost, _, state = heapq.heappop(queue)
        done, _, dirty = state
        if cost > seen[state]:
            continue
        if done == 2 ** len(edges) - 1 and not dirty & output:
            return cost
        for more, following in _moves(state, edges, output, uses, memory - 1):
            if cost + more < seen.get(following, 10**9):
                seen[following] = cost + more
                heapq.heappush(queue, (cost + more, len(seen), following))
    raise AssertionError("no schedule")


def brute_force(network: Network, memory: int) -> int:
    """The same by trying every order, and every eviction at every step of it."""
    edges, output, uses = _described(network)
    return min(_cheapest(order, 0, frozenset(), frozenset(), edges, output, uses, memory - 1) for order in orders(network))


def orders(network: Network) -> Iterator[tuple[int, ...]]:
    """Every order in which all connections into a neuron come before those out of it."""
    edges, *_ = _described(network)

    def extend(prefix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(prefix) == len(edges):
            yield prefix
        for n in range(len(edges)):
            if n not in prefix and all(m in prefix for m, (_, v) in enumerate(edges) if v == edges[n][0]):
                yield from extend((*prefix, n))

    return extend(())


def _described(network: Network):
    edges = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
    output = frozenset(n for n in range(network.neurons) if network.output[n])
    uses = [sum(1 << e for e, ends in enumerate(edges) if n in ends) for n in range(network.neurons)]
    return edges, output, uses


def _moves(state, edges, output, uses, room):
    """Steps with their costs: drop, write, read, compute. A bias is read like any value that slow memory has."""
    done, held, dirty = state
    for n in held:
        dead = done & uses[n] == uses[n]
        if n not in dirty or (dead and n not in output):
            yield 0, (done, held - {n}, dirty - {n})
        else:
            yield 1, (done, held, dirty - {n})
    if len(held) < room:
        for n in range(len(uses)):
            if n not in held and done & uses[n] != uses[n]:
                yield 1, (done, held | {n}, dirty)
    for e, (u, v) in enumerate(edges):
        if not done >> e & 1 and u in held and v in held and all(done >> m & 1 for m, (_, t) in enumerate(edges) if t == u):
            yield 1, (done | 1 << e, held, dirty | {v})


def _cheapest(order, step, held, dirty, edges, output, uses, room):
    """The least traffic from a step of an order on: every set of values to keep is tried."""
    if step == len(order):
        return len(dirty & output)
    u, v = edges[order[step]]
    done = sum(1 << e for e in order[:step])
    live = {n for n in held if done & uses[n] != uses[n]}
    finished = len((dirty - live) & output)
    best = 10**9
    for kept in _subsets(live - {u, v}, room - 2):
        now = kept | ({u, v} & live)
        written = len((dirty & live) - now)
        read = len({u, v} - now)
        rest = _cheapest(order, step + 1, frozenset(now | {u, v}), frozenset(dirty & now) | {v}, edges, output, uses, room)
        best = min(best, finished + written + read + 1 + rest)
    return best


def _subsets(values, most):
    found = [frozenset()]
    for n in values:
        found += [part | {n} for part in found]
    return [part for part in found if len(part) <= most]


def traffic(network: Network, order, memory: int, policy: str, free_dead: bool) -> dict[str, int]:
    """LRU, FIFO and MIN by the words of their definitions, on lists."""
    edges = [(int(network.source[n]), int(network.target[n])) for n in order]
    counts = dict.fromkeys(("weights_read", "biases_read", "inputs_read", "sums_read", "sums_written", "outputs_written"), 0)
    held, dirty, touched = [], set(), set()  # oldest first

    def next_use(n, step):
        return next((later for later in range(step, len(edges)) if n in edges[later]), len(edges))

    def leave(n, step):
        held.remove(n)
        if n in dirty:
            complete = network.output[n] and all(v != n for _, v in edges[step:])
            counts["outputs_written" if complete else "sums_written"] += 1
            dirty.discard(n)

    for step, (u, v) in enumerate(edges):
        needed = sum(n not in held for n in (u, v))
        while len(held) + needed > memory - 1:
            others = [m for m in held if m not in (u, v)]
            leave(max(others, key=lambda m, step=step: (next_use(m, step), m not in dirty)) if policy == "min" else others[0], step)
        for n in (u, v):
            if n not in held:
                kind = "inputs_read" if all(t != n for _, t in edges) else "sums_read" if n in touched else "biases_read"
                counts[kind] += 1
                touched.add(n)
                held.append(n)
            elif policy == "lru":
                held.remove(n)
                held.append(n)
        counts["weights_read"] += 1
        dirty.add(v)
        for n in (u, v):
            if free_dead and next_use(n, step + 1) == len(edges):
                if not network.output[n]:
                    dirty.discard(n)
                leave(n, step + 1)
    counts["outputs_written"] += sum(bool(network.output[n]) for n in dirty)
    return counts
