"""Weights of an ONNX graph: traced through constant operators to a stored tensor, and read from there as [m, k]."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from jaxtyping import Shaped
from onnx import NodeProto

from dse.readers.onnx import shapes
from dse.readers.onnx.attention import input_name
from dse.readers.onnx.file import OnnxFile
from dse.readers.onnx.shapes import TensorInfo
from dse.readers.onnx.storage import UNKNOWN_DTYPE, ReadRange, StoredTensor, computed_tensor, dtype_name
from dse.readers.parsed_network import Shape, WeightTensor, check_computed_size, rows_per_slab

_COPIES = ("Identity", "Cast", "CastLike")
_RESHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")


@dataclass(frozen=True)
class WeightMatrix:
    """A stored tensor as the graph uses it: with the shape `shape`, its last two dimensions stored swapped if `transposed`.

    `zero_point`: what a quantised weight stores for 0, as one number or one for each index of the dimension `axis`.
    """

    stored: StoredTensor
    shape: Shape
    origin: str  # the initializer that names the layer
    transposed: bool = False
    zero_point: np.ndarray | None = None
    axis: int = 0

    @property
    def key(self) -> str:
        """Layers with the same key share one tensor."""
        return self.stored.name

    def transpose(self) -> "WeightMatrix":
        swap = {len(self.shape) - 1: len(self.shape) - 2, len(self.shape) - 2: len(self.shape) - 1}
        shape = (*self.shape[:-2], self.shape[-1], self.shape[-2])
        return replace(self, shape=shape, transposed=not self.transposed, axis=swap.get(self.axis, self.axis))

    def reshape(self, shape: Shape) -> "WeightMatrix | None":
        """None if the numbers would have to be reordered, or their zero points assigned anew."""
        is_simple = not self.transposed and (self.zero_point is None or self.zero_point.size == 1)
        return replace(self, shape=shape) if is_simple or shape == self.shape else None

    def as_matrix(self, shape: Shape) -> "WeightMatrix":
        """A vector as a matrix, with -1 in `shape` for its length; a matrix as it is."""
        if len(self.shape) > 1:
            return self
        return replace(self, shape=tuple(self.stored.elements if size < 0 else size for size in shape))

    def with_zero_point(self, zero_point: np.ndarray, axis: int) -> "WeightMatrix":
        zero_point = zero_point.reshape(-1)
        if zero_point.size == 0 or not zero_point.astype(np.float32).any():
            return self
        single = (zero_point == zero_point[0]).all()
        return replace(self, zero_point=zero_point[:1] if single else zero_point, axis=axis % max(len(self.shape), 1))


class WeightTracer:
    """Finds the stored tensor from which constant operators compute a tensor of the graph."""

    def __init__(self, file: OnnxFile, info: TensorInfo):
        self.file, self.info = file, info
        self.producers = {name: node for node in reversed(file.nodes) for name in node.output if name}  # the first, if two claim it

    def trace(self, name: str) -> WeightMatrix | None:
        """None if an input of the network changes the tensor, or if its shape is not known."""
        if name not in self.info.constants or name not in self.info.shapes:
            return None
        if name in self.file.tensors:
            stored = self.file.tensors[name]
            return WeightMatrix(stored, stored.shape, name) if stored.dtype != UNKNOWN_DTYPE else None
        return self._trace_through(self.producers[name], name) or self.computed(name)

    def _trace_through(self, node: NodeProto, name: str) -> WeightMatrix | None:
        """The weight behind an operator that copies, reshapes, transposes or dequantises; None for any other."""
        if node.op_type not in (*_COPIES, *_RESHAPES, "Transpose", "DequantizeLinear"):
            return None
        if (matrix := self.trace(node.input[0])) is None or node.op_type in _COPIES:
            return matrix
        if node.op_type == "DequantizeLinear":
            return self._trace_dequantized(node, matrix)
        if node.op_type in _RESHAPES:
            return matrix.reshape(self.info.shapes[name])
        order = next((list(item.ints) for item in node.attribute if item.name == "perm"), list(range(len(matrix.shape)))[::-1])
        rank = len(order)
        return matrix.transpose() if rank > 1 and order == [*range(rank - 2), rank - 1, rank - 2] else None

    def _trace_dequantized(self, node: NodeProto, matrix: WeightMatrix) -> WeightMatrix | None:
        """None if the zero points are those of blocks, or are computed."""
        attributes = {item.name: item.i for item in node.attribute}
        if not (name := input_name(node, 2)):
            return matrix
        zero_point, axis = self.constant_value(name), attributes.get("axis", 1)
        if zero_point is None or attributes.get("block_size"):
            return None
        if zero_point.size > 1 and matrix.shape[axis : axis + 1 or None] != zero_point.shape:
            return None
        return matrix.with_zero_point(zero_point, axis)

    def constant_value(self, name: str) -> np.ndarray | None:
        """The values of a stored or small constant tensor, such as a zero point; None for others."""
        if name in self.info.values:
            return self.info.values[name]
        return self.file.tensors[name].read() if name in self.file.tensors else None

    def computed(self, name: str) -> WeightMatrix:
        """A tensor that the graph computes, such as a mask times a weight: evaluated in memory, alone, while it is read."""
        shape, dtype = self.info.shapes[name], dtype_name(self.info.types.get(name, 0))
        sources = self._source_tensors(name)
        stored_elements = sum(self.file.tensors[source].elements for source in sources)
        stored = computed_tensor(name, shape, dtype, lambda: self._evaluate(name, stored_elements, {}), self.file.path)
        return WeightMatrix(stored, shape, max(sources, key=lambda source: self.file.tensors[source].elements, default=name))

    def _source_tensors(self, name: str) -> list[str]:
        """The initializers from which a tensor is computed."""
        visited, pending = dict.fromkeys([name]), [name]
        while pending:
            node = self.producers.get(pending.pop())
            new = [tensor for tensor in (node.input if node else ()) if tensor and tensor not in visited]
            visited |= dict.fromkeys(new)
            pending += new
        return [tensor for tensor in visited if tensor in self.file.tensors]

    def _evaluate(self, name: str, stored_elements: int, evaluated: dict[str, np.ndarray]) -> np.ndarray:
        """Evaluate a tensor and what it is computed from, which `evaluated` collects; `stored_elements`: numbers that go into it."""
        if (value := self.constant_value(name)) is not None:
            return value
        if name not in evaluated:
            node = self.producers[name]
            inputs = {item: self._evaluate(item, stored_elements, evaluated) for item in node.input if item}
            for output in node.output:
                check_computed_size(prod(self.info.shapes[output]), stored_elements)
            evaluated |= shapes.evaluate_node(node, inputs, self.info.opsets)
        return evaluated[name]


@dataclass(frozen=True)
class _MatrixLayout:
    """How a stored tensor is read as rows: `blocks` of m rows; a row has the shape `row_shape`, k numbers."""

    blocks: int
    m: int
    row_shape: Shape

    @property
    def k(self) -> int:
        return prod(self.row_shape)


def kernel_weights(matrix: WeightMatrix) -> tuple[WeightTensor, str]:
    """The weights of a convolution [m, channels of a group, *kernel], and a note if zero points are ignored."""
    return _weights(matrix, _MatrixLayout(1, matrix.shape[0], matrix.shape[1:]), channel_axis=0)


def stacked_weights(matrix: WeightMatrix) -> tuple[WeightTensor, str]:
    """The weights [m, k] of a matrix [..., m, k], whose leading dimensions are stacked, and a note if zero points are ignored."""
    *leading, m, k = matrix.shape
    return _weights(matrix, _MatrixLayout(prod(leading), m, (k,)), channel_axis=len(leading))


def _weights(matrix: WeightMatrix, layout: _MatrixLayout, channel_axis: int) -> tuple[WeightTensor, str]:
    zero_point, note = _broadcast_zero_point(matrix, layout, channel_axis), ""
    if zero_point is None and matrix.zero_point is not None:
        note = f"'{matrix.origin}': its zero points are neither those of output channels nor of inputs and are taken as 0"
    shape = (layout.blocks * layout.m, *layout.row_shape)
    return WeightTensor(shape, matrix.stored.dtype, lambda: _read_slabs(matrix, layout, zero_point)), note


def _broadcast_zero_point(matrix: WeightMatrix, layout: _MatrixLayout, channel_axis: int) -> Shaped[np.ndarray, "m k"] | None:
    """Zero points as [m or 1, k or 1]; None if there are none or they belong to other dimensions."""
    zero_point = matrix.zero_point
    if zero_point is None or zero_point.size == 1:
        return None if zero_point is None else zero_point.reshape(1, 1)
    if matrix.axis == channel_axis and (layout.blocks, layout.m) == (1, zero_point.size):
        return zero_point[:, None]
    return zero_point[None, :] if matrix.axis == channel_axis + 1 and layout.row_shape == zero_point.shape else None


def _read_slabs(
    matrix: WeightMatrix, layout: _MatrixLayout, zero_point: Shaped[np.ndarray, "m k"] | None
) -> Iterator[Shaped[np.ndarray, "row ..."]]:
    rows = rows_per_slab(layout.k * matrix.stored.itemsize)
    with matrix.stored.open() as read_range:
        for block in range(layout.blocks):
            for start in range(0, layout.m, rows):
                stop = min(start + rows, layout.m)
                slab = _read_rows(read_range, layout, block, start, stop, matrix.transposed)
                if zero_point is not None:
                    slab = slab.astype(np.int32) - (zero_point[start:stop] if len(zero_point) > 1 else zero_point).astype(np.int32)
                yield slab.reshape(-1, *layout.row_shape)


def _read_rows(
    read_range: ReadRange, layout: _MatrixLayout, block: int, start: int, stop: int, transposed: bool
) -> Shaped[np.ndarray, "row k"]:
    """Rows of one block; if they are stored transposed, each column of them is a range of its own."""
    first = block * layout.m * layout.k
    if not transposed:
        return read_range(first + start * layout.k, first + stop * layout.k).reshape(-1, layout.k)
    columns = (first + k * layout.m for k in range(layout.k))
    return np.stack([read_range(column + start, column + stop) for column in columns], axis=1)
