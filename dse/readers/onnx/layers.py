"""The layers of an ONNX graph: what each of its operators that multiplies or moves bytes becomes."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from onnx import NodeProto
from pydantic import ValidationError

from dse.base.errors import InputError
from dse.networks.layers import LayerRow
from dse.readers import layer_rows
from dse.readers.onnx import attention as onnx_attention
from dse.readers.onnx import names as onnx_names
from dse.readers.onnx import operators as onnx_kinds
from dse.readers.onnx import weights as onnx_weights
from dse.readers.onnx.attention import integers, name_of
from dse.readers.onnx.contrib import flipped
from dse.readers.onnx.file import File
from dse.readers.onnx.operators import Places
from dse.readers.onnx.shapes import Values
from dse.readers.onnx.storage import Stored
from dse.readers.onnx.weights import Matrix, Tracer
from dse.readers.parsed_network import WeightTensor

Shape = tuple[int, ...]


class NotUnderstood(Exception):  # noqa: N818 - an operator is skipped, which is no error
    """Raised for an operator that cannot become a layer; says why, and its multiply-adds if they are known all the same."""

    def __init__(self, reason: str, macs: float | None = None):
        super().__init__(reason)
        self.reason, self.macs = reason, macs


@dataclass(frozen=True)
class Layer:
    """A row of the trace, and its weights if it has any."""

    row: LayerRow
    weights: WeightTensor | None = None
    stored: Stored | None = None


class Rows:
    """Turns nodes into layers, in the order in which they run."""

    def __init__(self, file: File, values: Values, batch: int):
        self.values, self.batch, self.notes = values, batch, list[str]()
        self.tracer, self.register, self.unweighted = Tracer(file, values), onnx_names.Register(), layer_rows.UnweightedRows(batch)
        self._users = _users(file)

    def of(self, node: NodeProto) -> list[Layer] | None:
        """None of an operator that never becomes a layer; raises NotUnderstood of one that should, but cannot."""
        kind, make = node.op_type, None
        if kind in onnx_kinds.CONVOLUTIONS:
            make = self._convolution
        elif kind in onnx_kinds.GEMMS or kind in onnx_kinds.MATMULS:
            make = self._product
        elif kind in onnx_attention.OPERATORS:
            make = self._attention
        elif kind in onnx_kinds.SOFTMAX | onnx_kinds.NORMS:
            make = self._bandwidth_bound
        return _explained(make, node) if make else None

    def shape(self, name: str) -> Shape:
        if name not in self.values.shapes:
            raise NotUnderstood(f"the shape of '{name}' is not known")
        return self.values.shapes[name]

    def _bandwidth_bound(self, node: NodeProto) -> list[Layer]:
        kind = "softmax" if node.op_type in onnx_kinds.SOFTMAX else "norm"
        inputs, outputs = self.shape(node.input[0]), self.shape(node.output[0])
        return [Layer(self.unweighted.bandwidth_bound(kind, inputs, outputs))]

    def _convolution(self, node: NodeProto) -> list[Layer]:
        places = onnx_kinds.CONVOLUTIONS[node.op_type]
        inputs, outputs = self.shape(node.input[places.left]), self.shape(node.output[0])
        matrix = self._matrix(node, places.right, places.zero, channels=0)
        if matrix is None:
            shape = self.shape(node.input[places.right])
            raise NotUnderstood("its weights are computed from an input", prod(shape) * prod(outputs) / outputs[1] / self.batch)
        if matrix.flipped:  # a kernel is read as it lies
            matrix = self.tracer.evaluated(node.input[places.right])
        name, groups = self._name(node, matrix, places), integers(node).get("group", 1)
        row = layer_rows.convolution_row(name, matrix.shape, inputs, outputs, groups, self.batch)
        return [self._weighted(row, matrix, onnx_weights.kernel(matrix), self._bias(node, places))]

    def _product(self, node: NodeProto) -> list[Layer]:
        """A matrix product: a layer if one operand is a weight, from whichever side."""
        given, places = integers(node), onnx_kinds.GEMMS.get(node.op_type) or onnx_kinds.MATMULS[node.op_type]
        if given.get("transBatchA") or given.get("transBatchB"):
            raise NotUnderstood("it moves its leading dimensions")
        outputs, trans = self.shape(node.output[0]), (given.get("transA", 0), given.get("transB", 0))
        if (right := self._matrix(node, places.right, places.zero, channels=-2 if trans[1] else -1)) is not None:
            right = _two_dimensional(right, (-1, 1))
            return [self._linear(node, right if trans[1] else right.transposed(), places.left, places)]
        if (left := self._matrix(node, places.left, places.left_zero, channels=-1 if trans[0] else -2)) is not None:
            left = _two_dimensional(left, (1, -1))
            return [self._linear(node, left.transposed() if trans[0] else left, places.right, places)]
        return [Layer(self._activations(node, places, trans, outputs))]

    def _activations(self, node: NodeProto, places: Places, trans: tuple[int, int], outputs: Shape) -> LayerRow:
        left, right = self.shape(node.input[places.left]), self.shape(node.input[places.right])
        if len(right) == 1:
            right, outputs = (*right, 1), (*outputs, 1)
        if len(left) == 1:
            left, outputs = (1, *left), (*outputs[:-1], 1, outputs[-1])
        return self.unweighted.matmul(flipped(left, trans[0]), flipped(right, trans[1]), outputs)

    def _linear(self, node: NodeProto, matrix: Matrix, other: int, places: Places) -> Layer:
        """A weight [..., m, k]: leading dimensions are so many matrices that each see inputs of their own, that is groups."""
        *leading, m, k = matrix.shape
        groups, outputs = prod(leading), prod(self.shape(node.output[0]))
        row = layer_rows.linear_row(self._name(node, matrix, places), (m, k), (outputs // (groups * m), m), self.batch)
        if groups > 1:
            inputs = prod(self.shape(node.input[other])) / self.batch
            row = row.model_copy(update={"m": groups * m, "groups": groups, "input_elements": inputs})
        return self._weighted(row, matrix, onnx_weights.stacked(matrix), self._bias(node, places))

    def _attention(self, node: NodeProto) -> list[Layer]:
        """With onnxruntime's Attention, the projection to query, key and value comes first: it has its weight."""
        try:
            query, key, value = onnx_attention.heads(node, self.values.shapes, self.values.numbers)
        except (LookupError, ValueError, ArithmeticError) as error:
            raise NotUnderstood(f"its heads or their shapes are not known ({error})") from error
        projection = []
        if node.op_type == "Attention" and node.domain == "com.microsoft":
            projection = self._projection(node)
        return [*projection, *(Layer(row) for row in self.unweighted.attention(query, key, value))]

    def _projection(self, node: NodeProto) -> list[Layer]:
        places = Places(bias=2)
        if (matrix := self._matrix(node, 1, None, channels=-1)) is None:
            raise NotUnderstood("its weights are computed from an input")
        matrix, inputs = matrix.transposed(), self.shape(node.input[0])
        m, k = matrix.shape
        row = layer_rows.linear_row(self._name(node, matrix, places), (m, k), (*inputs[:-1], m), self.batch)
        return [self._weighted(row, matrix, onnx_weights.stacked(matrix), self._bias(node, places))]

    def _matrix(self, node: NodeProto, place: int, zero: int | None, channels: int) -> Matrix | None:
        """The weight at one of the inputs, whose zero points, if it has any of its own, run along the dimension `channels`."""
        matrix = self.tracer.trace(name_of(node, place))
        if matrix is None or zero is None or not (name := name_of(node, zero)):
            return matrix
        if (points := self.tracer.number(name)) is None:
            self.notes.append(f"'{matrix.origin}': its zero points change with the input and are taken as 0")
            return matrix
        return matrix.with_zero(points, channels if len(matrix.shape) > 1 else 0)

    def _weighted(self, row: LayerRow, matrix: Matrix, weights: tuple[WeightTensor, str], bias: int) -> Layer:
        if weights[1]:
            self.notes.append(weights[1])
        return Layer(row.model_copy(update={"other_parameters": bias}), weights[0], matrix.stored)

    def _name(self, node: NodeProto, matrix: Matrix, places: Places) -> str:
        bias = self.tracer.trace(self._bias_name(node, places))
        return self.register.name(onnx_names.of(node, matrix.origin, bias.origin if bias else ""), matrix.key)

    def _bias(self, node: NodeProto, places: Places) -> int:
        name = self._bias_name(node, places)
        return prod(self.values.shapes[name]) if name in self.values.fixed and name in self.values.shapes else 0

    def _bias_name(self, node: NodeProto, places: Places) -> str:
        """An input of its own, or what the addition behind it adds: exporters write a linear layer as MatMul and Add."""
        if places.bias is not None and (name := name_of(node, places.bias)):
            return name
        users = self._users.get(node.output[0], [])
        if len(users) != 1 or users[0].op_type not in ("Add", "BiasGelu", "BiasAdd", "FastGelu"):
            return ""
        other = next((name for name in users[0].input if name and name != node.output[0]), "")
        width = self.values.shapes.get(node.output[0], ())[-1:]
        return other if other in self.values.fixed and self.values.shapes.get(other) == width else ""


def _explained(make: Callable[[NodeProto], list[Layer]], node: NodeProto) -> list[Layer]:
    """A file may hold an operator that contradicts itself; the others can still be read."""
    try:
        return make(node)
    except (NotUnderstood, InputError):
        raise
    except ValidationError as error:
        raise NotUnderstood(f"its sizes make no layer ({error.errors()[0]['msg']})") from error
    except (LookupError, ValueError, ArithmeticError) as error:
        raise NotUnderstood(f"its inputs or attributes are incomplete ({error})") from error


def _two_dimensional(matrix: Matrix, shape: Shape) -> Matrix:
    """A vector is a matrix of one column on the right, of one row on the left."""
    if len(matrix.shape) > 1:
        return matrix
    return replace(matrix, shape=tuple(matrix.stored.elements if size < 0 else size for size in shape))


def _users(file: File) -> dict[str, list[NodeProto]]:
    users = defaultdict[str, list[NodeProto]](list)
    for node in file.nodes:
        for name in node.input:
            users[name].append(node)
    return users
