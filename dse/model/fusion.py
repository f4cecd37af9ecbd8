"""Which activations stay on chip from the layer that makes them to the last one that needs them.

A tensor may stay if it fits the memory together with every smaller one that is live at the same time, skip connections included,
and with a row of weights or of results of the layer that runs; and if every layer on its way moves its other operands once,
because one of them, or the result, is held entirely. So all tensors that may stay fit at once, and more memory never keeps fewer.
Where the graph is not known nothing stays.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from dse.networks.graph import LayerGraph
from dse.networks.layers import LayerArrays
from dse.schema.model_options import ModelOptions
from dse.workload import Variant

PerLayer = Float[np.ndarray, "layer"]


def notes(variant: Variant, options: ModelOptions) -> list[str]:
    """What is assumed for lack of a graph, in words."""
    if options.fusion == "none" or variant.layers.graph is not None:
        return []
    return [f"'{variant.workload}': which layer reads which is not known, so no layers are fused; fill 'reads' in layers.csv"]


@dataclass(frozen=True, eq=False)
class Fusion:
    """The tensors of a network (the output of each layer) and their sizes at a batch.

    `size`: bytes of all outputs of each layer [B]; `scratch`: bytes that a layer needs beside the operand that it holds [B].
    """

    layers: LayerArrays  # of one sample
    graph: LayerGraph
    size: PerLayer
    scratch: PerLayer

    @property
    def once(self) -> Bool[np.ndarray, "layer"]:
        """Layers that run once: of the repeats of a layer nobody says what they read."""
        return (self.layers.count == 1) | (self.layers.kind == "matmul")

    @property
    def written(self) -> PerLayer:
        """Elements of all outputs of each layer, for one sample."""
        return self.layers.output_elements * self.layers.instances

    @property
    def read(self) -> PerLayer:
        """Elements of all inputs of each layer, for one sample."""
        return self.layers.input_elements * self.layers.instances

    @cached_property
    def needed(self) -> PerLayer:
        """Capacity from which on each tensor may stay on chip [B]; infinite for one that no layer needs."""
        used = np.array([bool(users) for users in self.graph.users]) & self.once
        order = np.argsort(self.size, kind="stable")
        occupied = np.cumsum((np.where(used, self.size, 0.0)[:, None] * self.graph.live)[order], axis=0)
        last = np.searchsorted(self.size[order], self.size, side="right") - 1  # equal ones are live as well
        most = np.where(self.graph.live, occupied[last] + self.scratch, 0.0).max(axis=1, initial=0.0)
        return np.where(used, most, np.inf)

    @cached_property
    def _complete(self) -> Bool[np.ndarray, "layer"]:
        """Layers whose inputs are the outputs of others, at least those of one operand."""
        made = np.array([self.written[list(found)].sum() for found in self.graph.reads])
        every = np.array([bool(found) for found in self.graph.reads]) & ~np.array(self.graph.reads_network_input)
        return every & ((self.layers.kind == "matmul") | (made >= self.read))

    def held(self, capacity: float) -> Bool[np.ndarray, "layer"]:
        """The tensors that stay in a memory of `capacity` bytes."""
        held = self.needed <= capacity
        while np.any(broken := held & np.any(self.graph.live & ~self.streams(held), axis=1)):
            held &= ~broken
        return held

    def streams(self, held: Bool[np.ndarray, "layer"]) -> Bool[np.ndarray, "layer"]:
        """Layers that move every operand at most once, whatever else is on chip: one operand or the result stays there entirely."""
        inputs = np.array([bool(np.all(held[list(found)])) for found in self.graph.reads])
        return self.once & (~self.layers.has_flops | held | (self._complete & inputs))

    def share_read(self, held: Bool[np.ndarray, "layer"]) -> PerLayer:
        """Share of its inputs that each layer reads from outside: what is not held of them, and of what is added to its result."""
        sources = list(zip(self.graph.reads, self.graph.adds, strict=True))
        made = np.array([self.written[list(found)].sum() for found, _ in sources])
        away = np.where(held, 0.0, self.written)
        moved = np.maximum(self.read - made, 0.0) + np.array([away[list(read + added)].sum() for read, added in sources])
        return np.minimum(moved / np.maximum(self.read, 1e-300), 1.0)

    @property
    def ends(self) -> tuple[Bool[np.ndarray, "layer"], Bool[np.ndarray, "layer"]]:
        """The layer that reads the network's input (the one that reads most of it), and those whose outputs no layer needs."""
        first = np.where([not read for read in self.graph.reads], self.read, -1.0)
        return np.arange(len(self.graph)) == first.argmax(), np.array([not users for users in self.graph.users])
