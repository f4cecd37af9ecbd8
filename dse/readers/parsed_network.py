"""A network as read from a file: its layers, their weights, and what became of each operator of the file.

Weights are read in slabs (consecutive rows), so that a network larger than memory can be counted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Shaped
from scipy.sparse import csr_array

from dse.base.errors import InputError
from dse.networks.architecture import Architecture
from dse.networks.layers import LayerArrays, LayerRow

Shape = tuple[int, ...]
SLAB_BYTES = 32 * 2**20  # of weights in memory at a time
MAX_ROWS = 10**8  # or columns: far beyond any layer, and their counts still fit into memory
MAX_ELEMENTS = 2**33  # four times the largest embedding table of 2025 (128 k tokens by 16 k); more would take minutes to count
MAX_REPEATS = 16  # of each number of a file in a weight that is computed from it
MAX_GENERATED = 2**24  # elements of a computed weight, however few numbers it is computed from


@dataclass(frozen=True)
class WeightTensor:
    """A weight tensor [m, ...]: output channels of all groups by the inputs of one group (a convolution: channels, height, width).

    `slabs()` reads it from the start: consecutive slabs along the first dimension, of any number type (booleans if the file
    only holds a mask). It raises InputError if the file is broken.
    """

    shape: Shape
    dtype: str  # as stored: "fp32", "bf16", "bool" for a mask
    slabs: Callable[[], Iterator[Shaped[np.ndarray, "row ..."]]]
    flat_slabs: Callable[[], Iterator[Shaped[np.ndarray, "flat_row column"]]] | None = None

    def read_matrix(self) -> Iterator[Shaped[np.ndarray, "flat_row column"]]:
        """Slabs of the tensor as a matrix: rows along its last axis, all other axes taken together.

        Where the file allows it (`flat_slabs`), a slab is a part of what one index of the first axis has.
        """
        if self.flat_slabs is not None:
            return self.flat_slabs()
        return (slab.reshape(-1, self.shape[-1]) for slab in self.slabs())


@dataclass(frozen=True)
class NamedTensors:
    """Tensors by their full names, such as "encoder.0.q.weight".

    `shared`: names of one and the same tensor. `ordered`: the tensors are in the order of the modules; otherwise the format
    does not keep an order.
    """

    tensors: Mapping[str, WeightTensor]
    shared: tuple[tuple[str, ...], ...] = ()
    ordered: bool = False


@dataclass(frozen=True)
class NetworkState:
    """The weights of a network at one sparsity, by layer; `sparsity` is nominal, where the file gives one.

    `nonzeros`: counts of layers whose file gives no mask.
    """

    weights: dict[str, WeightTensor]
    nonzeros: dict[str, float] = field(default_factory=dict)
    method: str | None = None
    sparsity: float | None = None


@dataclass(frozen=True)
class Operator:
    """One operator of a file, and what became of it.

    `layer`: a row of the trace. `fused`: free, part of its neighbour (an activation, a bias). `skipped`: not understood; its
    `macs` [multiply-adds per sample] are a lower bound and count against the coverage.
    """

    kind: str
    name: str
    became: Literal["layer", "fused", "skipped"]
    macs: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class ParsedNetwork:
    """A network as read from a file; the layers are in the order in which they run, if the file gives one."""

    path: Path
    format: str
    layers: tuple[LayerRow, ...]
    states: tuple[NetworkState, ...]
    operators: tuple[Operator, ...]
    shared: tuple[tuple[str, ...], ...] = ()  # names of layers that use one tensor
    notes: tuple[str, ...] = ()  # assumptions
    architecture: Architecture | None = None  # if the layers are computed by formula
    parameters: float | None = None  # of the whole file: shared tensors once, with norms and tables, which are not layers


def rows_per_slab(row_bytes: int) -> int:
    """Rows of a tensor to hold in memory at a time: as many as fit into SLAB_BYTES, at least one."""
    return max(1, SLAB_BYTES // max(row_bytes, 1))


def flat_shape(shape: Shape) -> Shape:
    """Rows along the last axis, all other axes taken together."""
    return (prod(shape[:-1]), *shape[-1:])


def array_slabs(array: Shaped[np.ndarray, "row ..."]) -> Iterator[Shaped[np.ndarray, "slab_row ..."]]:
    """Slabs of an array."""
    rows = rows_per_slab(array[:1].nbytes)
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


def csr_slabs(matrix: csr_array, shape: tuple[int, int]) -> Iterator[Shaped[np.ndarray, "row column"]]:
    """Slabs of a sparse matrix, as dense arrays."""
    rows = rows_per_slab(shape[1] * matrix.dtype.itemsize)
    for start in range(0, shape[0], rows):
        yield matrix[start : start + rows].toarray()


def operators_of_layers(rows: Iterable[LayerRow]) -> tuple[Operator, ...]:
    """The operators of a file that consists of layers: each became one."""
    return tuple(Operator(row.kind, row.name, "layer", LayerArrays.from_rows([row]).macs) for row in rows)


def check_weight_size(shape: Shape) -> None:
    """Raise InputError for a weight tensor larger than that of any network.

    A file may claim any size if it does not store every element, as sparse matrices and expanded tensors do.
    """
    rows, columns = shape[0], prod(shape[1:])
    if max(rows, columns) > MAX_ROWS or rows * columns > MAX_ELEMENTS:
        what = f"{rows} x {columns} weights are more than any layer has"
        raise InputError(what, f"give at most {MAX_ROWS} rows and columns and {MAX_ELEMENTS} weights")


def check_computed_size(elements: int, stored: int) -> None:
    """Raise InputError for a weight that is computed (in memory) from far fewer numbers of the file than it has elements."""
    if elements > max(MAX_REPEATS * stored, MAX_GENERATED):
        what = f"{elements} weights are computed from {stored} numbers in the file"
        raise InputError(what, "export the network with its weights as they are used (constants folded)")
