"""Read the network of an ONNX file: visit its operators in order and report what became of each."""

from pathlib import Path

from onnx import NodeProto

from dse.base.errors import InputError, ProblemCollector
from dse.readers.layer_rows import row_macs
from dse.readers.onnx import operators
from dse.readers.onnx.attention import input_name
from dse.readers.onnx.file import OnnxFile, load_onnx_file
from dse.readers.onnx.inputs import resolve_inputs
from dse.readers.onnx.layers import Layer, LayerBuilder, SkippedOperatorError
from dse.readers.onnx.operators import bound_skipped, explain_skipped
from dse.readers.onnx.shapes import infer_tensor_info
from dse.readers.parsed_network import NetworkState, Operator, ParsedNetwork, Shape


def read_model(path: Path, shape: Shape | None) -> ParsedNetwork:
    """Read an ONNX file; `shape` is that of its first input, where the file leaves it open. Raises InputError."""
    file = load_onnx_file(path)
    batch, notes = resolve_inputs(file.model.graph, shape, path)
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
