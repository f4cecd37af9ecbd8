"""Count the nonzeros of each layer's input in recorded activations.

A recording is a file of arrays, each named after the layer whose input it holds (a forward hook in any framework writes one).
It shows the zeros behind a ReLU, or scores that softmax puts below the tolerance, which the weights do not.
"""

from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.networks.layers import LayerRow
from dse.readers.parsed_network import WeightTensor
from dse.readers.weight_files import TENSOR_READERS, read_tensors
from dse.sparsity.statistics import nonzero_mask


def count_activations(path: Path, rows: Iterable[LayerRow], tolerance: float) -> dict[str, float]:
    """Share of the elements of each recorded input with |x| > `tolerance`, by layer; raises InputError."""
    layers = {row.name for row in rows}
    problems, densities = ProblemCollector(), {}
    for name, recording in _read_recordings(path).items():
        with problems.collect(path, key=name):
            if name not in layers:
                raise InputError(f"no layer is called '{name}'", did_you_mean(name, layers))
            densities[name] = _density(recording, tolerance)
    problems.raise_if_any()
    return densities


def _read_recordings(path: Path) -> Mapping[str, WeightTensor]:
    if not path.is_file() or path.suffix.lower() not in TENSOR_READERS:
        raise InputError("not a recording of activations", f"give a file of arrays that ends in {', '.join(TENSOR_READERS)}", path)
    return read_tensors(path).tensors


def _density(recording: WeightTensor, tolerance: float) -> float:
    elements = prod(recording.shape)
    if not recording.shape or not elements:
        raise InputError("the array is empty", "record at least one sample")
    return sum(int(nonzero_mask(slab.reshape(len(slab), -1), tolerance).sum()) for slab in recording.slabs()) / elements
