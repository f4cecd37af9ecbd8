"""The share of its inputs that a layer has to read: an input that meets no nonzero weight is not needed.

In C[m, n] = A[m, k] B[k, n], row j of B is needed if column j of A has a nonzero: counted from the masks if these are known, otherwise
expected over random masks of the variant's pattern (`dse.sparsity.columns`). An element of a convolution's input appears in one row of
the unrolled B for each kernel offset that reaches it, and is needed if any of these rows is. A dense execution reads all rows, after
compaction.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dse.model.executions import Execution
from dse.networks.layers import LayerArrays, LayerMask, PerLayer
from dse.schema.model_options import ModelOptions
from dse.sparsity.columns import columns_kept_together, needed_share
from dse.sparsity.kinds import Structured
from dse.workload import Variant


class NeededShare(NamedTuple):
    """Shares of the inputs [1]: no schedule reads less than `lower`, and reading `upper` is enough. Equal except for convolutions."""

    lower: PerLayer
    upper: PerLayer


def needed_input_share(layers: LayerArrays, variant: Variant, execution: Execution, options: ModelOptions) -> NeededShare:
    """Shares of the inputs that one instance of each layer has to read."""
    ones = np.ones(len(layers))
    if not skips_empty_columns(variant, execution, options):
        return NeededShare(ones, ones)
    pruned = variant.is_pruned
    share = _expected_share(layers, variant, options)
    if variant.touched_columns is not None:
        share = _counted_share(layers, variant, options, variant.touched_columns, share)
    return NeededShare(*(np.where(pruned, limit, 1.0) for limit in share))


def skips_empty_columns(variant: Variant, execution: Execution, options: ModelOptions) -> bool:
    """Whether an execution skips columns of A without nonzeros: sparse runs do unless the options count all inputs; a dense run does
    if compaction leaves a smaller matrix."""
    return options.inputs == "needed" if execution.is_sparse else isinstance(variant.pattern, Structured)


def _is_implicit_convolution(layers: LayerArrays, options: ModelOptions) -> LayerMask:
    return (layers.kind == "conv") & (options.activations == "implicit")


def _expected_share(layers: LayerArrays, variant: Variant, options: ModelOptions) -> NeededShare:
    rows, density = layers.m / layers.groups, np.clip(variant.density, 0.0, 1.0)

    def expected(uses: PerLayer) -> PerLayer:
        return needed_share(variant.pattern, rows, layers.k, density, uses)

    used_once = expected(np.ones(len(layers)))
    of_convolution = _convolution_share(variant.layers, expected, columns_kept_together(variant.pattern))
    return NeededShare(*(np.where(_is_implicit_convolution(layers, options), limit, used_once) for limit in of_convolution))


def _counted_share(
    layers: LayerArrays, variant: Variant, options: ModelOptions, touched_columns: PerLayer, expected: NeededShare
) -> NeededShare:
    """The share of columns with a nonzero, as counted; the expected share where it was not counted.

    The nonzero columns of a convolution may be offsets of few channels (lower), or each of another channel (upper).
    """
    uses = np.where(_is_implicit_convolution(layers, options), input_uses(variant.layers)[0], 1.0)
    counted = np.isfinite(touched_columns) & (layers.groups == 1)
    upper = np.minimum(touched_columns * np.maximum(uses, 1.0), 1.0)
    return NeededShare(np.where(counted, touched_columns, expected.lower), np.where(counted, upper, expected.upper))


def _convolution_share(layers: LayerArrays, expected: Callable[[PerLayer], PerLayer], columns_together: int) -> NeededShare:
    """Share of a convolution's input elements that is needed, from `expected`: the share for elements with a given number of uses.

    `expected` is concave in the number of uses. So the mean over elements is at most the share at the mean number of uses (upper), and at
    least the chord between the shares at one use and at the maximum number of uses (lower). Neighbouring columns that are kept together
    may be offsets of one channel (channels-first); then fewer choices are independent, which only decreases `lower`.
    """
    uses, max_uses_per_side = input_uses(layers)
    mean_uses, max_uses = np.maximum(uses, 1.0), max_uses_per_side**2
    at_one, at_max = (expected(np.maximum(number / columns_together, 1.0)) for number in (np.ones(len(layers)), max_uses))
    position = np.clip((_uses_without_padding(uses, layers.n) - 1) / np.maximum(max_uses - 1, 1e-9), 0.0, 1.0)
    return NeededShare(at_one + np.where(max_uses > 1, position, 0.0) * (at_max - at_one), expected(mean_uses))


def _uses_without_padding(uses: PerLayer, outputs: PerLayer) -> PerLayer:
    """Mean uses of an input element without those that fall on padding, for any padding up to one that keeps the size.

    Along one side, there are R / stride uses on average; padding takes at most R / stride (R / stride + 2) / 4 of all outputs' uses.
    """
    root = np.sqrt(uses)
    return np.maximum(root - root * (root + 2) / (4 * np.sqrt(outputs)), 1.0) ** 2


def input_uses(layers: LayerArrays) -> tuple[PerLayer, PerLayer]:
    """Mean number of uses of a convolution's input element by one filter, and the square root of the maximum number.

    The mean is R^2 / stride^2 = k n groups / inputs, minus what is missing at the edges (nothing with padding that keeps the size).
    """
    conv = layers.kind == "conv"
    uses = np.where(conv, layers.k * layers.n * layers.groups / np.maximum(layers.input_elements, 1.0), 1.0)
    root, side = np.sqrt(uses), np.sqrt(layers.n)
    unpadded = np.where(root < side, root * (side - 1) / np.maximum(side - root, 1e-9), np.inf)
    keeps_size = np.abs(root - np.round(root)) < 1e-9
    max_root = np.where(keeps_size, np.round(root), np.ceil(np.minimum(unpadded, side) - 1e-9))
    return uses, np.where(conv, np.maximum(max_root, 1.0), 1.0)
