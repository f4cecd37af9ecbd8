"""ONNX and onnxruntime operators: which inputs are weights, which operators are free, multiply-adds of those that are skipped."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from onnx import GraphProto, NodeProto

from dse.readers.layer_rows import einsum_macs
from dse.readers.onnx.attention import integer_attributes
from dse.readers.onnx.shapes import TensorInfo

DOMAINS = ("", "ai.onnx", "com.microsoft")


@dataclass(frozen=True)
class OperandPlaces:
    """Places of the operands of a product among its inputs; None for an operand that the operator does not have."""

    left: int = 0
    right: int = 1
    left_zero_point: int | None = None
    right_zero_point: int | None = None
    bias: int | None = None


CONVOLUTIONS = {
    "Conv": OperandPlaces(bias=2), "FusedConv": OperandPlaces(bias=2), "ConvInteger": OperandPlaces(right_zero_point=3),
    "QLinearConv": OperandPlaces(right=3, right_zero_point=5, bias=8),
}  # fmt: skip
GEMMS = {
    "Gemm": OperandPlaces(bias=2), "FusedGemm": OperandPlaces(bias=2),
    "QGemm": OperandPlaces(right=3, left_zero_point=2, right_zero_point=5, bias=6),
}  # fmt: skip
MATMULS = {
    "MatMul": OperandPlaces(), "FusedMatMul": OperandPlaces(), "MatMulInteger": OperandPlaces(left_zero_point=2, right_zero_point=3),
    "QLinearMatMul": OperandPlaces(right=3, left_zero_point=2, right_zero_point=5),
    "MatMulIntegerToFloat": OperandPlaces(left_zero_point=4, right_zero_point=5, bias=6),
    "DynamicQuantizeMatMul": OperandPlaces(right_zero_point=3, bias=4),
}  # fmt: skip
SOFTMAXES = frozenset(("Softmax", "LogSoftmax", "QLinearSoftmax", "BiasSoftmax"))
NORMS = frozenset((
    "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "GroupNormalization",
    "SkipSimplifiedLayerNormalization", "InstanceNormalization", "GroupNorm", "SkipGroupNorm", "EmbedLayerNormalization",
))  # fmt: skip
SUBGRAPHS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
LOOKUPS = frozenset(("Gather", "GatherElements", "GatherND"))

# Free: part of the kernel before or after, or no kernel at all. First those of ONNX, then those of onnxruntime. An operator that
# is new to ONNX is not among them, so that it is reported.
_FUSED = """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Bernoulli BitCast BitShift BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu CenterCropPad Clip Col2Im Compress Concat ConcatFromSequence Constant
    ConstantOfShape Cos Cosh CumProd CumSum DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Equal Erf Exp Expand
    EyeLike Flatten Floor Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample HardSigmoid HardSwish
    Hardmax Identity IsInf IsNaN LRN LeakyRelu Less LessOrEqual Log LpNormalization LpPool Max MaxPool MaxRoiPool MaxUnpool Mean
    MeanVarianceNormalization Min Mish Mod Mul Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot
    Optional OptionalGetElement OptionalHasElement Or PRelu Pad Pow QuantizeLinear RandomNormal RandomNormalLike RandomUniform
    RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round Scatter ScatterElements ScatterND
    Selu SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Shrink Sigmoid Sign Sin Sinh
    Size Slice SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze Sub Sum SwiGLU Swish Tan
    Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
    BiasAdd BiasDropout BiasGelu BiasSplitGelu ConvertToFloat16 FastGelu NhwcMaxPool QLinearAdd QLinearAveragePool QLinearConcat
    QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid QuickGelu
"""
FUSED = LOOKUPS | frozenset(_FUSED.split())
# They multiply, but there is no formula for their multiply-adds here.
_UNCOUNTED = frozenset(("DFT", "STFT", "Det", "LinearAttention", "CausalConvWithState", "AffineGrid"))
LOWER_BOUND = "at least one multiply-add for each number of its weights"


def explain_skipped(node: NodeProto, info: TensorInfo, batch: int) -> tuple[float, str]:
    """Multiply-adds per sample (by formula, else a lower bound) of an operator that becomes no layer, and why it is skipped."""
    if (formula := _FORMULAS.get(node.op_type)) and node.domain in DOMAINS:
        try:
            return formula(node, info) / batch, "no layer of this kind"
        except (LookupError, ValueError, ArithmeticError):  # a shape is not known
            return bound_skipped(node, info, "no layer of this kind, and its shapes are not known")
    return bound_skipped(node, info, _why_skipped(node))


def bound_skipped(node: NodeProto, info: TensorInfo, reason: str) -> tuple[float, str]:
    """A lower bound on the multiply-adds of a skipped operator: each number of a weight multiplies at least once."""
    names = {*node.input, *_outer_tensors(node)}
    weights = sum(prod(info.shapes[name]) for name in names if name in info.constants and name in info.shapes)
    macs = float(weights + _inner_elements(node))
    return macs, f"{reason}: {LOWER_BOUND}" if macs else reason


def _why_skipped(node: NodeProto) -> str:
    domain = f" of '{node.domain}'" if node.domain not in ("", "ai.onnx") else ""
    if node.op_type in SUBGRAPHS:
        return f"its inner graphs are not read{domain}"
    if domain or node.op_type not in _UNCOUNTED:
        return f"unknown operator{domain}"
    return "no layer of this kind, and its multiply-adds are not counted"


def _inner_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs inside a node, and those inside them."""
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            yield graph
            for inner in graph.node:
                yield from _inner_graphs(inner)


def _outer_tensors(node: NodeProto) -> set[str]:
    """Tensors of the outer graph that the inner graphs of a node use; an inner tensor may have the name of an outer one."""
    used = {name for graph in _inner_graphs(node) for inner in graph.node for name in inner.input}
    inner_tensors = {tensor.name for graph in _inner_graphs(node) for tensor in graph.initializer}
    return used - inner_tensors


def _inner_elements(node: NodeProto) -> int:
    """Elements of the tensors that the inner graphs of a node hold."""
    tensors = [tensor for graph in _inner_graphs(node) for tensor in graph.initializer]
    constants = (item.t for graph in _inner_graphs(node) for inner in graph.node for item in inner.attribute if item.HasField("t"))
    return sum(prod(tensor.dims) for tensor in [*tensors, *constants])


def _transposed_convolution_macs(node: NodeProto, info: TensorInfo) -> float:
    """Each pixel of each input channel multiplies all kernels of the channel [channels, outputs of a group, *kernel]."""
    inputs, weight = info.shapes[node.input[0]], info.shapes[node.input[1]]
    return prod(weight) * inputs[0] * prod(inputs[2:])


def _deformed_convolution_macs(node: NodeProto, info: TensorInfo) -> float:
    outputs, weight = info.shapes[node.output[0]], info.shapes[node.input[1]]
    return prod(weight) * outputs[0] * prod(outputs[2:])


def _recurrent_macs(node: NodeProto, info: TensorInfo) -> float:
    """Both weights, that of the input and that of the hidden state, multiply at each step of each sequence."""
    steps = prod(info.shapes[node.input[0]][:2])
    return steps * sum(prod(info.shapes[name]) for name in node.input[1:3])


def _einsum_macs(node: NodeProto, info: TensorInfo) -> float:
    """With a single operand nothing is multiplied."""
    if len(node.input) < 2:
        return 0.0
    equation = next(item.s.decode() for item in node.attribute if item.name == "equation")
    return einsum_macs(equation, [info.shapes[name] for name in node.input])


def _narrow_matmul_macs(node: NodeProto, info: TensorInfo) -> float:
    """onnxruntime packs the weights [N, K], of a few bits each, in blocks."""
    attributes = integer_attributes(node)
    return attributes["N"] * attributes["K"] * prod(info.shapes[node.input[0]][:-1])


_FORMULAS: dict[str, Callable[[NodeProto, TensorInfo], float]] = {
    "ConvTranspose": _transposed_convolution_macs, "DeformConv": _deformed_convolution_macs, "LSTM": _recurrent_macs,
    "GRU": _recurrent_macs, "RNN": _recurrent_macs, "Einsum": _einsum_macs, "MatMulNBits": _narrow_matmul_macs,
}  # fmt: skip
