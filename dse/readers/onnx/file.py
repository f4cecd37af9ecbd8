"""Read an ONNX file: its graph, and apart from it its tensors, so that large weights are read only when they are counted."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, SparseTensorProto, TensorProto

from dse.base.errors import InputError
from dse.readers.onnx.storage import StoredTensor, has_numbers, sparse_tensor, stored_tensor

MAX_SMALL_ELEMENTS = 4096  # of tensors that are read at once; the tensors of shape arithmetic are never larger
FIX = "export the model again (torch.onnx.export), or copy the whole file again"
_OTHER_FORMATS = {
    b"": ("is empty", "export the model again, or copy the whole file again"),
    b"PK\x03\x04": ("is a zip archive (a PyTorch checkpoint?), not an ONNX model", "export it with torch.onnx.export"),
    b"\x80\x02": ("is a Python pickle (a PyTorch checkpoint?), not an ONNX model", "export it with torch.onnx.export"),
    b"version https://git-lfs": ("is a pointer of Git LFS, not the model itself", "fetch it with 'git lfs pull'"),
}


@dataclass(frozen=True)
class OnnxFile:
    """A model whose graph has its large initializers without their data.

    `tensors`: all initializers, to be read when they are needed. `small_values`: the values of the small ones.
    """

    path: Path
    model: ModelProto
    tensors: dict[str, StoredTensor]
    small_values: dict[str, np.ndarray]

    @property
    def nodes(self) -> list[NodeProto]:
        return list(self.model.graph.node)

    @property
    def opsets(self) -> dict[str, int]:
        """Version of each operator set by domain."""
        return {"" if item.domain == "ai.onnx" else item.domain: item.version for item in self.model.opset_import}


def is_small(elements: int) -> bool:
    """Whether the values of a tensor are held in memory."""
    return elements <= MAX_SMALL_ELEMENTS


def load_onnx_file(path: Path) -> OnnxFile:
    """Read an ONNX file, without its external data; raises InputError."""
    model = _parse(path)
    detacher = _Detacher(path)
    detacher.detach_initializers(model)
    if model.functions:
        model = _inline_functions(model, path)
    detacher.lift_constants(model)
    return OnnxFile(path, model, detacher.tensors, detacher.small_values)


def _parse(path: Path) -> ModelProto:
    if not path.is_file():
        what = "is a folder, not an ONNX file" if path.is_dir() else "no such file"
        raise InputError(what, "name the .onnx file" + (" in it" if path.is_dir() else ""), path)
    with path.open("rb") as file:
        start = file.read(64)
    for magic, (what, fix) in _OTHER_FORMATS.items():
        if start.startswith(magic) if magic else not start:
            raise InputError(what, fix, path)
    try:
        model = onnx.load_model(str(path), format="protobuf", load_external_data=False)
    except DecodeError as error:
        raise InputError("is not an ONNX model, or only a part of one", FIX, path) from error
    if not all(isinstance(name, str) for name in _names(model)):  # damaged ones are bytes
        raise InputError("is a damaged ONNX model: its names are not text", FIX, path)
    if not model.graph.node or not model.opset_import:
        raise InputError("is not a whole ONNX model: it has no graph or names no operator set", FIX, path)
    return model


def _names(model: ModelProto) -> Iterator[str]:
    """Everything in a model that is a name."""
    graph = model.graph
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output, *(item.name for item in node.attribute))
        yield from (item.value for item in node.metadata_props)
    for tensor in graph.initializer:
        yield from (tensor.name, *(text for item in tensor.external_data for text in (item.key, item.value)))
    for value in [*graph.input, *graph.value_info, *graph.output]:
        yield from (value.name, *(dim.dim_param for dim in value.type.tensor_type.shape.dim))
    yield from (item.domain for item in model.opset_import)


def _inline_functions(model: ModelProto, path: Path) -> ModelProto:
    """Replace calls of functions that the model defines by their bodies."""
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # the inliner raises bare RuntimeErrors and InferenceErrors
        raise InputError(f"its functions cannot be inlined ({error})", FIX, path) from error


class _Detacher:
    """Takes the data of tensors out of a graph: shape inference copies the graph, and must not copy the weights."""

    def __init__(self, path: Path):
        self.path = path
        self.tensors: dict[str, StoredTensor] = {}
        self.small_values: dict[str, np.ndarray] = {}

    def detach_initializers(self, model: ModelProto) -> None:
        graph = model.graph
        dense, sparse = list(graph.initializer), list(graph.sparse_initializer)
        del graph.initializer[:]
        del graph.sparse_initializer[:]
        graph.initializer.extend([self._detach(tensor) for tensor in dense])
        graph.initializer.extend([self._detach_sparse(tensor) for tensor in sparse])

    def lift_constants(self, model: ModelProto) -> None:
        """Make initializers of Constant nodes that hold a tensor."""
        graph, nodes = model.graph, []
        for node in graph.node:
            value = next((item for item in node.attribute if item.name in ("value", "sparse_value")), None)
            if node.op_type != "Constant" or value is None:
                nodes.append(node)
            elif value.name == "value":
                value.t.name = node.output[0]
                graph.initializer.append(self._detach(value.t))
            else:
                value.sparse_tensor.values.name = node.output[0]
                graph.initializer.append(self._detach_sparse(value.sparse_tensor))
        if len(nodes) < len(graph.node):
            del graph.node[:]
            graph.node.extend(nodes)

    def _detach(self, tensor: TensorProto) -> TensorProto:
        """Note a tensor; returns what the graph holds in its place, which has values only if it is small."""
        stored = self.tensors[tensor.name] = stored_tensor(tensor, self.path)
        if not is_small(prod(tensor.dims)) or not has_numbers(tensor):
            return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        array = self.small_values[tensor.name] = stored.read()
        contiguous = np.ascontiguousarray(array).reshape(array.shape)  # a scalar gets an axis, which the reshape removes
        return onnx.numpy_helper.from_array(contiguous, tensor.name)

    def _detach_sparse(self, tensor: SparseTensorProto) -> TensorProto:
        values = tensor.values
        self.tensors[values.name] = sparse_tensor(tensor, self.path)
        return TensorProto(name=values.name, data_type=values.data_type, dims=tensor.dims)
