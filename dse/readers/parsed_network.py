"""What every reader gives: the layers of a network, their weights in pieces small enough to hold, and what was not understood."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dse.base.errors import InputError
from dse.networks.architecture import Architecture
from dse.networks.layers import LayerArrays, LayerRow

SLAB_BYTES = 32 * 2**20  # of weights held at a time
MOST_ROWS = 10**8  # or columns: far beyond any layer, and its counts still fit into memory
MOST_ELEMENTS = 2**33  # four times the largest embedding table of 2025 (128 k tokens by 16 k); more would be counted for minutes


def check_sizes(shape: tuple[int, ...]) -> None:
    """Raise InputError for a weight tensor larger than any network has.

    A file may claim any size where it does not store every element: sparse matrices, expanded tensors.
    """
    rows, columns = shape[0], prod(shape[1:])
    if max(rows, columns) > MOST_ROWS or rows * columns > MOST_ELEMENTS:
        what = f"{rows} x {columns} weights are more than any layer has"
        raise InputError(what, f"give at most {MOST_ROWS} rows and columns and {MOST_ELEMENTS} weights")


def check_computed(elements: int, stored: int) -> None:
    """Raise InputError for a weight that a file makes of far fewer numbers than it then has: it is computed in memory."""
    if elements > max(MOST_REPEATED * stored, MOST_GENERATED):
        what = f"{elements} weights are made of {stored} numbers in the file"
        raise InputError(what, "export the network with its weights as they are used (constants folded)")


MOST_REPEATED = 16  # times that each number of a file may be repeated in a computed weight
MOST_GENERATED = 2**24  # elements of a computed weight, however few numbers it is made of


@dataclass(frozen=True)
class WeightTensor:
    """A weight tensor [m, ...]: output channels of all groups by one group's inputs (a convolution: channels, height, width).

    `slabs()` reads it from the start, consecutive pieces along the first dimension, whatever the number type: values, or
    booleans where the file holds only a mask. It raises InputError where the file is broken.
    """

    shape: tuple[int, ...]
    dtype: str  # as stored: "fp32", "bf16", "bool" for a mask
    slabs: Callable[[], Iterator[np.ndarray]]


@dataclass(frozen=True)
class NamedTensors:
    """Tensors by their full names ("encoder.0.q.weight"); `shared`: names of one and the same tensor; `ordered`: the file
    keeps them in the order in which they were put there, which is that of the modules."""

    weights: Mapping[str, WeightTensor]
    shared: tuple[tuple[str, ...], ...] = ()
    ordered: bool = False


@dataclass(frozen=True)
class NetworkState:
    """One pruned state of the network: the weights of its layers by name. `sparsity` is nominal, where the source has one.

    `nonzeros`: of layers whose source counts them without saying where they are.
    """

    weights: dict[str, WeightTensor]
    nonzeros: dict[str, float] = field(default_factory=dict)
    method: str | None = None
    sparsity: float | None = None


@dataclass(frozen=True)
class Operator:
    """One operator of the source and what became of it.

    `layer`: a row of the trace. `fused`: counted as free, part of its neighbour (an activation, a bias). `skipped`: not
    understood; its `macs` are what can be said at least, and count against the coverage.
    """

    kind: str
    name: str
    became: Literal["layer", "fused", "skipped"]
    macs: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class ParsedNetwork:
    """A network as a file tells it; layers in the order in which they run, where the file knows it."""

    path: Path
    format: str
    layers: tuple[LayerRow, ...]
    states: tuple[NetworkState, ...]
    operators: tuple[Operator, ...]
    shared: tuple[tuple[str, ...], ...] = ()  # names of layers that use one tensor
    notes: tuple[str, ...] = ()  # what had to be assumed
    network: Architecture | None = None  # where formulas make the layers
    parameters: float | None = None  # of the file, shared ones once, those of no layer (norms, tables) too


def slabs_of(array: np.ndarray) -> Iterator[np.ndarray]:
    """Pieces of an array along its first dimension, each of at most SLAB_BYTES (or one row)."""
    rows = max(1, SLAB_BYTES // max(array[:1].nbytes, 1))
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


def rows_of(matrix: Any) -> Iterator[np.ndarray]:
    """Pieces of a matrix in compressed sparse rows, written out."""
    height = max(1, SLAB_BYTES // max(matrix.shape[1] * matrix.dtype.itemsize, 1))
    for start in range(0, matrix.shape[0], height):
        yield matrix[start : start + height].toarray()


def understood(rows: Iterable[LayerRow]) -> tuple[Operator, ...]:
    """Operators of a source that is made of layers, so that each became one."""
    return tuple(Operator(row.kind, row.name, "layer", LayerArrays.from_rows([row]).macs) for row in rows)
