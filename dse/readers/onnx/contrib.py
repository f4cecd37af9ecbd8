"""Output shapes that the inference of ONNX does not know: of the operators that onnxruntime adds to it, and of a few of its own."""

from collections.abc import Callable, Mapping

import numpy as np
from onnx import NodeProto

from dse.readers.onnx import attention as onnx_attention
from dse.readers.onnx.attention import Shape, integers, name_of

LIKE_FIRST = frozenset((
    "Gelu", "FastGelu", "BiasGelu", "QuickGelu", "BiasAdd", "BiasSoftmax", "BiasSplitGelu", "Inverse", "NhwcMaxPool", "QLinearSigmoid",
    "QLinearLeakyRelu", "QLinearSoftmax", "RotaryEmbedding", "SkipGroupNorm", "GroupNorm", "LayerNormalization", "SkipLayerNormalization",
    "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", "RMSNormalization", "QuantizeLinear", "DequantizeLinear",
    "GroupNormalization", "MeanVarianceNormalization",
))  # fmt: skip
_PRODUCTS = {"FusedMatMul": 1, "MatMulIntegerToFloat": 1, "DynamicQuantizeMatMul": 1, "QLinearMatMul": 3}
_GEMMS = {"QGemm": 3}
_STANDARD = {"FusedConv": ("Conv", 3), "FusedGemm": ("Gemm", 3)}  # an activation behind it leaves the shape as it is


def output_shapes(node: NodeProto, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Of the first output, and of the sum that a norm with a skip connection gives too; {} of what has no rule."""
    rule = _rule(node)
    try:
        shape = rule(node, shapes) if rule else None
    except (LookupError, ValueError, ArithmeticError):  # a shape before it is not known, or sizes that contradict each other
        return {}
    names = node.output[::3] if node.op_type.startswith("Skip") else node.output[:1]
    return {} if shape is None else dict.fromkeys(filter(None, names), shape)


def standard(node: NodeProto) -> NodeProto:
    """The operator of ONNX itself that has the shapes of this one."""
    if node.op_type not in _STANDARD:
        return node
    op_type, inputs = _STANDARD[node.op_type]
    plain = NodeProto(op_type=op_type, input=node.input[:inputs], output=node.output)
    plain.attribute.extend(item for item in node.attribute if not item.name.startswith("activation"))
    return plain


def _rule(node: NodeProto) -> Callable[[NodeProto, Mapping[str, Shape]], Shape] | None:
    rules = {"MatMulNBits": _narrow, "EmbedLayerNormalization": _embedded}
    rules |= dict.fromkeys(LIKE_FIRST, lambda node, shapes: shapes[node.input[0]])
    rules |= dict.fromkeys(onnx_attention.OPERATORS, _attention) | dict.fromkeys(_PRODUCTS, _product) | dict.fromkeys(_GEMMS, _gemm)
    rules |= dict.fromkeys(("QLinearAdd", "QLinearMul"), lambda node, shapes: np.broadcast_shapes(*(shapes[node.input[i]] for i in (0, 3))))
    return rules.get(node.op_type)


def _attention(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    query, _, value = onnx_attention.heads(node, shapes, {})
    flat = len(shapes[node.input[0]]) != 4
    return (query[0], query[2], query[1] * value[3]) if flat else (*query[:3], value[3])


def flipped(shape: Shape, flip: int) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if flip and len(shape) > 1 else shape


def _product(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    given = integers(node)
    left = flipped(shapes[node.input[0]], given.get("transA", 0))
    right = flipped(shapes[node.input[_PRODUCTS[node.op_type]]], given.get("transB", 0))
    return (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])


def _gemm(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    given = integers(node)
    left = flipped(shapes[node.input[0]], given.get("transA", 0))
    return left[0], flipped(shapes[node.input[_GEMMS[node.op_type]]], given.get("transB", 0))[1]


def _narrow(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    return (*shapes[node.input[0]][:-1], integers(node)["N"])


def _embedded(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    return (*shapes[node.input[0]], shapes[name_of(node, 2)][-1])
