"""Networks of the masks that a reader brings.

Convolutions chain through their channels: a pair of channels is connected if any tap of the filter between them is kept, so
that W counts pairs of channels.
"""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.io_theory.layered import layered
from dse.io_theory.network import Network
from dse.networks.layers import LayerRow
from dse.readers.parsed_network import ParsedNetwork, WeightTensor
from dse.sparsity.statistics import nonzero

MOST_CONNECTIONS = 2**26  # of a layer: beyond, a simulation takes hours, and its arrays gigabytes
LAYOUTS = ("channels-last", "channels-first")


def of_source(source: ParsedNetwork, layers: Sequence[str] | None = None, tolerance: float = 0.0, layout: str = LAYOUTS[0]) -> Network:
    """The network of the masks that a reader found, of these layers in this order (default: all); raises InputError.

    A weight is zero if |w| <= `tolerance`. `layout` says how k runs where a convolution is stored as a matrix: channel by
    channel at each point of its kernel, or point by point of each channel.
    """
    state = _only_state(source)
    rows = {row.name: row for row in source.layers}
    chosen = list(layers) if layers else [name for name in rows if name in state]
    _check_names(chosen, state, source.path)
    matrices, notes, before = [], [], None
    problems = ProblemCollector()
    for name in chosen:
        with problems.collect(source.path, key=name):
            matrix, note = _channels(state[name], rows[name], before, tolerance, layout)
            before = matrix.shape[0]
            matrices.append(matrix)
            notes += [f"{name}: {note}"] if note else []
    problems.raise_if_any()
    return layered(matrices, names=chosen, notes=tuple(notes))


def _only_state(source: ParsedNetwork) -> dict[str, WeightTensor]:
    if len(source.states) != 1 or not source.states[0].weights:
        what = f"{len(source.states)} states of a network" if len(source.states) > 1 else "no masks, only sizes and counts"
        raise InputError(what, "give the weights or masks of one state, such as its folder", source.path)
    return source.states[0].weights


def _check_names(chosen: Sequence[str], known: dict[str, WeightTensor], path: Path) -> None:
    problems = [Problem(f"no weights of a layer '{name}'", did_you_mean(name, known), path) for name in chosen if name not in known]
    if twice := sorted({name for name in chosen if chosen.count(name) > 1}):
        problems.append(Problem(f"layer '{twice[0]}' is named twice", "name each once", path))
    if problems:
        raise InputError.from_problems(problems)


def _channels(weights: WeightTensor, row: LayerRow, before: int | None, tolerance: float, layout: str) -> tuple[Any, str]:
    """The matrix between channels [m, channels], and what it stands for if that is no matrix of the file."""
    m, channels, groups = weights.shape[0], weights.shape[1], int(row.groups)
    taps = prod(weights.shape[2:])
    folded = taps == 1 and groups == 1 and before is not None and before < channels and channels % before == 0
    if folded and before:
        channels, taps = before, channels // before
    place = _place_of(layout if folded else "channels-first", channels, taps)
    matrix = _connected(weights, place, (m, channels), tolerance)
    if groups > 1:
        entries = coo_array(matrix)
        shift = entries.row // (m // groups) * channels
        matrix = csr_array((entries.data, (entries.row, entries.col + shift)), shape=(m, groups * channels))
    if taps == 1:
        return matrix, ""
    how = f", its {taps * channels} columns read {layout}" if folded else ""
    return matrix, f"pairs of channels, connected if any of {taps} taps is{how}"


def _place_of(layout: str, channels: int, taps: int) -> np.ndarray:
    """The channel of each column of a convolution's matrix."""
    columns = np.arange(channels * taps)
    return columns % channels if layout == "channels-last" else columns // taps


def _connected(weights: WeightTensor, channel: np.ndarray, shape: tuple[int, int], tolerance: float) -> Any:
    """Where any tap is above the tolerance; the weights themselves where there is one tap."""
    rows, columns, values, start, connections = [], [], [], 0, 0
    for slab in weights.slabs():
        flat = slab.reshape(len(slab), -1)
        kept = nonzero(flat, tolerance, start)
        if (connections := connections + int(kept.sum())) > MOST_CONNECTIONS:
            raise InputError(f"more than {MOST_CONNECTIONS} connections", "give smaller or sparser layers: each connection is simulated")
        r, c = np.nonzero(kept)
        rows.append(r + start)
        columns.append(channel[c])
        values.append(flat[r, c].astype(np.float32))
        start += len(slab)
    matrix = csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    if len(channel) > shape[1]:
        matrix.data[:] = 1.0  # sums over taps mean nothing, and may cancel
    return matrix
