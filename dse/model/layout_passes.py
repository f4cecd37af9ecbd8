"""Layout passes: the kernels of pruned layers may read and write transposed matrices, which the passes around them copy.

PyTorch's 2:4 kernels, for example, write transposed outputs (https://github.com/pytorch/pytorch/issues/118282). A conversion that
`transposes` (see `dse.networks.layers`) then moves its elements even if nothing is quantised; if something is, one pass does both.
"""

from dataclasses import replace

import numpy as np

from dse.networks.layers import LayerArrays, LayerMask
from dse.workload import Variant


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
