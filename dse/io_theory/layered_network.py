"""Networks of layers in sequence, from weight matrices or from the masks in a file of a pruned network.

Convolutions are connected channel by channel: two channels are connected if any tap of the filter between them is nonzero, so
that W counts pairs of channels.
"""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array, sparray

from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.io_theory.network import Network, build_network
from dse.networks.layers import LayerRow
from dse.readers.parsed_network import ParsedNetwork, WeightTensor
from dse.sparsity.statistics import nonzero_mask

MAX_LAYER_CONNECTIONS = 2**26  # beyond this, a simulation takes hours and gigabytes
LAYOUTS = ("channels-last", "channels-first")


def network_from_matrices(
    matrices: Sequence[ArrayLike | sparray],
    biases: Sequence[ArrayLike] | None = None,
    names: Sequence[str] | None = None,
    relu: bool = True,
    notes: tuple[str, ...] = (),
) -> Network:
    """Build a network from weight matrices [m, k] of consecutive layers, NumPy or scipy.sparse arrays.

    Zeros are not connections. Biases [m] are zero by default; either way, they count as values. ReLU follows every layer but
    the last one. Raises InputError if the m of a layer differs from the k of the next.
    """
    layers: list[Any] = [coo_array(csr_array(matrix)) for matrix in matrices]
    names = names or [f"layer{number}" for number in range(1, len(layers) + 1)]
    _check_consecutive(layers, names)
    sizes = [layers[0].shape[1], *(layer.shape[0] for layer in layers)]
    first_neuron = np.concatenate([[0], np.cumsum(sizes)])  # of each layer, the input first
    neuron_names = [f"{name}:{n}" for name, size in zip(("input", *names), sizes, strict=True) for n in range(size)]
    source = np.concatenate([layer.col + first_neuron[number] for number, layer in enumerate(layers)])
    target = np.concatenate([layer.row + first_neuron[number + 1] for number, layer in enumerate(layers)])
    weight = np.concatenate([layer.data for layer in layers]).astype(np.float32)
    bias = None if biases is None else np.concatenate([np.zeros(sizes[0]), *map(np.asarray, biases)])
    neurons = np.arange(first_neuron[-1])
    is_input, is_output = neurons < first_neuron[1], neurons >= first_neuron[-2]
    return build_network(source, target, neuron_names, weight, bias, is_input, is_output, relu, notes)


def _check_consecutive(layers: Sequence[Any], names: Sequence[str]) -> None:
    fix = "name layers that follow one another, with --layers"
    problems = [
        Problem(f"layer '{names[n]}' takes {layers[n].shape[1]} values, and '{names[n - 1]}' before it gives {layers[n - 1].shape[0]}", fix)
        for n in range(1, len(layers))
        if layers[n].shape[1] != layers[n - 1].shape[0]
    ]
    if problems:
        raise InputError.from_problems(problems)


def network_from_masks(
    parsed: ParsedNetwork, layers: Sequence[str] | None = None, tolerance: float = 0.0, layout: str = LAYOUTS[0]
) -> Network:
    """Build a network from the masks of a parsed network; `layers`: names of the layers in their order (default: all).

    A weight is zero if |w| <= `tolerance`. `layout` is the order of k where a convolution is stored as a matrix: "channels-last"
    (all channels of one kernel position, then the next position) or "channels-first" (all positions of one channel, then the
    next channel). Raises InputError if a layer is unknown, or if `parsed` does not hold the weights of exactly one network.
    """
    weights = _only_weights(parsed)
    rows = {row.name: row for row in parsed.layers}
    chosen = list(layers) if layers else [name for name in rows if name in weights]
    _check_layer_names(chosen, weights, parsed.path)
    matrices, notes, previous_channels = [], [], None
    problems = ProblemCollector()
    for name in chosen:
        with problems.collect(parsed.path, key=name):
            matrix, note = _channel_matrix(weights[name], rows[name], previous_channels, tolerance, layout)
            previous_channels = matrix.shape[0]
            matrices.append(matrix)
            notes += [f"{name}: {note}"] if note else []
    problems.raise_if_any()
    return network_from_matrices(matrices, names=chosen, notes=tuple(notes))


def _only_weights(parsed: ParsedNetwork) -> dict[str, WeightTensor]:
    if len(parsed.states) != 1 or not parsed.states[0].weights:
        problem = f"{len(parsed.states)} states of a network" if len(parsed.states) > 1 else "no masks, only sizes and counts"
        raise InputError(problem, "give the weights or masks of one state, such as its folder", parsed.path)
    return parsed.states[0].weights


def _check_layer_names(chosen: Sequence[str], weights: dict[str, WeightTensor], path: Path) -> None:
    problems = [Problem(f"no weights of a layer '{name}'", did_you_mean(name, weights), path) for name in chosen if name not in weights]
    if duplicates := sorted({name for name in chosen if chosen.count(name) > 1}):
        problems.append(Problem(f"layer '{duplicates[0]}' is named twice", "name each layer once", path))
    if problems:
        raise InputError.from_problems(problems)


def _channel_matrix(weights: WeightTensor, row: LayerRow, previous_channels: int | None, tolerance: float, layout: str) -> tuple[Any, str]:
    """The matrix [output channels, input channels] of a layer, and a note if it is not the weight matrix itself."""
    m, channels, groups = weights.shape[0], weights.shape[1], int(row.groups)
    taps = prod(weights.shape[2:])
    # A matrix with several columns for each channel of the layer before it is a convolution whose kernel was flattened.
    columns_per_channel, rest = divmod(channels, previous_channels or channels)
    flattened = taps == 1 and groups == 1 and columns_per_channel > 1 and rest == 0
    if flattened:
        channels, taps = channels // columns_per_channel, columns_per_channel
    column_channel = _channel_of_columns(layout if flattened else "channels-first", channels, taps)
    matrix = _nonzero_matrix(weights, column_channel, (m, channels), tolerance)
    if groups > 1:
        entries = coo_array(matrix)
        shift = entries.row // (m // groups) * channels
        matrix = csr_array((entries.data, (entries.row, entries.col + shift)), shape=(m, groups * channels))
    if taps == 1:
        return matrix, ""
    columns = f"; its {taps * channels} columns are read {layout}" if flattened else ""
    return matrix, f"pairs of channels, connected if any of {taps} taps is nonzero{columns}"


def _channel_of_columns(layout: str, channels: int, taps: int) -> Int[np.ndarray, "column"]:
    """Input channel of each column of a flattened convolution."""
    columns = np.arange(channels * taps)
    return columns % channels if layout == "channels-last" else columns // taps


def _nonzero_matrix(weights: WeightTensor, column_channel: Int[np.ndarray, "column"], shape: tuple[int, int], tolerance: float) -> Any:
    """A sparse matrix of the weights above the tolerance; its values are all 1 where a channel has several taps."""
    rows, columns, values, first_row, connections = [], [], [], 0, 0
    for slab in weights.slabs():
        flat = slab.reshape(len(slab), -1)
        mask = nonzero_mask(flat, tolerance, first_row)
        if (connections := connections + int(mask.sum())) > MAX_LAYER_CONNECTIONS:
            fix = "give smaller or sparser layers: each connection is simulated"
            raise InputError(f"more than {MAX_LAYER_CONNECTIONS} connections", fix)
        r, c = np.nonzero(mask)
        rows.append(r + first_row)
        columns.append(column_channel[c])
        values.append(flat[r, c].astype(np.float32))
        first_row += len(slab)
    matrix = csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    if len(column_channel) > shape[1]:
        matrix.data[:] = 1.0  # csr_array sums duplicates: a sum over taps has no meaning and may cancel to zero
    return matrix
