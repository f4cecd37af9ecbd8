"""Which share of its inputs a layer has to read: an input that meets no kept weight is never needed.

Row j of B is needed if column j of A has a nonzero: as counted from the masks, else as expected of random masks of the variant's
pattern (`dse.sparsity.columns`). An element of a convolution's input stands in one row of the unrolled B for each offset of the
kernel that reaches it, and is needed if any of those rows is. A dense execution reads all rows, of what compaction leaves.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dse.model.peak import Execution
from dse.networks.layers import LayerArrays
from dse.schema.model_options import ModelOptions
from dse.sparsity.columns import columns_kept_together, needed_share
from dse.sparsity.kinds import Structured
from dse.workload import Variant

PerLayer = Float[np.ndarray, "layer"]


class Needed(NamedTuple):
    """Shares of the inputs [1]: no schedule reads fewer than `least`; reading `most` of them is enough. Equal but for convolutions."""

    least: PerLayer
    most: PerLayer


def needed(layers: LayerArrays, variant: Variant, execution: Execution, options: ModelOptions) -> Needed:
    """Shares of the inputs that one instance of each layer reads."""
    ones = np.ones(len(layers))
    if not skips_columns(variant, execution, options):
        return Needed(ones, ones)
    pruned, convolved = layers.has_weights & (variant.density < 1), (layers.kind == "conv") & (options.activations == "implicit")
    rows, density = layers.m / layers.groups, np.clip(variant.density, 0.0, 1.0)

    def expected(uses: PerLayer) -> PerLayer:
        return needed_share(variant.pattern, rows, layers.k, density, uses)

    once = expected(ones)
    expectation = _of_elements(variant.layers, expected, columns_kept_together(variant.pattern))
    shares = Needed(*(np.where(convolved, part, once) for part in expectation))
    if variant.touched_columns is not None:
        counted, uses = variant.touched_columns, np.where(convolved, input_uses(variant.layers)[0], 1.0)
        known = np.isfinite(counted) & (layers.groups == 1)
        clustered, spread = counted, np.minimum(counted * np.maximum(uses, 1.0), 1.0)  # in few channels, or one in each
        shares = Needed(np.where(known, clustered, shares.least), np.where(known, spread, shares.most))
    return Needed(*(np.where(pruned, share, 1.0) for share in shares))


def skips_columns(variant: Variant, execution: Execution, options: ModelOptions) -> bool:
    """Whether columns of A without nonzeros are left out: by every sparse run, unless all inputs are to be counted, and where
    compaction leaves a smaller matrix."""
    return options.inputs == "needed" if execution.sparse else isinstance(variant.pattern, Structured)


def _of_elements(layers: LayerArrays, expected: Callable[[PerLayer], PerLayer], joint: int) -> Needed:
    """Shares of a convolution's input elements, from those of rows of B that are used together.

    The chance that an element is needed is a concave function of its uses. So the mean over elements is at most that of the mean
    number of uses, and at least that on the chord from one use to the most. Neighbouring columns of a pattern that chooses several
    together may be offsets of one channel (channels-first), then fewer choices are independent: that lowers `least` only.
    """
    uses, reach = input_uses(layers)
    mean, most = np.maximum(uses, 1.0), reach**2
    ends = [expected(np.maximum(number / joint, 1.0)) for number in (np.ones(len(layers)), most)]
    inside = np.clip((_unpadded_uses(uses, layers.n) - 1) / np.maximum(most - 1, 1e-9), 0.0, 1.0)
    return Needed(ends[0] + np.where(most > 1, inside, 0.0) * (ends[1] - ends[0]), expected(mean))


def _unpadded_uses(uses: PerLayer, outputs: PerLayer) -> PerLayer:
    """Mean uses of an input element without those that fall on padding, for padding up to that which keeps the size.

    Along one side, R / stride uses on average, of which the padding takes at most R / stride (R / stride + 2) / 4 for all of its outputs.
    """
    root = np.sqrt(uses)
    return np.maximum(root - root * (root + 2) / (4 * np.sqrt(outputs)), 1.0) ** 2


def input_uses(layers: LayerArrays) -> tuple[PerLayer, PerLayer]:
    """Uses of an input element of a convolution by one filter, on average, and the root of the most of one sample.

    On average R^2 / stride^2 = k n groups / inputs, less what the edges lack: none with padding that keeps the size.
    """
    conv = layers.kind == "conv"
    uses = np.where(conv, layers.k * layers.n * layers.groups / np.maximum(layers.input_elements, 1.0), 1.0)
    root, side = np.sqrt(uses), np.sqrt(layers.n)
    inside = np.where(root < side, root * (side - 1) / np.maximum(side - root, 1e-9), np.inf)  # were it not padded
    kept = np.abs(root - np.round(root)) < 1e-9
    most = np.where(kept, np.round(root), np.ceil(np.minimum(inside, side) - 1e-9))
    return uses, np.where(conv, np.maximum(most, 1.0), 1.0)
