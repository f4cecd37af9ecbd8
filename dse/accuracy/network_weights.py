"""The saliencies of a workload's prunable layers, from a file of its dense weights."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dse.accuracy.saliency import SaliencyKind, layer_saliency
from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.base.progress import progress_bar, shows_progress
from dse.readers.parsed_network import WeightTensor
from dse.readers.weight_files import TENSOR_READERS, read_tensors
from dse.trace.detect import ReaderOptions, match_workload, parse_network
from dse.workload.workload import Workload


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
