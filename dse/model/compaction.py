"""What pruning a layer changes in the layers next to it: their size by compaction, the copies of transposed matrices.

Compaction: structured pruning also shrinks the layers before and after the pruned one. A layer without some of its rows has fewer output
channels, so the next layers have fewer inputs (`row`). A layer that ignores some input channels makes the rows that produce them useless
(`channel`, and `column` of a linear layer). Both follow the layer graph, through depthwise convolutions and elementwise layers, which keep
channels separate. They end where channels are mixed or added to others, at normalisations and at attention: which channels remain there is
unknown, so all are kept. A product of two tensors keeps at most the channels of the smaller one; several readers of a tensor may each need
other channels.

Layout passes: the kernels of pruned layers may read and write transposed matrices, which the passes around them copy. PyTorch's 2:4
kernels, for example, write transposed outputs (https://github.com/pytorch/pytorch/issues/118282). A conversion that `transposes` (see
`dse.networks.layers`) then moves its elements even if nothing is quantised; if something is, one pass does both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dse.networks.graph import LayerGraph
from dse.networks.layers import LayerArrays, LayerMask, PerLayer
from dse.sparsity.kinds import Structured
from dse.workload import Variant


def compact_variant(variant: Variant) -> Variant:
    """Remove the inputs and outputs that a structured variant makes useless in other layers; unchanged if the layer graph is unknown."""
    graph, pattern = variant.layers.graph, variant.pattern
    if graph is None or not isinstance(pattern, Structured):
        return variant
    channels = _ChannelFlow.of(variant.layers, graph)
    inputs, outputs = channels.forward(variant.density) if pattern.axis == "row" else channels.backward(_read_channel_share(variant))
    layers, depthwise = variant.layers, channels.depthwise
    smaller = replace(
        layers,
        m=np.where(layers.has_weights, layers.m * outputs, layers.m),
        k=np.where(layers.has_weights & ~depthwise, layers.k * inputs, layers.k),
        groups=np.where(depthwise, layers.groups * outputs, layers.groups),
        input_elements=layers.input_elements * inputs,
        output_elements=layers.output_elements * outputs,
    )
    weight_share = np.where(depthwise, 1.0, inputs) * outputs
    stored = {pattern: elements * weight_share for pattern, elements in variant.stored_elements.items()}
    return replace(variant, layers=smaller, stored_elements=stored)


def compaction_warnings(variant: Variant) -> list[str]:
    """Warnings about layers that structured pruning could not shrink."""
    pattern, layers = variant.pattern, variant.layers
    pruned = variant.is_pruned
    if not isinstance(pattern, Structured) or not pruned.any():
        return []
    if layers.graph is None:
        problem = f"'{variant.workload}': '{pattern}' does not shrink the neighbours of pruned layers because the layer graph is unknown"
        return [f"{problem}; fill 'reads' in layers.csv"]
    compacted = compact_variant(variant).layers
    if pattern.axis == "row":
        neighbours = [[user for user in users if layer in layers.graph.reads[user]] for layer, users in enumerate(layers.graph.users)]
        shrunk = [all(compacted.input_elements[n] < layers.input_elements[n] for n in group) for group in neighbours]
        unchanged = "the layers after these keep all inputs"
    else:
        neighbours = layers.graph.reads
        shrunk = [all(compacted.m[n] < layers.m[n] for n in group) for group in neighbours]
        unchanged = "the layers before these keep all outputs"
    has_neighbours = np.array([bool(group) for group in neighbours])
    count = (pruned & has_neighbours & ~np.array(shrunk)).sum()
    if not count:
        return []
    return [f"'{variant.workload}', '{pattern}': {count} of {pruned.sum()} pruned layers share their channels with others: {unchanged}"]


def _read_channel_share(variant: Variant) -> PerLayer:
    """Share of the input channels that each layer reads [1]."""
    layers, pattern = variant.layers, variant.pattern
    drops_channels = (layers.kind == "gemm") | (isinstance(pattern, Structured) and pattern.axis == "channel")
    return np.where(drops_channels & layers.has_weights & (layers.groups == 1), variant.density, 1.0)


@dataclass(frozen=True, eq=False)
class _ChannelFlow:
    """How channels flow from layer to layer.

    `count`: channels of the output of each layer, NaN where they are mixed. `follows`: whether a layer reads exactly the channels of the
    one layer that it reads (an elementwise layer: of every layer that it reads). `output_elements`: of all instances of each layer.
    """

    graph: LayerGraph
    count: PerLayer
    follows: LayerMask
    depthwise: LayerMask
    elementwise: LayerMask
    output_elements: PerLayer

    @classmethod
    def of(cls, layers: LayerArrays, graph: LayerGraph) -> "_ChannelFlow":
        depthwise = layers.has_weights & (layers.groups > 1) & (layers.groups == layers.m)
        single = layers.count == 1  # repeats of a layer read each other
        count, follows = np.where(layers.has_weights & single, layers.m, np.nan), np.zeros(len(layers), bool)
        for layer, read in enumerate(graph.reads):
            channels = np.unique([count[source] for source in read])
            if not single[layer] or len(channels) != 1 or graph.reads_network_input[layer] or not np.isfinite(channels[0]):
                continue
            if layers.per_channel[layer]:
                count[layer], follows[layer] = channels[0], True
            elif len(read) == 1 and depthwise[layer]:
                follows[layer] = layers.groups[layer] == channels[0]
            elif len(read) == 1 and layers.has_weights[layer]:
                follows[layer] = layers.groups[layer] == 1 and layers.k[layer] % channels[0] == 0
        return cls(graph, count, follows, depthwise & follows, layers.per_channel & follows, layers.output_elements * layers.instances)

    @property
    def keeps_channels_separate(self) -> LayerMask:
        """Layers whose output channels each depend on the same channel of their inputs."""
        return self.depthwise | self.elementwise

    def forward(self, density: PerLayer) -> tuple[PerLayer, PerLayer]:
        """Shares of the inputs and outputs of each layer that remain if rows are pruned; outputs relative to the rows left by its own
        pruning."""
        inputs, outputs, remaining = (np.ones(len(density)) for _ in range(3))
        for layer, read in enumerate(self.graph.reads):
            own = max(density[layer], 1 / self.count[layer]) if np.isfinite(self.count[layer]) else 1.0
            smallest = min((remaining[source] for source in read), default=1.0)
            remaining[layer] = 1.0 if self.graph.adds[layer] else own
            if self.elementwise[layer]:
                remaining[layer] = outputs[layer] = smallest
                inputs[layer] = _weighted_mean([remaining[source] for source in read], [self.output_elements[source] for source in read])
            elif self.depthwise[layer]:
                inputs[layer] = outputs[layer] = min(own, smallest) / own
                remaining[layer] = 1.0 if self.graph.adds[layer] else min(own, smallest)
            elif self.follows[layer]:
                inputs[layer] = smallest
        return inputs, outputs

    def backward(self, read_share: PerLayer) -> tuple[PerLayer, PerLayer]:
        """Shares of the inputs and outputs of each layer that remain if layers read only `read_share` of their input channels; inputs
        relative to the channels that the layer itself reads."""
        outputs = np.ones(len(read_share))
        for layer in reversed(range(len(self.graph))):
            users = self.graph.users[layer]
            if users and np.isfinite(self.count[layer]):
                needed = sum(self._needed_share(layer, user, read_share, outputs) for user in users)
                outputs[layer] = min(1.0, max(needed, 1 / self.count[layer]))
        return np.where(self.keeps_channels_separate, outputs, 1.0), outputs

    def _needed_share(self, layer: int, user: int, read_share: PerLayer, outputs: PerLayer) -> float:
        """Share of the output channels of `layer` that `user` needs; all where it is unknown."""
        share = 0.0
        if layer in self.graph.adds[user]:
            share += outputs[user] if self.count[user] == self.count[layer] else 1.0
        if layer in self.graph.reads[user]:
            share += 1.0 if not self.follows[user] else outputs[user] if self.keeps_channels_separate[user] else read_share[user]
        return share


def _weighted_mean(shares: Sequence[float], weights: Sequence[float]) -> float:
    """Weighted mean; the plain mean if all weights are 0."""
    return float(np.average(shares, weights=weights if sum(weights) else None))


def keep_needed_transposes(variant: Variant) -> Variant:
    """The variant whose conversions transpose only next to its pruned layers: of `outputs` behind one, of `inputs` before one.

    If the layer graph is unknown, all of them transpose as soon as any layer is pruned.
    """
    layers = variant.layers
    if not layers.transposes.any():
        return variant
    return replace(variant, layers=replace(layers, transposes=layers.transposes & _serves_pruned_layer(layers, variant.is_pruned)))


def _serves_pruned_layer(layers: LayerArrays, is_pruned: LayerMask) -> LayerMask:
    if layers.graph is None:
        return np.full(len(layers), is_pruned.any())
    served = [
        users if conversion == "inputs" else read
        for conversion, read, users in zip(layers.conversion, layers.graph.reads, layers.graph.users, strict=True)
    ]
    return np.array([is_pruned[list(neighbours)].any() for neighbours in served], bool)
