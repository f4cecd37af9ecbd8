"""Small ONNX files, written as exporters write them, and summaries of what was read."""

from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, save_model

from dse.readers.parsed_network import Operator, ParsedNetwork

NODE, F32 = helper.make_node, TensorProto.FLOAT
MICROSOFT = {"domain": "com.microsoft"}


def numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """An array in which no two rows and no two columns are equal."""
    return np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype)


def model(nodes: list[NodeProto], inputs: dict, tensors: dict | None = None, outputs: dict | None = None, opset: int = 20) -> ModelProto:
    """A model; `inputs` and `outputs` are shapes, or (type, shape); the default output is that of the last node."""
    initializers = [numpy_helper.from_array(array, name) for name, array in (tensors or {}).items()]
    graph = helper.make_graph(nodes, "g", _values(inputs), _values(outputs or {nodes[-1].output[0]: None}), initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _values(shapes: dict) -> list:
    typed = {
        name: value if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], list) else (F32, value)
        for name, value in shapes.items()
    }
    return [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in typed.items()]


def save(folder: Path, *args, **options) -> Path:
    save_model(model(*args, **options), path := folder / "net.onnx")
    return path


def save_external(folder: Path, *args, **options) -> Path:
    """Save the model with the data of all tensors in 'net.data'."""
    save_model(model(*args, **options), path := folder / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    return path


def sizes(source: ParsedNetwork) -> list[tuple]:
    """Name, kind and sizes of each layer: elements moved of elementwise layers, m, k, n, count and groups of others."""
    rows = source.layers
    return [
        (row.name, row.kind, row.input_elements, row.output_elements) if row.kind == "elementwise"
        else (row.name, row.kind, row.m, row.k, row.n, row.count, row.groups) for row in rows
    ]  # fmt: skip


def only(source: ParsedNetwork, became: str = "skipped") -> Operator:
    (operator,) = (operator for operator in source.operators if operator.became == became)
    return operator
