"""An ONNX file as it lies on disk: its graph, and its tensors apart from it, so that large weights are read only when asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, SparseTensorProto, TensorProto

from dse.base.errors import InputError
from dse.readers.onnx import storage as onnx_storage
from dse.readers.onnx.storage import Stored

SMALL = 4096  # elements; what shape arithmetic needs is never larger, and is held
_EXPORT_AGAIN = "export the model again (torch.onnx.export), or copy the whole file again"
_IMPOSTORS = {
    b"": ("is empty", "export the model again, or copy the whole file again"),
    b"PK\x03\x04": ("is a zip archive (a PyTorch checkpoint?), not an ONNX model", "export it with torch.onnx.export"),
    b"\x80\x02": ("is a Python pickle (a PyTorch checkpoint?), not an ONNX model", "export it with torch.onnx.export"),
    b"version https://git-lfs": ("is a pointer of Git LFS, not the model itself", "fetch it with 'git lfs pull'"),
}


@dataclass(frozen=True)
class File:
    """`graph` holds initializers without their data, save the small ones; `stored` reads each of them, `small` has the small ones."""

    path: Path
    model: ModelProto
    stored: dict[str, Stored]
    small: dict[str, np.ndarray]

    @property
    def nodes(self) -> list[NodeProto]:
        return list(self.model.graph.node)

    @property
    def opsets(self) -> dict[str, int]:
        return {"" if item.domain == "ai.onnx" else item.domain: item.version for item in self.model.opset_import}


def load(path: Path) -> File:
    """Read an ONNX file, but none of its external data; raises InputError."""
    model = _parse(path)
    stored, small = _detach(model, path)
    if model.functions:
        model = _inlined(model, path)
    _lift_constants(model, path, stored, small)
    return File(path, model, stored, small)


def broken(path: Path, what: str, fix: str = _EXPORT_AGAIN) -> InputError:
    return InputError(what, fix, path)


def _parse(path: Path) -> ModelProto:
    if not path.is_file():
        what = "is a folder, not an ONNX file" if path.is_dir() else "no such file"
        raise broken(path, what, "name the .onnx file" + (" in it" if path.is_dir() else ""))
    with path.open("rb") as file:
        head = file.read(64)
    for magic, (what, fix) in _IMPOSTORS.items():
        if head.startswith(magic) if magic else not head:
            raise broken(path, what, fix)
    try:
        model = onnx.load_model(str(path), format="protobuf", load_external_data=False)
    except DecodeError as error:
        raise broken(path, "is not an ONNX model, or only a part of one") from error
    if not all(isinstance(text, str) for text in _texts(model)):  # damaged ones come as bytes
        raise broken(path, "is a damaged ONNX model: its names are no text")
    if not model.graph.node or not model.opset_import:
        raise broken(path, "is not a whole ONNX model: it has no graph or names no operator set")
    return model


def _texts(model: ModelProto) -> Iterator[str]:
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


def _inlined(model: ModelProto, path: Path) -> ModelProto:
    """Functions of the model's own, written out where they are called."""
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # the inliner raises bare RuntimeErrors and InferenceErrors
        raise broken(path, f"its functions cannot be inlined ({error})") from error


def _detach(model: ModelProto, path: Path) -> tuple[dict[str, Stored], dict[str, np.ndarray]]:
    """Take the data out of the graph: shape inference copies the graph, and must not copy the weights."""
    graph, stored, small = model.graph, {}, {}
    tensors, sparse = list(graph.initializer), list(graph.sparse_initializer)
    del graph.initializer[:]
    del graph.sparse_initializer[:]
    for tensor in tensors:
        graph.initializer.append(_keep(tensor, path, stored, small))
    for tensor in sparse:
        stored[tensor.values.name] = onnx_storage.scattered(tensor, path)
        graph.initializer.append(_without_data(tensor))
    return stored, small


def _keep(tensor: TensorProto, path: Path, stored: dict[str, Stored], small: dict[str, np.ndarray]) -> TensorProto:
    """Note a tensor; gives it back as the graph holds it from now on."""
    stored[tensor.name] = onnx_storage.of(tensor, path)
    if prod(tensor.dims) > SMALL or not onnx_storage.is_number(tensor):
        return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    array = small[tensor.name] = stored[tensor.name].whole()
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), tensor.name)  # a number has no axis


def _without_data(tensor: SparseTensorProto) -> TensorProto:
    return TensorProto(name=tensor.values.name, data_type=tensor.values.data_type, dims=tensor.dims)


def _lift_constants(model: ModelProto, path: Path, stored: dict[str, Stored], small: dict[str, np.ndarray]) -> None:
    """Constant nodes that hold a tensor become initializers, which is what they are."""
    graph, kept = model.graph, []
    for node in graph.node:
        value = next((item for item in node.attribute if item.name in ("value", "sparse_value")), None)
        if node.op_type != "Constant" or value is None:
            kept.append(node)
        elif value.name == "value":
            value.t.name = node.output[0]
            graph.initializer.append(_keep(value.t, path, stored, small))
        else:
            value.sparse_tensor.values.name = node.output[0]
            stored[node.output[0]] = onnx_storage.scattered(value.sparse_tensor, path)
            graph.initializer.append(_without_data(value.sparse_tensor))
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)
