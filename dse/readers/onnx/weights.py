"""Weights of an ONNX graph: traced back to where they are stored, and read from there as [m, k], whichever way they lie."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from onnx import NodeProto

from dse.readers import parsed_network
from dse.readers.onnx import shapes as onnx_shapes
from dse.readers.onnx import storage as onnx_storage
from dse.readers.onnx.attention import name_of
from dse.readers.onnx.file import File
from dse.readers.onnx.shapes import Values
from dse.readers.onnx.storage import Stored, Stretch
from dse.readers.parsed_network import WeightTensor, check_computed_size

Shape = tuple[int, ...]
_SAME = ("Identity", "Cast", "CastLike")
_RESHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")


@dataclass(frozen=True)
class Matrix:
    """A stored tensor as the graph uses it: `shape`, if `flipped` with its last two dimensions stored the other way round.

    `zero` is what a quantised weight holds for 0: one number, or one for each place along the dimension `axis`.
    """

    stored: Stored
    shape: Shape
    origin: str  # the initializer that names the layer
    flipped: bool = False
    zero: np.ndarray | None = None
    axis: int = 0

    @property
    def key(self) -> str:
        """Layers with the same key share one tensor."""
        return self.stored.name

    def transposed(self) -> "Matrix":
        swap = {len(self.shape) - 1: len(self.shape) - 2, len(self.shape) - 2: len(self.shape) - 1}
        shape = (*self.shape[:-2], self.shape[-1], self.shape[-2])
        return replace(self, shape=shape, flipped=not self.flipped, axis=swap.get(self.axis, self.axis))

    def reshaped(self, shape: Shape) -> "Matrix | None":
        """None where the numbers would have to be put in another order, or their zero points be told apart anew."""
        plain = not self.flipped and (self.zero is None or self.zero.size == 1)
        return replace(self, shape=shape) if plain or shape == self.shape else None

    def with_zero(self, zero: np.ndarray, axis: int) -> "Matrix":
        zero = zero.reshape(-1)
        if zero.size == 0 or not zero.astype(np.float32).any():
            return self
        return replace(self, zero=zero[:1] if (zero == zero[0]).all() else zero, axis=axis % max(len(self.shape), 1))


class Tracer:
    """Finds the weight behind a tensor's name."""

    def __init__(self, file: File, values: Values):
        self.file, self.values = file, values
        self.producer = {name: node for node in reversed(file.nodes) for name in node.output if name}  # the first, if two claim it

    def trace(self, name: str) -> Matrix | None:
        """None where an input changes the tensor, or where its size is not known."""
        if name not in self.values.fixed or name not in self.values.shapes:
            return None
        if name in self.file.stored:
            stored = self.file.stored[name]
            return Matrix(stored, stored.shape, name) if stored.dtype != "unknown" else None
        return self._through(self.producer[name], name) or self.evaluated(name)

    def _through(self, node: NodeProto, name: str) -> Matrix | None:
        """The weight behind an operator that only shows it in another way."""
        if node.op_type not in (*_SAME, *_RESHAPES, "Transpose", "DequantizeLinear"):
            return None
        if (matrix := self.trace(node.input[0])) is None or node.op_type in _SAME:
            return matrix
        if node.op_type == "DequantizeLinear":
            return self._dequantized(node, matrix)
        if node.op_type in _RESHAPES:
            return matrix.reshaped(self.values.shapes[name])
        order = next((list(item.ints) for item in node.attribute if item.name == "perm"), list(range(len(matrix.shape)))[::-1])
        rank = len(order)
        return matrix.transposed() if rank > 1 and order == [*range(rank - 2), rank - 1, rank - 2] else None

    def _dequantized(self, node: NodeProto, matrix: Matrix) -> Matrix | None:
        """None where the zero points are of blocks, or are not known before they are computed."""
        given = {item.name: item.i for item in node.attribute}
        if not (name := name_of(node, 2)):
            return matrix
        zero, axis = self.number(name), given.get("axis", 1)
        if zero is None or given.get("block_size") or (zero.size > 1 and matrix.shape[axis : axis + 1 or None] != zero.shape):
            return None
        return matrix.with_zero(zero, axis)

    def number(self, name: str) -> np.ndarray | None:
        """All of a tensor that no input changes, such as a zero point."""
        if name in self.values.numbers:
            return self.values.numbers[name]
        return self.file.stored[name].whole() if name in self.file.stored else None

    def evaluated(self, name: str) -> Matrix:
        """A mask times a weight, a slice of it: evaluated in memory, but only this one, and only while it is read."""
        shape, dtype = self.values.shapes[name], onnx_storage.dtype_name(self.values.types.get(name, 0))
        ancestors = self._ancestors(name)
        held = sum(self.file.stored[tensor].elements for tensor in ancestors)
        stored = onnx_storage.computed(name, shape, dtype, lambda: self._evaluate(name, held, {}), self.file.path)
        return Matrix(stored, shape, max(ancestors, key=lambda tensor: self.file.stored[tensor].elements, default=name))

    def _ancestors(self, name: str) -> list[str]:
        """The initializers from which a tensor is computed."""
        seen, waiting = dict.fromkeys([name]), [name]
        while waiting:
            node = self.producer.get(waiting.pop())
            new = [tensor for tensor in (node.input if node else ()) if tensor and tensor not in seen]
            seen |= dict.fromkeys(new)
            waiting += new
        return [tensor for tensor in seen if tensor in self.file.stored]

    def _evaluate(self, name: str, held: int, evaluated: dict[str, np.ndarray]) -> np.ndarray:
        """A tensor and, in `evaluated`, what it is computed from; `held` numbers of the file go into all of them."""
        if (known := self.number(name)) is not None:
            return known
        if name not in evaluated:
            node = self.producer[name]
            numbers = {item: self._evaluate(item, held, evaluated) for item in node.input if item}
            for output in node.output:
                check_computed_size(prod(self.values.shapes[output]), held)
            evaluated |= onnx_shapes.evaluate(node, numbers, self.values.opsets)
        return evaluated[name]


@dataclass(frozen=True)
class _Layout:
    """How a matrix is read: `blocks` of them, m rows of k numbers each; a row has the shape `row`."""

    blocks: int
    m: int
    row: Shape

    @property
    def k(self) -> int:
        return prod(self.row)


def kernel(matrix: Matrix) -> tuple[WeightTensor, str]:
    """The weights of a convolution, [m, channels of a group, *kernel], and a note if something is left out."""
    return _presented(matrix, _Layout(1, matrix.shape[0], matrix.shape[1:]), 0)


def stacked(matrix: Matrix) -> tuple[WeightTensor, str]:
    """[m, k] of a matrix [..., m, k] whose leading dimensions are stacked, and a note if something is left out."""
    *leading, m, k = matrix.shape
    return _presented(matrix, _Layout(prod(leading), m, (k,)), len(leading))


def _presented(matrix: Matrix, layout: _Layout, channels: int) -> tuple[WeightTensor, str]:
    zero, note = _aligned(matrix, layout, channels), ""
    if zero is None and matrix.zero is not None:
        note = f"'{matrix.origin}': its zero points follow neither its output channels nor its inputs and are taken as 0"
    shape = (layout.blocks * layout.m, *layout.row)
    return WeightTensor(shape, matrix.stored.dtype, lambda: _slabs(matrix, layout, zero)), note


def _aligned(matrix: Matrix, layout: _Layout, channels: int) -> np.ndarray | None:
    """Zero points that broadcast to [m, k]; None where there are none or they do not."""
    zero = matrix.zero
    if zero is None or zero.size == 1:
        return None if zero is None else zero.reshape(1, 1)
    if matrix.axis == channels and (layout.blocks, layout.m) == (1, zero.size):
        return zero[:, None]
    return zero[None, :] if matrix.axis == channels + 1 and layout.row == zero.shape else None


def _slabs(matrix: Matrix, layout: _Layout, zero: np.ndarray | None) -> Iterator[np.ndarray]:
    rows = parsed_network.rows_per_slab(layout.k * matrix.stored.itemsize)
    with matrix.stored.reading() as stretch:
        for block in range(layout.blocks):
            for start in range(0, layout.m, rows):
                stop = min(start + rows, layout.m)
                slab = _rows(stretch, layout, block, start, stop, matrix.flipped)
                if zero is not None:
                    slab = slab.astype(np.int32) - (zero[start:stop] if len(zero) > 1 else zero).astype(np.int32)
                yield slab.reshape(-1, *layout.row)


def _rows(stretch: Stretch, layout: _Layout, block: int, start: int, stop: int, flipped: bool) -> np.ndarray:
    """[stop - start, k]. Where k runs the slow way, a row is gathered from all over the block, piece by piece."""
    first = block * layout.m * layout.k
    if not flipped:
        return stretch(first + start * layout.k, first + stop * layout.k).reshape(-1, layout.k)
    columns = (first + k * layout.m for k in range(layout.k))
    return np.stack([stretch(column + start, column + stop) for column in columns], axis=1)
