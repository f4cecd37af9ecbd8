"""The saliency of each weight of a layer: how much the network is assumed to lose when that weight is pruned.

l1             |w|
l2             w^2
second_order   w^2 h, where h is the diagonal of a Hessian: given for each weight, or estimated as the mean square of the layer's input
               x_j (the diagonal of x x^T; LeCun et al. 1990; with its square root, |w| |x_j| is the score of Wanda, arXiv 2306.11695)

Rows are output channels. The columns of a convolution run over the points of its kernel, then over channels (as vendors prune it).
"""

from collections.abc import Iterator
from math import prod
from typing import Literal

import numpy as np
from jaxtyping import Float, Shaped

from dse.base.errors import InputError
from dse.readers.parsed_network import WeightTensor

SaliencyKind = Literal["l1", "l2", "second_order"]
Saliency = Float[np.ndarray, "m k"]


def layer_saliency(weights: WeightTensor, kind: SaliencyKind, curvature: WeightTensor | None = None) -> Saliency:
    """The saliency of each weight of a layer, [m, k] in fp32; `curvature` is needed for `second_order`.

    Raises InputError for weights that are not finite, and for a curvature that is negative or does not fit.
    """
    saliency = np.empty((weights.shape[0], prod(weights.shape[1:])), np.float32)
    start = 0
    for slab in matrix_slabs(weights):
        saliency[start : start + len(slab)] = _slab_saliency(slab, kind)
        start += len(slab)
    if kind == "second_order":
        assert curvature is not None
        saliency *= matrix_curvature(curvature, weights.shape)
    return saliency


def matrix_slabs(weights: WeightTensor) -> Iterator[Shaped[np.ndarray, "row k"]]:
    """Slabs of the weights as rows of the matrix [m, k]."""
    for slab in weights.slabs():
        ordered = np.moveaxis(slab, 1, -1) if slab.ndim > 2 else slab
        yield ordered.reshape(len(slab), -1)


def _slab_saliency(slab: Shaped[np.ndarray, "row k"], kind: SaliencyKind) -> Float[np.ndarray, "row k"]:
    weights = np.asarray(slab, np.float32)
    if not np.isfinite(weights).all():
        raise InputError(f"{np.count_nonzero(~np.isfinite(weights))} weights are NaN or infinite", "export the network again")
    return np.abs(weights) if kind == "l1" else np.square(weights)


def matrix_curvature(curvature: WeightTensor, weight_shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """A Hessian diagonal of the shape of the weights as [m, k], or the mean squares of recorded inputs as [k].

    Recorded inputs are [sample, ..., k] of a matrix and [sample, channel, ...] of a convolution.
    """
    if curvature.shape == weight_shape:
        values = np.concatenate([np.asarray(slab, np.float32) for slab in matrix_slabs(curvature)])
        _check_curvature(values)
        return values
    channels, is_kernel = weight_shape[1], len(weight_shape) > 2
    axis = 1 if is_kernel else len(curvature.shape) - 1
    if len(curvature.shape) < 2 or curvature.shape[axis] != channels:
        what = f"an array of {_format(curvature.shape)} fits no weights of {_format(weight_shape)}"
        raise InputError(what, f"give one value per weight, or inputs with {channels} channels")
    squares, count = np.zeros(channels), 0
    for slab in curvature.slabs():
        rows = np.moveaxis(np.asarray(slab, np.float64), axis, -1).reshape(-1, channels)
        squares, count = squares + np.square(rows).sum(axis=0), count + len(rows)
    mean = squares / max(count, 1)
    _check_curvature(mean)
    return np.tile(mean, prod(weight_shape[2:])).astype(np.float32)


def _check_curvature(values: Float[np.ndarray, "..."]) -> None:
    if not np.isfinite(values).all() or values.min(initial=0) < 0:
        raise InputError("a second derivative is negative, NaN or infinite", "give the diagonal of a positive semidefinite matrix")


def _format(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
