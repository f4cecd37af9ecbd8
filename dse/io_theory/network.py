"""A feed-forward network as a graph of neurons and connections."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order

from dse.base.errors import InputError, Problem

Connections = Int[np.ndarray, "connection"]
SHOWN = 5  # neurons named in an error


@dataclass(frozen=True, eq=False)
class Network:
    """Neurons 0 to N - 1 in a topological order, connections by their target, then by their source.

    Every neuron lies between an input (a neuron without connections into it) and an output. `removed` counts those of
    the network as it was given that did not, by reason.
    """

    source: Connections
    target: Connections
    weight: Float[np.ndarray, "connection"]
    bias: Float[np.ndarray, "neuron"]
    output: Bool[np.ndarray, "neuron"]
    names: Sequence[str]
    given_inputs: int  # before those without use were removed
    input_place: Int[np.ndarray, "input"]  # of each that is left, among them
    relu: bool = True  # after every neuron but the outputs
    removed: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what had to be assumed

    @property
    def weights(self) -> int:
        """W, the connections."""
        return len(self.source)

    @property
    def neurons(self) -> int:
        """N, inputs included."""
        return len(self.output)

    @property
    def in_degree(self) -> Int[np.ndarray, "neuron"]:
        return np.bincount(self.target, minlength=self.neurons)

    @property
    def input(self) -> Bool[np.ndarray, "neuron"]:
        return self.in_degree == 0

    @property
    def inputs(self) -> int:
        """I"""
        return int(self.input.sum())

    @property
    def outputs(self) -> int:
        """O"""
        return int(self.output.sum())


def network(
    source: Any,
    target: Any,
    names: Sequence[str],
    weight: Any = None,
    bias: Any = None,
    inputs: Any = None,
    outputs: Any = None,
    relu: bool = True,
    notes: tuple[str, ...] = (),
) -> Network:
    """The network of these connections between neurons numbered as in `names`, without its dead neurons.

    `inputs`, `outputs`: booleans, one a neuron; by default the neurons without connections into them, others without any out. A hidden
    neuron that no input reaches is constant and goes into the biases of those that it feeds, one that reaches no output is never
    needed: both are dead. Raises InputError for a cycle, a connection given twice, and an output that no input reaches.
    """
    count = len(names)
    source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
    weight = np.ones(len(source), np.float32) if weight is None else np.asarray(weight, np.float32)
    bias = np.zeros(count, np.float32) if bias is None else np.asarray(bias, np.float32)
    inputs = np.bincount(target, minlength=count) == 0 if inputs is None else np.asarray(inputs, bool)
    outputs = ~inputs & (np.bincount(source, minlength=count) == 0) if outputs is None else np.asarray(outputs, bool)
    _check_once(source, target, names)
    rank = _topological(source, target, names)
    reached, needed = _reachable(source, target, inputs), _reachable(target, source, outputs)
    _check_outputs(outputs & ~reached, names)
    bias = _with_constants(source, target, weight, bias, np.flatnonzero(~reached), rank, relu)
    live = reached & needed
    removed = {"no input reaches": int((~reached).sum()), "reach no output": int((reached & ~needed).sum())}
    by_rank = np.argsort(rank)
    kept = by_rank[live[by_rank]]
    number = np.full(count, -1)
    number[kept] = np.arange(len(kept))
    between = live[source] & live[target]
    source, target, weight = number[source[between]], number[target[between]], weight[between]
    order = np.lexsort((source, target))
    return Network(
        source[order].astype(np.int32),
        target[order].astype(np.int32),
        weight[order],
        bias[kept],
        outputs[kept],
        [names[int(n)] for n in kept],
        int(inputs.sum()),
        (np.cumsum(inputs) - 1)[kept[inputs[kept]]],
        relu,
        removed,
        notes,
    )


def _check_once(source: np.ndarray, target: np.ndarray, names: Sequence[str]) -> None:
    pairs, times = np.unique(source * len(names) + target, return_counts=True)
    if len(twice := pairs[times > 1]):
        u, v = divmod(int(twice[0]), len(names))
        raise InputError(f"the connection {names[u]} -> {names[v]} is given {times[times > 1][0]} times", "give each once")


def _check_outputs(unreached: np.ndarray, names: Sequence[str]) -> None:
    fix = "end the network at another layer, or leave these outputs out"
    problems = [Problem(f"no input reaches the output {names[n]}", fix) for n in np.flatnonzero(unreached)[:SHOWN]]
    if (more := int(unreached.sum()) - SHOWN) > 0:
        problems.append(Problem(f"nor {more} other outputs", fix))
    if problems:
        raise InputError.from_problems(problems)


def _topological(source: np.ndarray, target: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """The place of each neuron in a topological order, the given one if it is; raises InputError with a cycle."""
    count = len(names)
    if (source < target).all():
        return np.arange(count)
    graph: Any = csr_array((np.ones(len(source)), (source, target)), shape=(count, count))
    missing, rank = np.bincount(target, minlength=count), np.full(count, -1)
    ready = [int(n) for n in np.flatnonzero(missing == 0)]
    for place in range(count):
        if not ready:
            raise InputError(f"the network has a cycle: {' -> '.join(_cycle(graph, rank, names))}", "take one of its connections out")
        neuron = heapq.heappop(ready)
        rank[neuron] = place
        after = graph.indices[graph.indptr[neuron] : graph.indptr[neuron + 1]]
        missing[after] -= 1
        for n in after[missing[after] == 0]:
            heapq.heappush(ready, int(n))
    return rank


def _cycle(graph: Any, rank: np.ndarray, names: Sequence[str]) -> list[str]:
    """Walk back over neurons without a place, each of which has one before it, until one comes again."""
    into = graph.T.tocsr()
    path = [int(np.flatnonzero(rank < 0)[0])]
    while path[-1] not in path[:-1]:
        before = into.indices[into.indptr[path[-1]] : into.indptr[path[-1] + 1]]
        path.append(int(before[rank[before] < 0][0]))
    ring: list[str] = [names[n] for n in path[path.index(path[-1]) :][::-1]]
    return ring if len(ring) <= 2 * SHOWN else [*ring[:SHOWN], "...", *ring[-SHOWN:]]


def _with_constants(source, target, weight, bias, constant: np.ndarray, rank: np.ndarray, relu: bool) -> np.ndarray:
    """Biases with what constant neurons add to them, taken in topological order."""
    if not bias[constant].any():
        return bias
    out = csr_array((weight, (source, target)), shape=(len(bias), len(bias)))
    bias = bias.copy()
    for neuron in constant[np.argsort(rank[constant])]:
        fed = slice(out.indptr[neuron], out.indptr[neuron + 1])
        bias[out.indices[fed]] += out.data[fed] * (max(bias[neuron], 0) if relu else bias[neuron])
    return bias


def _reachable(source: np.ndarray, target: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Neurons that a walk along the connections from any of `starts` meets."""
    count, first = len(starts), np.flatnonzero(starts)
    tails, heads = np.concatenate([source, np.full(len(first), count)]), np.concatenate([target, first])  # a neuron before all starts
    graph = coo_array((np.ones(len(tails), bool), (tails, heads)), shape=(count + 1, count + 1)).tocsr()
    met = np.zeros(count + 1, bool)
    met[breadth_first_order(graph, count, return_predecessors=False)] = True
    return met[:-1]
