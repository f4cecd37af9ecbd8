"""A sparse feed-forward network as a directed acyclic graph: neurons and weighted connections."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order

from dse.base.errors import InputError, Problem

PerConnection = Int[np.ndarray, "connection"]
PerNeuron = Int[np.ndarray, "neuron"]
NeuronMask = Bool[np.ndarray, "neuron"]
MAX_NAMED = 5  # neurons named in an error message


@dataclass(frozen=True, eq=False)
class Network:
    """A graph whose neurons are numbered from 0 to N - 1 in topological order.

    Connections are sorted by target, then by source. Every neuron is on a path from an input (a neuron without incoming
    connections) to an output. Dead neurons, which were on no such path, are counted by reason in `removed_neurons`.
    """

    source: PerConnection
    target: PerConnection
    weight: Float[np.ndarray, "connection"]
    bias: Float[np.ndarray, "neuron"]
    is_output: NeuronMask
    names: Sequence[str]
    num_original_inputs: int  # before dead neurons were removed
    original_input_index: Int[np.ndarray, "input"]  # of each remaining input, among the original inputs
    relu: bool = True  # applied to every computed neuron except the outputs
    removed_neurons: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # assumptions of the reader

    @property
    def num_connections(self) -> int:
        """W: the number of connections, and so of weights."""
        return len(self.source)

    @property
    def num_neurons(self) -> int:
        """N: the number of neurons, inputs included."""
        return len(self.is_output)

    @property
    def num_inputs(self) -> int:
        """I: the number of inputs."""
        return int(self.is_input.sum())

    @property
    def num_outputs(self) -> int:
        """O: the number of outputs."""
        return int(self.is_output.sum())

    @property
    def in_degree(self) -> PerNeuron:
        return np.bincount(self.target, minlength=self.num_neurons)

    @property
    def out_degree(self) -> PerNeuron:
        return np.bincount(self.source, minlength=self.num_neurons)

    @property
    def is_input(self) -> NeuronMask:
        return self.in_degree == 0


def build_network(
    source: ArrayLike,
    target: ArrayLike,
    names: Sequence[str],
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    is_input: ArrayLike | None = None,
    is_output: ArrayLike | None = None,
    relu: bool = True,
    notes: tuple[str, ...] = (),
) -> Network:
    """Build a network from its connections and remove its dead neurons.

    `source` and `target` are indices into `names`. By default, neurons without incoming connections are inputs, and other
    neurons without outgoing connections are outputs. A hidden neuron that no input reaches is a constant: it is folded into
    the biases of its targets and removed. A neuron from which no output can be reached is removed, too.

    Raises InputError for a cycle, for a duplicate connection and for an output that no input reaches.
    """
    source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
    weight = np.ones(len(source), np.float32) if weight is None else np.asarray(weight, np.float32)
    bias = np.zeros(len(names), np.float32) if bias is None else np.asarray(bias, np.float32)
    is_input, is_output = _terminals(source, target, len(names), is_input, is_output)
    _check_unique(source, target, names)
    rank = _topological_rank(source, target, names)
    reached, needed = _reachable(source, target, is_input), _reachable(target, source, is_output)
    _check_reached(is_output & ~reached, names)
    bias = _fold_constants(source, target, weight, bias, np.flatnonzero(~reached), rank, relu)
    live = reached & needed
    neurons, source, target, weight = _renumber(source, target, weight, live, rank)
    return Network(
        source,
        target,
        weight,
        bias[neurons],
        is_output[neurons],
        [names[int(n)] for n in neurons],
        int(is_input.sum()),
        (np.cumsum(is_input) - 1)[neurons[is_input[neurons]]],
        relu,
        {"no input reaches": int((~reached).sum()), "reach no output": int((reached & ~needed).sum())},
        notes,
    )


def _terminals(
    source: PerConnection, target: PerConnection, num_neurons: int, is_input: ArrayLike | None, is_output: ArrayLike | None
) -> tuple[NeuronMask, NeuronMask]:
    inputs = np.bincount(target, minlength=num_neurons) == 0 if is_input is None else np.asarray(is_input, bool)
    outputs = ~inputs & (np.bincount(source, minlength=num_neurons) == 0) if is_output is None else np.asarray(is_output, bool)
    return inputs, outputs


def _renumber(
    source: PerConnection, target: PerConnection, weight: Float[np.ndarray, "connection"], live: NeuronMask, rank: PerNeuron
) -> tuple[Int[np.ndarray, "live"], PerConnection, PerConnection, Float[np.ndarray, "connection"]]:
    """Number the live neurons in topological order and sort the connections between them by target, then source."""
    by_rank = np.argsort(rank)
    neurons = by_rank[live[by_rank]]
    number = np.full(len(live), -1)
    number[neurons] = np.arange(len(neurons))
    between = live[source] & live[target]
    source, target, weight = number[source[between]], number[target[between]], weight[between]
    order = np.lexsort((source, target))
    return neurons, source[order].astype(np.int32), target[order].astype(np.int32), weight[order]


def _check_unique(source: PerConnection, target: PerConnection, names: Sequence[str]) -> None:
    pairs, counts = np.unique(source * len(names) + target, return_counts=True)
    if len(duplicates := pairs[counts > 1]):
        u, v = divmod(int(duplicates[0]), len(names))
        raise InputError(f"the connection {names[u]} -> {names[v]} is given {counts[counts > 1][0]} times", "give each connection once")


def _check_reached(unreached_outputs: NeuronMask, names: Sequence[str]) -> None:
    fix = "end the network at another layer, or leave these outputs out"
    problems = [Problem(f"no input reaches the output {names[n]}", fix) for n in np.flatnonzero(unreached_outputs)[:MAX_NAMED]]
    if (others := int(unreached_outputs.sum()) - MAX_NAMED) > 0:
        problems.append(Problem(f"no input reaches {others} other outputs", fix))
    if problems:
        raise InputError.from_problems(problems)


def _topological_rank(source: PerConnection, target: PerConnection, names: Sequence[str]) -> PerNeuron:
    """Position of each neuron in a topological order (the given numbering if it is one); raises InputError for a cycle."""
    count = len(names)
    if (source < target).all():
        return np.arange(count)
    graph: Any = csr_array((np.ones(len(source)), (source, target)), shape=(count, count))
    unranked_sources, rank = np.bincount(target, minlength=count), np.full(count, -1)
    ready = [int(n) for n in np.flatnonzero(unranked_sources == 0)]
    for position in range(count):
        if not ready:
            cycle = " -> ".join(_find_cycle(graph, rank, names))
            raise InputError(f"the network has a cycle: {cycle}", "remove one of its connections")
        neuron = heapq.heappop(ready)
        rank[neuron] = position
        targets = graph.indices[graph.indptr[neuron] : graph.indptr[neuron + 1]]
        unranked_sources[targets] -= 1
        for n in targets[unranked_sources[targets] == 0]:
            heapq.heappush(ready, int(n))
    return rank


def _find_cycle(graph: Any, rank: PerNeuron, names: Sequence[str]) -> list[str]:
    """Walk backwards over neurons without a rank until one repeats: each of them has a source without a rank."""
    incoming = graph.T.tocsr()
    path = [int(np.flatnonzero(rank < 0)[0])]
    while path[-1] not in path[:-1]:
        sources = incoming.indices[incoming.indptr[path[-1]] : incoming.indptr[path[-1] + 1]]
        path.append(int(sources[rank[sources] < 0][0]))
    cycle: list[str] = [names[n] for n in path[path.index(path[-1]) :][::-1]]
    return cycle if len(cycle) <= 2 * MAX_NAMED else [*cycle[:MAX_NAMED], "...", *cycle[-MAX_NAMED:]]


def _fold_constants(
    source: PerConnection,
    target: PerConnection,
    weight: Float[np.ndarray, "connection"],
    bias: Float[np.ndarray, "neuron"],
    constants: Int[np.ndarray, "constant"],
    rank: PerNeuron,
    relu: bool,
) -> Float[np.ndarray, "neuron"]:
    """Add the value of each constant neuron, times the weight, to the biases of its targets, in topological order."""
    if not bias[constants].any():
        return bias
    outgoing = csr_array((weight, (source, target)), shape=(len(bias), len(bias)))
    bias = bias.copy()
    for neuron in constants[np.argsort(rank[constants])]:
        span = slice(outgoing.indptr[neuron], outgoing.indptr[neuron + 1])
        bias[outgoing.indices[span]] += outgoing.data[span] * (max(bias[neuron], 0) if relu else bias[neuron])
    return bias


def _reachable(source: PerConnection, target: PerConnection, is_start: NeuronMask) -> NeuronMask:
    """Neurons that can be reached along the connections from any start."""
    count, starts = len(is_start), np.flatnonzero(is_start)
    # A breadth-first search has one root: an extra neuron that is connected to every start.
    tails, heads = np.concatenate([source, np.full(len(starts), count)]), np.concatenate([target, starts])
    graph = coo_array((np.ones(len(tails), bool), (tails, heads)), shape=(count + 1, count + 1)).tocsr()
    reached = np.zeros(count + 1, bool)
    reached[breadth_first_order(graph, count, return_predecessors=False)] = True
    return reached[:-1]
