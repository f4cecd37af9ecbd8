"""The saliency of each weight of a network: how much the network is assumed to lose when that weight is pruned.

l1             |w|
l2             w^2
second_order   w^2 h, where h is the diagonal of a Hessian: given for each weight, or estimated as the mean square of the layer's input
               x_j (the diagonal of x x^T; LeCun et al. 1990; with its square root, |w| |x_j| is the score of Wanda, arXiv 2306.11695)

Rows are output channels. The columns of a convolution run over the points of its kernel, then over channels (as vendors prune it).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, Shaped

from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.base.progress import progress_bar, shows_progress
from dse.readers.parsed_network import WeightTensor
from dse.readers.weight_files import TENSOR_READERS, read_tensors
from dse.trace.detect import ReaderOptions, match_workload, parse_network
from dse.workload.workload import Workload

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


@dataclass(frozen=True)
class NetworkWeights:
    """The weights of each prunable layer, and what its saliency is computed from.

    `counts`: weights that a layer counts for, copies included.
    """

    path: Path
    weights: Mapping[str, WeightTensor]
    counts: Mapping[str, float]
    kind: SaliencyKind
    curvatures: Mapping[str, WeightTensor]

    def saliencies(self) -> Iterator[tuple[float, Float[np.ndarray, "m k"]]]:
        """The number of weights and the saliency of each layer, one after the other; raises InputError with every broken layer."""
        problems = ProblemCollector()
        with progress_bar("pruning", len(self.weights), shows_progress()) as update:
            for name, weights in self.weights.items():
                with problems.collect(self.path, key=name):
                    yield self.counts[name], layer_saliency(weights, self.kind, self.curvatures.get(name))
                update(1)
        problems.raise_if_any()


def read_network_weights(workload: Workload, path: Path, kind: SaliencyKind = "l1", curvature: Path | None = None) -> NetworkWeights:
    """The weights of all prunable layers of a workload; `curvature` is a file of Hessian diagonals or recorded inputs by layer.

    Raises InputError with every missing or misshaped layer.
    """
    problems = ProblemCollector()
    weights: dict[str, WeightTensor] = {}
    curvatures: Mapping[str, WeightTensor] = {}
    with problems.collect(path):
        weights = _dense_weights(workload, path)
        _check_complete(workload, weights, path)
    with problems.collect(curvature):
        curvatures = _read_curvatures(workload, kind, curvature)
    problems.raise_if_any()
    counts = dict(zip(workload.layers.name, workload.layers.weights * workload.layers.copies, strict=True))
    prunable = {name: weights[name] for name in prunable_layers(workload)}
    return NetworkWeights(path, prunable, counts, kind, curvatures)


def prunable_layers(workload: Workload) -> list[str]:
    """Names of the layers that pruning may change."""
    return [name for name, prunable in zip(workload.layers.name, workload.layers.prunable, strict=True) if prunable]


def _dense_weights(workload: Workload, path: Path) -> dict[str, WeightTensor]:
    if not path.exists():
        raise InputError("no such file", "give a file or folder of the dense weights", path)
    network = match_workload(workload, parse_network(path, ReaderOptions()))
    if len(network.states) != 1:
        raise InputError(f"{len(network.states)} states of the network are in it", "give the dense network alone", path)
    return network.states[0].weights


def _check_complete(workload: Workload, weights: Mapping[str, WeightTensor], path: Path) -> None:
    """Raise InputError with every prunable layer that has no weights."""
    fix = f"give the whole network, with tensors named after the layers of '{workload.name}'"
    missing = [name for name in prunable_layers(workload) if name not in weights]
    if missing:
        raise InputError.from_problems(Problem("the weights of this layer are missing", fix, path, key=name) for name in missing)


def _read_curvatures(workload: Workload, kind: SaliencyKind, path: Path | None) -> Mapping[str, WeightTensor]:
    """The arrays of a file by layer; raises InputError unless there is one for each prunable layer, or if none is needed."""
    if (kind == "second_order") != (path is not None):
        raise InputError("second-order saliency and its curvatures go together", "give both --saliency second_order and --curvature FILE")
    if path is None:
        return {}
    if not path.is_file() or path.suffix.lower() not in TENSOR_READERS:
        raise InputError("not a file of arrays", f"give a file that ends in {', '.join(TENSOR_READERS)}", path)
    tensors, names = read_tensors(path).tensors, prunable_layers(workload)
    named = {name.removesuffix(".weight"): tensor for name, tensor in tensors.items()}
    problems = [Problem("no array for this layer", did_you_mean(name, named), path, key=name) for name in names if name not in named]
    if problems:
        raise InputError.from_problems(problems)
    return named
