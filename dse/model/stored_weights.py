"""The weights of each layer as one execution stores them."""

from dataclasses import dataclass

import numpy as np

from dse.networks.layers import LayerMask, PerLayer


@dataclass(frozen=True)
class StoredWeights:
    """The weights of each layer as one execution stores them; `legal` masks the layers that it may run.

    `elements` are stored, padding included, next to `metadata_bits` of their positions and `scale_bits` of their scales.
    `executed_elements` take part in the computation: more than the stored ones if only whole tiles are skipped. `column_share` is the
    number of columns that the unit sees, over k: less than 1 if columns are gathered, more than 1 if windows repeat them
    (`dse.model.expanded`).
    """

    legal: LayerMask
    elements: PerLayer
    metadata_bits: PerLayer
    column_share: PerLayer
    executed_elements: PerLayer
    scale_bits: PerLayer


def no_storage(layers: int) -> StoredWeights:
    """The storage of an execution that may run none of the layers."""
    infinite = np.full(layers, np.inf)
    return StoredWeights(np.zeros(layers, bool), infinite, np.zeros(layers), np.ones(layers), infinite, np.zeros(layers))


def smaller_storage(current: StoredWeights, option: StoredWeights) -> StoredWeights:
    """The better of two stored forms of each layer: legal, then fewer executed elements, then less metadata."""
    tie = (option.executed_elements == current.executed_elements) & (option.metadata_bits < current.metadata_bits)
    better = option.legal & ((option.executed_elements < current.executed_elements) | tie)

    def choose(new: PerLayer, old: PerLayer) -> PerLayer:
        return np.where(better, new, old)

    return StoredWeights(
        option.legal | current.legal,
        choose(option.elements, current.elements),
        choose(option.metadata_bits, current.metadata_bits),
        choose(option.column_share, current.column_share),
        choose(option.executed_elements, current.executed_elements),
        choose(option.scale_bits, current.scale_bits),
    )
