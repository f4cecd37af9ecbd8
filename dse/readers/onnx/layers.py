"""Turn one operator of an ONNX graph into layers: those that multiply, and those that only move data."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from onnx import NodeProto
from pydantic import ValidationError

from dse.base.errors import InputError
from dse.networks.layers import LayerRow
from dse.readers.layer_rows import UnweightedRows, convolution_row, linear_row
from dse.readers.onnx import attention, operators
from dse.readers.onnx.attention import attention_heads, input_name, integer_attributes
from dse.readers.onnx.file import OnnxFile
from dse.readers.onnx.names import LayerNames, find_module_name
from dse.readers.onnx.operators import OperandPlaces
from dse.readers.onnx.shapes import TensorInfo, transpose_if
from dse.readers.onnx.storage import StoredTensor
from dse.readers.onnx.weights import WeightMatrix, WeightTracer, kernel_weights, stacked_weights
from dse.readers.parsed_network import Shape, WeightTensor

_BIAS_OPERATORS = ("Add", "BiasGelu", "BiasAdd", "FastGelu")


class SkippedOperatorError(Exception):
    """Raised for an operator that should become a layer but cannot; holds its multiply-adds per sample, if they are known."""

    def __init__(self, reason: str, macs: float | None = None):
        super().__init__(reason)
        self.reason, self.macs = reason, macs


@dataclass(frozen=True)
class Layer:
    """A layer, and its weights if it has any."""

    row: LayerRow
    weights: WeightTensor | None = None
    stored: StoredTensor | None = None


class LayerBuilder:
    """Turns nodes into layers; they must come in the order in which they run, since layers without weights are numbered."""

    def __init__(self, file: OnnxFile, info: TensorInfo, batch: int):
        self.info, self.batch, self.notes = info, batch, list[str]()
        self.names = LayerNames()
        self._tracer, self._unweighted = WeightTracer(file, info), UnweightedRows(batch)
        self._users = _nodes_by_input(file)

    def build(self, node: NodeProto) -> list[Layer] | None:
        """The layers of a node; None if it never becomes one. Raises SkippedOperatorError if it should, but cannot."""
        build, kind = None, node.op_type
        if kind in operators.CONVOLUTIONS:
            build = self._build_convolution
        elif kind in operators.GEMMS or kind in operators.MATMULS:
            build = self._build_product
        elif kind in attention.OPERATORS:
            build = self._build_attention
        elif kind in operators.SOFTMAXES | operators.NORMS:
            build = self._build_bandwidth_bound
        return _convert_errors(build, node) if build else None

    def _shape(self, name: str) -> Shape:
        if name not in self.info.shapes:
            raise SkippedOperatorError(f"the shape of '{name}' is not known")
        return self.info.shapes[name]

    def _build_bandwidth_bound(self, node: NodeProto) -> list[Layer]:
        kind = "softmax" if node.op_type in operators.SOFTMAXES else "norm"
        inputs, outputs = self._shape(node.input[0]), self._shape(node.output[0])
        return [Layer(self._unweighted.bandwidth_bound(kind, inputs, outputs))]

    def _build_convolution(self, node: NodeProto) -> list[Layer]:
        places = operators.CONVOLUTIONS[node.op_type]
        inputs, outputs = self._shape(node.input[places.left]), self._shape(node.output[0])
        matrix = self._trace_weight(node, places.right, places.right_zero_point, channel_axis=0)
        if matrix is None:
            kernel = self._shape(node.input[places.right])
            macs = prod(kernel) * prod(outputs) / outputs[1] / self.batch
            raise SkippedOperatorError("its weights are computed from an input", macs)
        if matrix.transposed:  # a kernel is only read in the order in which it is stored
            matrix = self._tracer.computed(node.input[places.right])
        groups = integer_attributes(node).get("group", 1)
        row = convolution_row(self._name(node, matrix, places), matrix.shape, inputs, outputs, groups, self.batch)
        return [self._weighted_layer(row, matrix, kernel_weights(matrix), self._bias_elements(node, places))]

    def _build_product(self, node: NodeProto) -> list[Layer]:
        """A matrix product: a linear layer if either factor is a weight."""
        attributes, places = integer_attributes(node), operators.GEMMS.get(node.op_type) or operators.MATMULS[node.op_type]
        if attributes.get("transBatchA") or attributes.get("transBatchB"):
            raise SkippedOperatorError("it moves its leading dimensions")
        outputs, transposed = self._shape(node.output[0]), (attributes.get("transA", 0), attributes.get("transB", 0))
        right = self._trace_weight(node, places.right, places.right_zero_point, channel_axis=-2 if transposed[1] else -1)
        if right is not None:
            right = right.as_matrix((-1, 1))
            return [self._linear_layer(node, right if transposed[1] else right.transpose(), places.left, places)]
        left = self._trace_weight(node, places.left, places.left_zero_point, channel_axis=-1 if transposed[0] else -2)
        if left is not None:
            left = left.as_matrix((1, -1))
            return [self._linear_layer(node, left.transpose() if transposed[0] else left, places.right, places)]
        return [Layer(self._activation_product(node, places, transposed, outputs))]

    def _activation_product(self, node: NodeProto, places: OperandPlaces, transposed: tuple[int, int], outputs: Shape) -> LayerRow:
        left, right = self._shape(node.input[places.left]), self._shape(node.input[places.right])
        if len(right) == 1:
            right, outputs = (*right, 1), (*outputs, 1)
        if len(left) == 1:
            left, outputs = (1, *left), (*outputs[:-1], 1, outputs[-1])
        return self._unweighted.matmul(transpose_if(left, transposed[0]), transpose_if(right, transposed[1]), outputs)

    def _linear_layer(self, node: NodeProto, matrix: WeightMatrix, input_place: int, places: OperandPlaces) -> Layer:
        """A layer of weights [..., m, k]; the leading dimensions are groups, each with its own inputs."""
        *leading, m, k = matrix.shape
        groups, outputs = prod(leading), prod(self._shape(node.output[0]))
        row = linear_row(self._name(node, matrix, places), (m, k), (outputs // (groups * m), m), self.batch)
        if groups > 1:
            inputs = prod(self._shape(node.input[input_place])) / self.batch
            row = row.model_copy(update={"m": groups * m, "groups": groups, "input_elements": inputs})
        return self._weighted_layer(row, matrix, stacked_weights(matrix), self._bias_elements(node, places))

    def _build_attention(self, node: NodeProto) -> list[Layer]:
        """The steps of attention; before them, for onnxruntime's Attention, the projection to query, key and value."""
        try:
            heads = attention_heads(node, self.info.shapes, self.info.values)
        except (LookupError, ValueError, ArithmeticError) as error:
            raise SkippedOperatorError(f"its heads or their shapes are not known ({error})") from error
        has_projection = node.op_type == "Attention" and node.domain == "com.microsoft"
        projection = [self._projection_layer(node)] if has_projection else []
        return [*projection, *(Layer(row) for row in self._unweighted.attention(*heads))]

    def _projection_layer(self, node: NodeProto) -> Layer:
        places = OperandPlaces(bias=2)
        matrix = self._trace_weight(node, places.right, None, channel_axis=-1)
        if matrix is None:
            raise SkippedOperatorError("its weights are computed from an input")
        matrix, inputs = matrix.transpose(), self._shape(node.input[0])
        m, k = matrix.shape
        row = linear_row(self._name(node, matrix, places), (m, k), (*inputs[:-1], m), self.batch)
        return self._weighted_layer(row, matrix, stacked_weights(matrix), self._bias_elements(node, places))

    def _trace_weight(self, node: NodeProto, place: int, zero_point_place: int | None, channel_axis: int) -> WeightMatrix | None:
        """The weight at one of the inputs; the zero points at another input, if there are any, are those of `channel_axis`."""
        matrix = self._tracer.trace(input_name(node, place))
        if matrix is None or zero_point_place is None or not (name := input_name(node, zero_point_place)):
            return matrix
        if (zero_point := self._tracer.constant_value(name)) is None:
            self.notes.append(f"'{matrix.origin}': its zero points change with the input and are taken as 0")
            return matrix
        return matrix.with_zero_point(zero_point, channel_axis if len(matrix.shape) > 1 else 0)

    def _weighted_layer(self, row: LayerRow, matrix: WeightMatrix, weights: tuple[WeightTensor, str], bias: int) -> Layer:
        tensor, note = weights
        if note:
            self.notes.append(note)
        return Layer(row.model_copy(update={"other_parameters": bias}), tensor, matrix.stored)

    def _name(self, node: NodeProto, matrix: WeightMatrix, places: OperandPlaces) -> str:
        bias = self._tracer.trace(self._bias_name(node, places))
        return self.names.add(find_module_name(node, matrix.origin, bias.origin if bias else ""), matrix.key)

    def _bias_elements(self, node: NodeProto, places: OperandPlaces) -> int:
        name = self._bias_name(node, places)
        return prod(self.info.shapes[name]) if name in self.info.constants and name in self.info.shapes else 0

    def _bias_name(self, node: NodeProto, places: OperandPlaces) -> str:
        """The bias among the inputs, or the operand of an addition behind: exporters write a linear layer as MatMul and Add."""
        if places.bias is not None and (name := input_name(node, places.bias)):
            return name
        users = self._users.get(node.output[0], [])
        if len(users) != 1 or users[0].op_type not in _BIAS_OPERATORS:
            return ""
        operand = next((name for name in users[0].input if name and name != node.output[0]), "")
        width = self.info.shapes.get(node.output[0], ())[-1:]
        return operand if operand in self.info.constants and self.info.shapes.get(operand) == width else ""


def _convert_errors(build: Callable[[NodeProto], list[Layer]], node: NodeProto) -> list[Layer]:
    """Build the layers of a node; one that contradicts itself is skipped, so that the others can still be read."""
    try:
        return build(node)
    except (SkippedOperatorError, InputError):
        raise
    except ValidationError as error:
        raise SkippedOperatorError(f"its sizes are not those of a layer ({error.errors()[0]['msg']})") from error
    except (LookupError, ValueError, ArithmeticError) as error:
        raise SkippedOperatorError(f"its inputs or attributes are incomplete ({error})") from error


def _nodes_by_input(file: OnnxFile) -> dict[str, list[NodeProto]]:
    nodes = defaultdict[str, list[NodeProto]](list)
    for node in file.nodes:
        for name in node.input:
            nodes[name].append(node)
    return nodes
