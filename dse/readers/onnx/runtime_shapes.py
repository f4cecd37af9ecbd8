"""Output shapes of the operators that the shape inference of ONNX does not know: those of onnxruntime, and a few of its own."""

from collections.abc import Callable, Mapping

import numpy as np
from onnx import NodeProto

from dse.readers.onnx import attention
from dse.readers.onnx.attention import attention_heads, input_name, integer_attributes
from dse.readers.parsed_network import Shape

ShapeRule = Callable[[NodeProto, Mapping[str, Shape]], Shape]  # shape of the first output

_SHAPE_OF_FIRST_INPUT = frozenset((
    "Gelu", "FastGelu", "BiasGelu", "QuickGelu", "BiasAdd", "BiasSoftmax", "BiasSplitGelu", "Inverse", "NhwcMaxPool", "QLinearSigmoid",
    "QLinearLeakyRelu", "QLinearSoftmax", "RotaryEmbedding", "SkipGroupNorm", "GroupNorm", "LayerNormalization", "SkipLayerNormalization",
    "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", "RMSNormalization", "QuantizeLinear", "DequantizeLinear",
    "GroupNormalization", "MeanVarianceNormalization",
))  # fmt: skip
# Place of the right factor among the inputs.
_MATMULS = {"FusedMatMul": 1, "MatMulIntegerToFloat": 1, "DynamicQuantizeMatMul": 1, "QLinearMatMul": 3}
_GEMMS = {"QGemm": 3}
# The operator of ONNX that an operator fused with an activation contains, and how many inputs it has.
_FUSED_WITH_ACTIVATION = {"FusedConv": ("Conv", 3), "FusedGemm": ("Gemm", 3)}


def runtime_output_shapes(node: NodeProto, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Shape of the first output, and of the sum that a norm with a skip connection outputs too; {} if there is no rule."""
    rule = _RULES.get(node.op_type)
    try:
        shape = rule(node, shapes) if rule else None
    except (LookupError, ValueError, ArithmeticError):  # the shape of an input is not known, or sizes contradict each other
        return {}
    names = node.output[::3] if node.op_type.startswith("Skip") else node.output[:1]
    return {} if shape is None else dict.fromkeys(filter(None, names), shape)


def to_standard_node(node: NodeProto) -> NodeProto:
    """The operator of ONNX that has the output shape of this one."""
    if node.op_type not in _FUSED_WITH_ACTIVATION:
        return node
    op_type, inputs = _FUSED_WITH_ACTIVATION[node.op_type]
    standard = NodeProto(op_type=op_type, input=node.input[:inputs], output=node.output)
    standard.attribute.extend(item for item in node.attribute if not item.name.startswith("activation"))
    return standard


def transpose_if(shape: Shape, transposed: int) -> Shape:
    """The shape with its last two dimensions swapped, if an operator says so."""
    return (*shape[:-2], shape[-1], shape[-2]) if transposed and len(shape) > 1 else shape


def _shape_of_first_input(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    return shapes[node.input[0]]


def _broadcast_shape(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    """Shape of a quantised elementwise operator, whose operands are inputs 0 and 3."""
    return np.broadcast_shapes(*(shapes[node.input[place]] for place in (0, 3)))


def _attention_shape(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    heads = attention_heads(node, shapes, {})
    batch, count, tokens, _ = heads.query
    width = heads.value[3]
    has_head_dimension = len(shapes[node.input[0]]) == 4
    return (batch, count, tokens, width) if has_head_dimension else (batch, tokens, count * width)


def _matmul_shape(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    left, right = _factor_shapes(node, shapes, _MATMULS[node.op_type])
    return (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])


def _gemm_shape(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    left, right = _factor_shapes(node, shapes, _GEMMS[node.op_type])
    return left[0], right[1]


def _factor_shapes(node: NodeProto, shapes: Mapping[str, Shape], right_place: int) -> tuple[Shape, Shape]:
    attributes = integer_attributes(node)
    left, right = shapes[node.input[0]], shapes[node.input[right_place]]
    return transpose_if(left, attributes.get("transA", 0)), transpose_if(right, attributes.get("transB", 0))


def _narrow_matmul_shape(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    return (*shapes[node.input[0]][:-1], integer_attributes(node)["N"])


def _embedding_shape(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    return (*shapes[node.input[0]], shapes[input_name(node, 2)][-1])


_RULES: dict[str, ShapeRule] = {
    "MatMulNBits": _narrow_matmul_shape,
    "EmbedLayerNormalization": _embedding_shape,
    **dict.fromkeys(_SHAPE_OF_FIRST_INPUT, _shape_of_first_input),
    **dict.fromkeys(attention.OPERATORS, _attention_shape),
    **dict.fromkeys(_MATMULS, _matmul_shape),
    **dict.fromkeys(_GEMMS, _gemm_shape),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _broadcast_shape),
}
