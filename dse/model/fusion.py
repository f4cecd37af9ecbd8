"""Fusion: the activations that stay on chip from the layer that produces them to the last layer that needs them.

A tensor may stay if it fits together with all smaller tensors that are live at the same time (skip connections included) and with one row
of weights or results of the running layer, and if every layer that runs while it is live moves its other operands only once, because one
operand or the result stays on chip entirely. So all tensors that may stay fit at the same time, and more capacity never keeps fewer.
Without a layer graph, nothing stays.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.networks.graph import LayerGraph
from dse.networks.layers import LayerArrays, LayerMask, PerLayer
from dse.schema.model_options import ModelOptions
from dse.workload import Variant


def fusion_warnings(variant: Variant, options: ModelOptions) -> list[str]:
    """A warning if layers are not fused because the layer graph is unknown."""
    if options.fusion == "none" or variant.layers.graph is not None:
        return []
    return [f"'{variant.workload}': no layers are fused because the layer graph is unknown; fill 'reads' in layers.csv"]


@dataclass(frozen=True, eq=False)
class Fusion:
    """The tensors of a network at a batch size; tensor l is the output of layer l.

    `tensor_bytes` are the bytes of all outputs of a layer [B]; `scratch_bytes` are needed by a running layer in addition to the operand
    that stays on chip [B].
    """

    layers: LayerArrays  # for one sample
    graph: LayerGraph
    tensor_bytes: PerLayer
    scratch_bytes: PerLayer

    @property
    def _runs_once(self) -> LayerMask:
        """Layers that run once: which tensors the repeats of a layer read is unknown."""
        return (self.layers.count == 1) | (self.layers.kind == "matmul")

    @property
    def _written(self) -> PerLayer:
        """Elements of all outputs of each layer, for one sample."""
        return self.layers.output_elements * self.layers.instances

    @property
    def _read(self) -> PerLayer:
        """Elements of all inputs of each layer, for one sample."""
        return self.layers.input_elements * self.layers.instances

    @property
    def _read_from_layers(self) -> PerLayer:
        """Elements of the outputs of other layers that each layer reads, for one sample."""
        return np.array([self._written[list(tensors)].sum() for tensors in self.graph.reads])

    @cached_property
    def min_capacity(self) -> PerLayer:
        """Capacity with which each tensor fits on chip [B]; infinite for tensors that no layer needs."""
        used = np.array([bool(users) for users in self.graph.users]) & self._runs_once
        order = np.argsort(self.tensor_bytes, kind="stable")
        occupied = np.cumsum((np.where(used, self.tensor_bytes, 0.0)[:, None] * self.graph.live)[order], axis=0)
        last = np.searchsorted(self.tensor_bytes[order], self.tensor_bytes, side="right") - 1  # tensors of equal size count as smaller
        peak = np.where(self.graph.live, occupied[last] + self.scratch_bytes, 0.0).max(axis=1, initial=0.0)
        return np.where(used, peak, np.inf)

    @cached_property
    def _reads_only_layers(self) -> LayerMask:
        """Layers whose inputs (of a product of activations, those of at least one operand) are outputs of other layers."""
        reads_layers = np.array([bool(tensors) for tensors in self.graph.reads]) & ~np.array(self.graph.reads_network_input)
        return reads_layers & ((self.layers.kind == "matmul") | (self._read_from_layers >= self._read))

    def on_chip_tensors(self, capacity: float) -> LayerMask:
        """The tensors that stay in a memory of `capacity` bytes."""
        on_chip = self.min_capacity <= capacity
        while np.any(evicted := on_chip & np.any(self.graph.live & ~self.moves_operands_once(on_chip), axis=1)):
            on_chip &= ~evicted
        return on_chip

    def moves_operands_once(self, on_chip: LayerMask) -> LayerMask:
        """Layers that move every operand at most once because one operand or the result stays on chip entirely."""
        inputs_on_chip = np.array([bool(np.all(on_chip[list(tensors)])) for tensors in self.graph.reads])
        return self._runs_once & (~self.layers.has_flops | on_chip | (self._reads_only_layers & inputs_on_chip))

    def read_share(self, on_chip: LayerMask) -> PerLayer:
        """Share of its inputs that each layer reads from outside [1]; tensors that are added to its result count as inputs."""
        off_chip = np.where(on_chip, 0.0, self._written)
        sources = zip(self.graph.reads, self.graph.adds, strict=True)
        from_layers = np.array([off_chip[list(read + added)].sum() for read, added in sources])
        moved = np.maximum(self._read - self._read_from_layers, 0.0) + from_layers
        return np.minimum(moved / np.maximum(self._read, 1e-300), 1.0)

    @property
    def network_ends(self) -> tuple[LayerMask, LayerMask]:
        """The layer that reads the network's input (of several, the one that reads most), and the layers whose outputs no layer needs."""
        first = np.where([not read for read in self.graph.reads], self._read, -1.0)
        return np.arange(len(self.graph)) == first.argmax(), np.array([not users for users in self.graph.users])
