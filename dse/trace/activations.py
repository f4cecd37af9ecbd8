"""Count recorded inputs of layers: a file of arrays, each named after the layer whose input it holds.

A forward hook in any framework writes one. It shows the zeros behind a ReLU, or scores that softmax puts below the tolerance, which the
weights do not. An array is [..., token, channel], that of a convolution [sample, channel, height, width]: its tokens are pixels.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path

import numpy as np
from jaxtyping import Shaped
from tqdm import tqdm

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.networks.layers import WITH_WEIGHTS, LayerRow
from dse.readers.parsed_network import Shape, WeightTensor
from dse.readers.weight_files import TENSOR_READERS, read_tensors
from dse.sparsity.activation_statistics import ActivationStatistics, count_activations


def count_recordings(
    path: Path, rows: Iterable[LayerRow], groups: Iterable[int], tolerance: float, progress: bool = False
) -> dict[str, ActivationStatistics]:
    """Statistics of each recorded input, by layer; raises InputError with the problems of all arrays.

    `groups`: the M of the N:M patterns that are counted along channels.
    """
    by_name, sizes = {row.name: row for row in rows}, tuple(groups)
    problems, counted = ProblemCollector(), {}
    recordings = _read_recordings(path)
    for name, recording in tqdm(recordings.items(), desc="counting activations", unit="layer", disable=None if progress else True):
        with problems.collect(path, key=name):
            if name not in by_name:
                raise InputError(f"no layer is called '{name}'", did_you_mean(name, by_name))
            counted[name] = count_activations(_token_slabs(recording, by_name[name]), sizes, tolerance)
    problems.raise_if_any()
    return counted


def _read_recordings(path: Path) -> Mapping[str, WeightTensor]:
    if not path.is_file() or path.suffix.lower() not in TENSOR_READERS:
        raise InputError("not a recording of activations", f"give a file of arrays that ends in {', '.join(TENSOR_READERS)}", path)
    return read_tensors(path).tensors


def _token_slabs(recording: WeightTensor, row: LayerRow) -> Iterator[Shaped[np.ndarray, "token channel"]]:
    """Slabs of a recording as tokens by channels; raises InputError if its shape is not that of the input of the layer."""
    is_image = row.kind == "conv" and len(recording.shape) > 2
    if 0 in (len(recording.shape), prod(recording.shape)):
        raise InputError("the array is empty", "record at least one token")
    channels = recording.shape[1 if is_image else -1]
    _check_channels(recording.shape, channels, row)
    if not is_image:
        return recording.read_matrix()
    return (np.moveaxis(slab, 1, -1).reshape(-1, channels) for slab in recording.slabs())


def _check_channels(shape: Shape, channels: int, row: LayerRow) -> None:
    """Raise InputError if a layer cannot have so many input channels."""
    if row.kind not in WITH_WEIGHTS:
        return
    inputs, text = (row.k or 0) * row.groups, "x".join(map(str, shape))
    if row.kind == "gemm" and channels != inputs:
        fix = f"record the input [..., token, channel], with {inputs:g} channels last"
        raise InputError(f"the array is {text}, but the layer has {inputs:g} input channels", fix)
    if row.kind == "conv" and inputs % channels:
        fix = "record the input [sample, channel, height, width], as PyTorch has it"
        raise InputError(f"the array is {text}, and {channels} channels do not divide the {inputs:g} inputs of the layer's filters", fix)
