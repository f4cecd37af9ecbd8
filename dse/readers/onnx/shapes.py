"""The shapes of all tensors of an ONNX graph, and the numbers of the small ones that no input changes."""

from dataclasses import dataclass, field
from math import prod

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, TypeProto, shape_inference
from onnx.reference import ReferenceEvaluator

from dse.readers.onnx import contrib as onnx_contrib
from dse.readers.onnx import file as onnx_file
from dse.readers.onnx.attention import name_of
from dse.readers.onnx.file import File

Shape = tuple[int, ...]
MOST_IN_TENSOR = 10**15
_RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout")


@dataclass
class Values:
    """What is known of the tensors of a graph by name. `fixed`: no input changes them; `numbers`: of the small ones among them."""

    opsets: dict[str, int]
    shapes: dict[str, Shape] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)

    def note(self, name: str, shape: Shape) -> None:
        """Note a shape, unless it is of more numbers than any tensor has: sizes of a damaged file."""
        if prod(shape) <= MOST_IN_TENSOR:
            self.shapes[name] = shape

    def learn(self, name: str, type_: TypeProto) -> None:
        """Note a shape if all of its sizes are known."""
        tensor = type_.tensor_type
        if tensor.elem_type:
            self.types[name] = tensor.elem_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") and dim.dim_value >= 0 for dim in tensor.shape.dim):
            self.note(name, tuple(dim.dim_value for dim in tensor.shape.dim))


def infer(file: File) -> Values:
    """The sizes of the inputs must be settled. What cannot be inferred is missing in the result."""
    values = Values(file.opsets)
    graph = _inferred(file).graph
    for value in [*graph.input, *graph.value_info, *graph.output]:
        values.learn(value.name, value.type)
    for tensor in graph.initializer:
        values.types[tensor.name], values.shapes[tensor.name] = tensor.data_type, tuple(tensor.dims)
    values.fixed |= file.stored.keys()
    values.numbers |= file.small
    for node in (node for node in file.nodes if node.output):
        _visit(node, values)
    return values


def _inferred(file: File) -> onnx.ModelProto:
    try:
        return shape_inference.infer_shapes(file.model, check_type=False, strict_mode=False, data_prop=True)
    except Exception:  # the whole graph at once is a short cut: node by node still finds what can be found
        return file.model


def _visit(node: NodeProto, values: Values) -> None:
    """Go on where the inference over the whole graph stopped: at operators of onnxruntime, at shapes that take arithmetic."""
    if any(name not in values.shapes for name in node.output if name):
        for name, shape in onnx_contrib.output_shapes(node, values.shapes).items():
            values.note(name, shape)
            values.types.setdefault(name, values.types.get(node.input[0], TensorProto.FLOAT))
        _infer_alone(node, values)
    if _is_fixed(node, values):
        values.fixed.update(node.output)
        _evaluate(node, values)


def _is_fixed(node: NodeProto, values: Values) -> bool:
    if node.op_type in _RANDOM or any(attribute.HasField("g") for attribute in node.attribute):
        return False
    if node.op_type in ("Shape", "Size"):
        return name_of(node, 0) in values.shapes
    return all(name in values.fixed for name in node.input if name)


def _infer_alone(node: NodeProto, values: Values) -> None:
    missing, node = [name for name in node.output if name and name not in values.shapes], onnx_contrib.standard(node)
    known = {name: _type(name, values) for name in node.input if name}
    data = {name: onnx.numpy_helper.from_array(values.numbers[name], name) for name in node.input if name in values.numbers}
    domain = "" if node.domain == "ai.onnx" else node.domain
    if not missing or domain not in values.opsets:
        return
    try:
        schema = onnx.defs.get_schema(node.op_type, values.opsets[domain], domain)
        opsets = [onnx.helper.make_opsetid(*item) for item in values.opsets.items()]
        found = shape_inference.infer_node_outputs(schema, node, known, data, opset_imports=opsets)
    except Exception:  # an operator that it does not know, or that contradicts itself: the shape stays unknown
        return
    for name in missing:
        if name in found:
            values.learn(name, found[name])


def _type(name: str, values: Values) -> TypeProto:
    """An unknown number type says float: only shapes are asked for."""
    shape = values.shapes.get(name)
    return onnx.helper.make_tensor_type_proto(values.types.get(name, TensorProto.FLOAT), shape)


def _evaluate(node: NodeProto, values: Values) -> None:
    """Shape arithmetic is small; anything larger waits until it is needed, if ever."""
    if node.op_type in ("Shape", "Size"):
        _measure(node, values)
        return
    fits = all(prod(values.shapes[name]) <= onnx_file.SMALL for name in node.output if name in values.shapes)
    known = all(name in values.numbers for name in node.input if name)
    if not fits or not known or (node.op_type != "NonZero" and node.output[0] not in values.shapes):
        return
    try:
        results = evaluate(node, values.numbers, values.opsets)
    except Exception:  # the reference implementation raises what numpy raises; a number stays unknown
        return
    for name, array in results.items():
        if array.size <= onnx_file.SMALL:
            values.numbers[name], values.shapes[name] = array, array.shape


def _measure(node: NodeProto, values: Values) -> None:
    shape, ends = values.shapes[node.input[0]], {item.name: item.i for item in node.attribute}
    part = shape[ends.get("start", 0) : ends.get("end", len(shape))]
    array = np.array(part if node.op_type == "Shape" else prod(shape), np.int64)
    values.numbers[node.output[0]], values.shapes[node.output[0]] = array, array.shape
    values.types[node.output[0]] = TensorProto.INT64


def evaluate(node: NodeProto, numbers: dict[str, np.ndarray], opsets: dict[str, int]) -> dict[str, np.ndarray]:
    """Run one node on arrays."""
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(node, opsets=opsets).run(None, {name: numbers[name] for name in node.input if name})
    return {name: np.asarray(array) for name, array in zip(node.output, results, strict=False) if name}
