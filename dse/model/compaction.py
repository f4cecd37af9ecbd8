"""Channels that a network loses as a whole, in the layers before and after the one that was pruned.

A layer without some of its rows makes fewer channels, so that the next has fewer inputs (`row`); a layer that ignores some
input channels leaves the rows that make them without a use (`channel`, and `column` of a linear layer). Both follow the graph
of the network, through depthwise convolutions and elementwise layers that keep channels apart. They end where channels mix or
are added to others, at normalisations and attention: which channels are left there is not known, so all are. A product of two
tensors keeps at most what the thinner one has; of several readers of a tensor each may need other channels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from dse.networks.graph import LayerGraph
from dse.networks.layers import LayerArrays
from dse.sparsity.kinds import Structured
from dse.workload import Variant

PerLayer = Float[np.ndarray, "layer"]


def compacted(variant: Variant) -> Variant:
    """The variant without the inputs and outputs that its neighbours make superfluous; as it is where the graph is not known."""
    graph, pattern = variant.layers.graph, variant.pattern
    if graph is None or not isinstance(pattern, Structured):
        return variant
    channels = _Channels.of(variant.layers, graph)
    inputs, outputs = channels.forward(variant.density) if pattern.axis == "row" else channels.backward(_needed_inputs(variant))
    layers, grouped = variant.layers, channels.depthwise
    smaller = replace(
        layers, m=np.where(layers.has_weights, layers.m * outputs, layers.m),
        k=np.where(layers.has_weights & ~grouped, layers.k * inputs, layers.k),
        groups=np.where(grouped, layers.groups * outputs, layers.groups), input_elements=layers.input_elements * inputs,
        output_elements=layers.output_elements * outputs,
    )  # fmt: skip
    kept = np.where(grouped, 1.0, inputs) * outputs
    return replace(
        variant, layers=smaller, stored_elements={pattern: elements * kept for pattern, elements in variant.stored_elements.items()}
    )


def notes(variant: Variant) -> list[str]:
    """What is assumed about channels that were removed as a whole, in words."""
    pattern, layers = variant.pattern, variant.layers
    pruned = layers.has_weights & (variant.density < 1)
    if not isinstance(pattern, Structured) or not pruned.any():
        return []
    if layers.graph is None:
        fix = "fill 'reads' in layers.csv"
        return [f"'{variant.workload}': which layer reads which is not known, so '{pattern}' shrinks no neighbour of a pruned layer; {fix}"]
    smaller = compacted(variant).layers
    if pattern.axis == "row":
        readers = [[user for user in users if number in layers.graph.reads[user]] for number, users in enumerate(layers.graph.users)]
        shrunk = np.array([bool(users) and all(smaller.input_elements[u] < layers.input_elements[u] for u in users) for users in readers])
        whole, what = pruned & ~shrunk & np.array([bool(users) for users in readers]), "the layers after these keep all inputs"
    else:
        sources = layers.graph.reads
        shrunk = np.array([bool(read) and all(smaller.m[p] < layers.m[p] for p in read) for read in sources])
        whole, what = pruned & ~shrunk & np.array([bool(read) for read in sources]), "the layers before these keep all outputs"
    if not whole.any():
        return []
    return [f"'{variant.workload}', '{pattern}': {whole.sum()} of {pruned.sum()} pruned layers share their channels with others: {what}"]


def _needed_inputs(variant: Variant) -> PerLayer:
    """Share of the input channels that a layer reads."""
    layers, pattern = variant.layers, variant.pattern
    apart = (layers.kind == "gemm") | (isinstance(pattern, Structured) and pattern.axis == "channel")
    return np.where(apart & layers.has_weights & (layers.groups == 1), variant.density, 1.0)


@dataclass(frozen=True, eq=False)
class _Channels:
    """Where channels can be followed from layer to layer.

    `count`: channels of the output of each layer, NaN where they are mixed. `follows`: whether the channels that a layer reads are
    those of the one layer that it reads, or of every layer that an elementwise one reads. `elements`: of the outputs of each layer.
    """

    graph: LayerGraph
    count: PerLayer
    follows: Bool[np.ndarray, "layer"]
    depthwise: Bool[np.ndarray, "layer"]
    elementwise: Bool[np.ndarray, "layer"]
    elements: PerLayer

    @classmethod
    def of(cls, layers: LayerArrays, graph: LayerGraph) -> "_Channels":
        depthwise = layers.has_weights & (layers.groups > 1) & (layers.groups == layers.m)
        single = layers.count == 1  # repeats of a layer read each other
        count, follows = np.where(layers.has_weights & single, layers.m, np.nan), np.zeros(len(layers), bool)
        for number, read in enumerate(graph.reads):
            sources = np.unique([count[source] for source in read])
            if not single[number] or len(sources) != 1 or graph.reads_network_input[number] or not np.isfinite(sources[0]):
                continue
            if layers.per_channel[number]:
                count[number], follows[number] = sources[0], True
            elif len(read) == 1 and depthwise[number]:
                follows[number] = layers.groups[number] == sources[0]
            elif len(read) == 1 and layers.has_weights[number]:
                follows[number] = layers.groups[number] == 1 and layers.k[number] % sources[0] == 0
        return cls(graph, count, follows, depthwise & follows, layers.per_channel & follows, layers.output_elements * layers.instances)

    @property
    def apart(self) -> Bool[np.ndarray, "layer"]:
        """Layers that make each output channel of the same channel of their inputs."""
        return self.depthwise | self.elementwise

    def forward(self, density: PerLayer) -> tuple[PerLayer, PerLayer]:
        """Share of the inputs of each layer that is left, and of its outputs beyond the rows that it lost itself."""
        inputs, outputs, left = (np.ones(len(density)) for _ in range(3))
        for number, read in enumerate(self.graph.reads):
            own = max(density[number], 1 / self.count[number]) if np.isfinite(self.count[number]) else 1.0
            thinnest = min((left[source] for source in read), default=1.0)
            left[number] = 1.0 if self.graph.adds[number] else own
            if self.elementwise[number]:
                left[number] = outputs[number] = thinnest
                inputs[number] = _mean([left[source] for source in read], [self.elements[source] for source in read])
            elif self.depthwise[number]:
                inputs[number] = outputs[number] = min(own, thinnest) / own
                left[number] = 1.0 if self.graph.adds[number] else min(own, thinnest)
            elif self.follows[number]:
                inputs[number] = thinnest
        return inputs, outputs

    def backward(self, needed_inputs: PerLayer) -> tuple[PerLayer, PerLayer]:
        """Share of the inputs of each layer that is left beyond the channels that it ignores itself, and of its outputs."""
        outputs = np.ones(len(needed_inputs))
        for number in reversed(range(len(self.graph))):
            users = self.graph.users[number]
            if users and np.isfinite(self.count[number]):
                needed = sum(self._needed(number, user, needed_inputs, outputs) for user in users)
                outputs[number] = min(1.0, max(needed, 1 / self.count[number]))
        return np.where(self.apart, outputs, 1.0), outputs

    def _needed(self, number: int, user: int, needed_inputs: PerLayer, outputs: PerLayer) -> float:
        """Share of the output channels of layer `number` that `user` needs, of all of them where that is not known."""
        found = 0.0
        if number in self.graph.adds[user]:
            found += outputs[user] if self.count[user] == self.count[number] else 1.0
        if number in self.graph.reads[user]:
            found += 1.0 if not self.follows[user] else outputs[user] if self.apart[user] else needed_inputs[user]
        return found


def _mean(shares: Sequence[float], weights: Sequence[float]) -> float:
    """Weighted mean; the plain one where there is no weight."""
    return float(np.average(shares, weights=weights if sum(weights) else None))
