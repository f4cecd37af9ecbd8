"""Infer the shapes of all tensors of an ONNX graph, and the values of small constant ones (shape arithmetic).

Output shapes of operators that the shape inference of ONNX does not know, those of onnxruntime and a few of its own, are computed here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, TypeProto, shape_inference
from onnx.reference import ReferenceEvaluator

from dse.readers.onnx import attention
from dse.readers.onnx.attention import attention_heads, input_name, integer_attributes
from dse.readers.onnx.file import OnnxFile, is_small
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
MAX_ELEMENTS_IN_SHAPE = 10**15  # beyond, the sizes are those of a damaged file
_RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout")


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


@dataclass
class TensorInfo:
    """What is known of the tensors of a graph, by name.

    `constants`: tensors that no input of the network changes. `values`: those of the small ones among them.
    """

    opsets: dict[str, int]
    shapes: dict[str, Shape] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)

    def add_shape(self, name: str, shape: Shape) -> None:
        if prod(shape) <= MAX_ELEMENTS_IN_SHAPE:
            self.shapes[name] = shape

    def add_type(self, name: str, proto: TypeProto) -> None:
        """Add the number type of a tensor, and its shape if all of its sizes are known."""
        tensor = proto.tensor_type
        if tensor.elem_type:
            self.types[name] = tensor.elem_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") and dim.dim_value >= 0 for dim in tensor.shape.dim):
            self.add_shape(name, tuple(dim.dim_value for dim in tensor.shape.dim))


def infer_tensor_info(file: OnnxFile) -> TensorInfo:
    """Infer what can be inferred of a graph whose inputs have their sizes; the rest is missing from the result."""
    info = TensorInfo(file.opsets)
    graph = _infer_whole_graph(file).graph
    for value in [*graph.input, *graph.value_info, *graph.output]:
        info.add_type(value.name, value.type)
    for tensor in graph.initializer:
        info.types[tensor.name], info.shapes[tensor.name] = tensor.data_type, tuple(tensor.dims)
    info.constants |= file.tensors.keys()
    info.values |= file.small_values
    for node in file.nodes:
        if node.output:
            _infer_node(node, info)
    return info


def evaluate_node(node: NodeProto, values: Mapping[str, np.ndarray], opsets: dict[str, int]) -> dict[str, np.ndarray]:
    """Run one node on arrays; returns its outputs by name."""
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(node, opsets=opsets).run(None, {name: values[name] for name in node.input if name})
    return {name: np.asarray(array) for name, array in zip(node.output, results, strict=False) if name}


def _infer_whole_graph(file: OnnxFile) -> onnx.ModelProto:
    try:
        return shape_inference.infer_shapes(file.model, check_type=False, strict_mode=False, data_prop=True)
    except Exception:  # any error of ONNX: the graph as a whole is only a shortcut, node by node finds the same
        return file.model


def _infer_node(node: NodeProto, info: TensorInfo) -> None:
    """Infer what the inference of the whole graph did not: operators of onnxruntime, shapes that depend on shape arithmetic."""
    if any(name not in info.shapes for name in node.output if name):
        for name, shape in runtime_output_shapes(node, info.shapes).items():
            info.add_shape(name, shape)
            info.types.setdefault(name, info.types.get(node.input[0], TensorProto.FLOAT))
        _infer_single_node(node, info)
    if _is_constant(node, info):
        info.constants.update(node.output)
        _evaluate_small(node, info)


def _is_constant(node: NodeProto, info: TensorInfo) -> bool:
    if node.op_type in _RANDOM or any(attribute.HasField("g") for attribute in node.attribute):
        return False
    if node.op_type in ("Shape", "Size"):
        return input_name(node, 0) in info.shapes
    return all(name in info.constants for name in node.input if name)


def _infer_single_node(node: NodeProto, info: TensorInfo) -> None:
    """Run the shape inference of ONNX on one node, with the types and values of its inputs."""
    missing, node = [name for name in node.output if name and name not in info.shapes], to_standard_node(node)
    types = {name: _type_proto(name, info) for name in node.input if name}
    values = {name: onnx.numpy_helper.from_array(info.values[name], name) for name in node.input if name in info.values}
    domain = "" if node.domain == "ai.onnx" else node.domain
    if not missing or domain not in info.opsets:
        return
    try:
        schema = onnx.defs.get_schema(node.op_type, info.opsets[domain], domain)
        opsets = [onnx.helper.make_opsetid(*item) for item in info.opsets.items()]
        inferred = shape_inference.infer_node_outputs(schema, node, types, values, opset_imports=opsets)
    except Exception:  # any error of ONNX: it does not know the operator, or the node contradicts itself; the shape stays unknown
        return
    for name in missing:
        if name in inferred:
            info.add_type(name, inferred[name])


def _type_proto(name: str, info: TensorInfo) -> TypeProto:
    """The type of a tensor; an unknown number type is passed as float, since only shapes are needed."""
    return onnx.helper.make_tensor_type_proto(info.types.get(name, TensorProto.FLOAT), info.shapes.get(name))


def _evaluate_small(node: NodeProto, info: TensorInfo) -> None:
    """Evaluate a constant node if its values are known and small, as those of shape arithmetic are."""
    if node.op_type in ("Shape", "Size"):
        _evaluate_shape(node, info)
        return
    outputs_are_small = all(is_small(prod(info.shapes[name])) for name in node.output if name in info.shapes)
    inputs_have_values = all(name in info.values for name in node.input if name)
    if not outputs_are_small or not inputs_have_values or (node.op_type != "NonZero" and node.output[0] not in info.shapes):
        return
    try:
        outputs = evaluate_node(node, info.values, info.opsets)
    except Exception:  # the reference implementation raises any exception of NumPy; the value stays unknown
        return
    for name, array in outputs.items():
        if is_small(array.size):
            info.values[name], info.shapes[name] = array, array.shape


def _evaluate_shape(node: NodeProto, info: TensorInfo) -> None:
    shape, attributes = info.shapes[node.input[0]], {item.name: item.i for item in node.attribute}
    part = shape[attributes.get("start", 0) : attributes.get("end", len(shape))]
    array = np.array(part if node.op_type == "Shape" else prod(shape), np.int64)
    output = node.output[0]
    info.values[output], info.shapes[output], info.types[output] = array, array.shape, TensorProto.INT64
