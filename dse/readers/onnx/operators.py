"""What is known of each operator of ONNX and of onnxruntime: which of its inputs are weights, which operators cost nothing."""

from dataclasses import dataclass

DOMAINS = ("", "ai.onnx", "com.microsoft")


@dataclass(frozen=True)
class Places:
    """Where a product has its operands among its inputs: `zero` is the zero point of `right`, `left_zero` of `left`."""

    left: int = 0
    right: int = 1
    left_zero: int | None = None
    zero: int | None = None
    bias: int | None = None


CONVOLUTIONS = {
    "Conv": Places(bias=2), "FusedConv": Places(bias=2), "ConvInteger": Places(zero=3), "QLinearConv": Places(right=3, zero=5, bias=8),
}  # fmt: skip
GEMMS = {"Gemm": Places(bias=2), "FusedGemm": Places(bias=2), "QGemm": Places(right=3, left_zero=2, zero=5, bias=6)}
MATMULS = {
    "MatMul": Places(), "FusedMatMul": Places(), "MatMulInteger": Places(left_zero=2, zero=3),
    "QLinearMatMul": Places(right=3, left_zero=2, zero=5), "MatMulIntegerToFloat": Places(left_zero=4, zero=5, bias=6),
    "DynamicQuantizeMatMul": Places(zero=3, bias=4),
}  # fmt: skip
SOFTMAX = frozenset(("Softmax", "LogSoftmax", "QLinearSoftmax", "BiasSoftmax"))
NORMS = frozenset((
    "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "GroupNormalization",
    "SkipSimplifiedLayerNormalization", "InstanceNormalization", "GroupNorm", "SkipGroupNorm", "EmbedLayerNormalization",
))  # fmt: skip
SUBGRAPHS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
LOOKUPS = frozenset(("Gather", "GatherElements", "GatherND"))

# Part of the kernel before or after them, or none at all; first those of ONNX, then those of onnxruntime. An operator that is
# new to ONNX is not among them, so that it is told.
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
