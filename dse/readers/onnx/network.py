"""The network of an ONNX file: every operator in turn, and what became of it."""

from dataclasses import replace
from pathlib import Path

from onnx import NodeProto

from dse.base.errors import InputError, ProblemCollector
from dse.readers.onnx import file as onnx_file
from dse.readers.onnx import inputs as onnx_inputs
from dse.readers.onnx import operators as onnx_kinds
from dse.readers.onnx import shapes as onnx_shapes
from dse.readers.onnx import skipped as onnx_skipped
from dse.readers.onnx.attention import name_of
from dse.readers.onnx.layers import Layer, NotUnderstood, Rows
from dse.readers.parsed_network import NetworkState, Operator, ParsedNetwork


def read_model(path: Path, shape: tuple[int, ...] | None) -> ParsedNetwork:
    file = onnx_file.load(path)
    batch, notes = onnx_inputs.settle(file.model.graph, shape, path)
    rows = Rows(file, onnx_shapes.infer(file), batch)
    layers, operators = list[Layer](), list[Operator]()
    for node in file.nodes:
        made, told = _understand(node, rows)
        layers += made
        operators += told
    return replace(_source(path, layers, operators, rows, notes), parameters=_parameters(file))


def _source(path: Path, layers: list[Layer], operators: list[Operator], rows: Rows, notes: list[str]) -> ParsedNetwork:
    _check(path, layers, operators)
    weights = {layer.row.name: layer.weights for layer in layers if layer.weights}
    return ParsedNetwork(
        path=path, format="onnx", layers=tuple(layer.row for layer in layers), states=(NetworkState(weights),), operators=tuple(operators),
        shared=rows.register.shared, notes=tuple(dict.fromkeys([*notes, *rows.notes])),
    )  # fmt: skip


def _parameters(file: onnx_file.File) -> float:
    """Elements of the tensors that nodes use; single numbers and batch normalisation, which exporters fold away, left out."""
    used = {name for node in file.nodes if node.op_type != "BatchNormalization" for name in node.input}
    kept = [
        stored for name, stored in file.stored.items() if name in used and stored.shape and stored.dtype.startswith(("fp", "bf", "float"))
    ]
    return float(sum(stored.elements for stored in kept))


def _check(path: Path, layers: list[Layer], operators: list[Operator]) -> None:
    """That there are weights, and all of them: better now than after an hour of reading them."""
    if not any(layer.weights for layer in layers):
        skipped = dict.fromkeys(f"{operator.kind}: {operator.reason}" for operator in operators if operator.became == "skipped")
        what = "has no layer with weights that can be read" + "".join(f" ({reason})" for reason in list(skipped)[:3])
        raise InputError(what, "see that it is the network, and not a part of it", path)
    problems = ProblemCollector()
    for stored in {layer.stored.name: layer.stored for layer in layers if layer.stored}.values():
        with problems.collect():
            stored.check()
    problems.raise_if_any()


def _understand(node: NodeProto, rows: Rows) -> tuple[list[Layer], list[Operator]]:
    """The layers that a node becomes, and what is told of it: nothing where no input changes its results."""
    name = node.name or next(iter(node.output), node.op_type)
    if rows.values.fixed.issuperset(node.output):
        return [], []
    known = node.domain in onnx_kinds.DOMAINS
    try:
        layers = rows.of(node) if known else None
    except NotUnderstood as skip:
        return [], [Operator(node.op_type, name, "skipped", *onnx_skipped.weighed(node, rows.values, skip.macs, skip.reason))]
    if layers is not None:
        return layers, [Operator(node.op_type, layer.row.name, "layer", _macs(layer)) for layer in layers]
    if known and node.op_type in onnx_kinds.FUSED:
        lookup = node.op_type in onnx_kinds.LOOKUPS and name_of(node, 0) in rows.values.fixed
        return [], [Operator(node.op_type, name, "fused", reason="lookup" if lookup else "")]
    return [], [Operator(node.op_type, name, "skipped", *onnx_skipped.verdict(node, rows.values, rows.batch))]


def _macs(layer: Layer) -> float:
    row = layer.row
    return 0.0 if row.kind == "elementwise" else float((row.m or 0) * (row.k or 0) * (row.n or 0) * row.count)
