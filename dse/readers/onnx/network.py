"""Read the network of an ONNX file: visit its operators in order and report what became of each.

Sizes that the inputs leave open (batch, tokens, pixels) are resolved before shapes are inferred.
"""

from collections.abc import Sequence
from pathlib import Path

from onnx import GraphProto, NodeProto, ValueInfoProto

from dse.base.errors import InputError, ProblemCollector
from dse.readers.layer_rows import row_macs
from dse.readers.onnx import operators
from dse.readers.onnx.attention import input_name
from dse.readers.onnx.file import OnnxFile, load_onnx_file
from dse.readers.onnx.layers import Layer, LayerBuilder, SkippedOperatorError
from dse.readers.onnx.operators import bound_skipped, explain_skipped
from dse.readers.onnx.shapes import infer_tensor_info
from dse.readers.parsed_network import NetworkState, Operator, ParsedNetwork, Shape

Dim = int | str  # a size, its symbol, or '?' for a size without a symbol
OPEN = 0  # a size that stays open; the exporter's symbols mean nothing to the shape inference


def read_model(path: Path, shape: Shape | None) -> ParsedNetwork:
    """Read an ONNX file; `shape` is that of its first input, where the file leaves it open. Raises InputError."""
    file = load_onnx_file(path)
    batch, notes = _resolve_inputs(file.model.graph, shape, path)
    builder = LayerBuilder(file, infer_tensor_info(file), batch)
    layers, became = list[Layer](), list[Operator]()
    for node in file.nodes:
        node_layers, node_operators = _visit(node, builder)
        layers += node_layers
        became += node_operators
    _check_has_weights(path, layers, became)
    _check_weights_complete(layers)
    return ParsedNetwork(
        path, "onnx", tuple(layer.row for layer in layers),
        (NetworkState({layer.row.name: layer.weights for layer in layers if layer.weights}),), tuple(became),
        shared=builder.names.shared, notes=tuple(dict.fromkeys([*notes, *builder.notes])), parameters=_count_parameters(file),
    )  # fmt: skip


def _visit(node: NodeProto, builder: LayerBuilder) -> tuple[list[Layer], list[Operator]]:
    """The layers that a node becomes, and its operators for the report: none for a node of constants alone."""
    name, kind, info = node.name or next(iter(node.output), node.op_type), node.op_type, builder.info
    if info.constants.issuperset(node.output):
        return [], []
    is_known_domain = node.domain in operators.DOMAINS
    try:
        layers = builder.build(node) if is_known_domain else None
    except SkippedOperatorError as skip:
        macs, reason = bound_skipped(node, info, skip.reason) if skip.macs is None else (skip.macs, skip.reason)
        return [], [Operator(kind, name, "skipped", macs, reason)]
    if layers is not None:
        return layers, [Operator(kind, layer.row.name, "layer", row_macs(layer.row)) for layer in layers]
    if is_known_domain and kind in operators.FUSED:
        is_lookup = kind in operators.LOOKUPS and input_name(node, 0) in info.constants
        return [], [Operator(kind, name, "fused", reason="lookup" if is_lookup else "")]
    return [], [Operator(kind, name, "skipped", *explain_skipped(node, info, builder.batch))]


def _check_has_weights(path: Path, layers: list[Layer], became: list[Operator]) -> None:
    if any(layer.weights for layer in layers):
        return
    skipped = dict.fromkeys(f"{operator.kind}: {operator.reason}" for operator in became if operator.became == "skipped")
    what = "has no layer with weights that can be read" + "".join(f" ({reason})" for reason in list(skipped)[:3])
    raise InputError(what, "see that it is the network, and not a part of it", path)


def _check_weights_complete(layers: list[Layer]) -> None:
    """Raise InputError for every weight whose data is missing or short, before hours of reading the others."""
    problems = ProblemCollector()
    for stored in {layer.stored.name: layer.stored for layer in layers if layer.stored}.values():
        with problems.collect():
            stored.check()
    problems.raise_if_any()


def _count_parameters(file: OnnxFile) -> float:
    """Elements of the tensors that nodes use, without single numbers and batch normalisation, which exporters fold away."""
    used = {name for node in file.nodes if node.op_type != "BatchNormalization" for name in node.input}
    tensors = [tensor for name, tensor in file.tensors.items() if name in used and tensor.shape]
    return float(sum(tensor.elements for tensor in tensors if tensor.dtype.startswith(("fp", "bf", "float"))))


def _resolve_inputs(graph: GraphProto, shape: Shape | None, path: Path) -> tuple[int, list[str]]:
    """Write the sizes of all inputs into the graph; returns the batch that the graph is then for, and notes of assumptions.

    `shape` is that of the first input, where the file leaves it open. Raises InputError.
    """
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in initializers and value.type.HasField("tensor_type")]
    if not inputs:
        return 1, []
    first, notes = inputs[0], list[str]()
    sizes = _resolve_first(first, shape, path, notes)
    batch = sizes[0] if len(sizes) > 1 else 1  # a vector is one sample
    symbols: dict[Dim, int] = {dim: size for dim, size in zip(_dims(first) or (), sizes, strict=False) if dim != "?"}
    _write_sizes(first, sizes)
    for value in inputs[1:]:
        _resolve_other(value, batch, symbols, notes)
    for value in [*graph.value_info, *graph.output]:
        if (dims := _dims(value)) is not None:
            _write_sizes(value, [symbols.get(dim, OPEN) if isinstance(dim, str) else dim for dim in dims])
    return batch, notes


def _resolve_first(value: ValueInfoProto, shape: Shape | None, path: Path, notes: list[str]) -> Shape:
    """The sizes of the first input, whose first dimension is the batch."""
    dims = _dims(value)
    if shape is not None:
        _check_shape(value, dims, shape, path)
        return shape
    if dims is None or any(isinstance(dim, str) for dim in dims[1:]):
        what = f"input '{value.name}' {_format_dims(dims)} leaves sizes open"
        raise InputError(what, f"give its whole shape, as in '--shape {_example_shape(dims)}'", path)
    if dims and isinstance(dims[0], str):
        notes.append(f"input '{value.name}' {_format_dims(dims)} leaves the batch open: 1 is taken")
    return tuple(1 if isinstance(dim, str) else dim for dim in dims)


def _check_shape(value: ValueInfoProto, dims: list[Dim] | None, shape: Shape, path: Path) -> None:
    """Raise InputError if the shape that the user gives contradicts the file."""
    fits = dims is None or (len(dims) == len(shape) and all(isinstance(d, str) or d == s for d, s in zip(dims, shape, strict=True)))
    if not fits or min(shape, default=1) < 1:
        what = f"input '{value.name}' {_format_dims(dims)} cannot have the shape {'x'.join(map(str, shape))}"
        raise InputError(what, f"write one that fits, as in '--shape {_example_shape(dims)}'", path)


def _resolve_other(value: ValueInfoProto, batch: int, symbols: dict[Dim, int], notes: list[str]) -> None:
    """Resolve the symbols that an input shares with the first; sizes that stay open make operators unknown, not the whole model."""
    if (dims := _dims(value)) is None:
        notes.append(f"input '{value.name}' has no shape: what depends on it may be skipped")
        return
    leading = [symbols.get(dim, batch) if isinstance(dim, str) else dim for dim in dims[:1]]
    sizes = leading + [symbols.get(dim, OPEN) if isinstance(dim, str) else dim for dim in dims[1:]]
    if OPEN in sizes:
        notes.append(f"input '{value.name}' {_format_dims(dims)} leaves sizes open: what depends on them may be skipped")
    _write_sizes(value, sizes)


def _dims(value: ValueInfoProto) -> list[Dim] | None:
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [dim.dim_value if dim.dim_value > 0 else dim.dim_param or "?" for dim in value.type.tensor_type.shape.dim]


def _write_sizes(value: ValueInfoProto, sizes: Sequence[int]) -> None:
    dims = value.type.tensor_type.shape.dim
    del dims[:]
    for size in sizes:
        dim = dims.add()
        if size != OPEN:
            dim.dim_value = size


def _format_dims(dims: list[Dim] | None) -> str:
    return "of unknown shape" if dims is None else f"[{', '.join(map(str, dims))}]"


def _example_shape(dims: list[Dim] | None) -> str:
    """The known sizes, and usual ones for the others: one image of 224 x 224 pixels, 128 tokens."""
    if dims is None:
        return "1x3x224x224"
    usual = 224 if len(dims) > 3 else 128
    return "x".join(str(dim if isinstance(dim, int) else usual if place else 1) for place, dim in enumerate(dims))
