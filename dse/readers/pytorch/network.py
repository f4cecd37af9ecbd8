"""Read networks as `torch.export.save` writes them (.pt2): operators in the order in which they run, and their weights.

No code of the file is run, and PyTorch itself is not needed: see `program`.
"""

import re
from collections import Counter
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Literal

from dse.networks.layers import LayerRow
from dse.readers.layer_rows import UnweightedRows, convolution_row, einsum_macs, layer_name, linear_row, row_macs
from dse.readers.parsed_network import NetworkState, Operator, ParsedNetwork, Shape, WeightTensor
from dse.readers.pytorch import aten
from dse.readers.pytorch.archive import ExportedArchive, archive_errors, read_archive
from dse.readers.pytorch.constants import Constant, constant_weights, fold
from dse.readers.pytorch.program import Node


def read_exported_program(path: Path) -> ParsedNetwork:
    """Read the layers and weights of a `torch.export` archive; raises InputError."""
    archive = read_archive(path)
    with archive_errors(path):
        builder = _NetworkBuilder(archive)
        for node in archive.program.nodes:
            builder.visit(node)
        return ParsedNetwork(
            path, "torch.export", tuple(builder.layers), (NetworkState(builder.weights),), tuple(builder.operators),
            shared=builder.shared_layers(), notes=tuple(builder.notes()), parameters=_count_parameters(archive),
        )  # fmt: skip


def _count_parameters(archive: ExportedArchive) -> float:
    """Elements of all parameters, each tensor once; without batch normalisation, which exporters fold into its neighbour."""
    folded = {operand for node in archive.program.nodes if "batch_norm" in node.kind for operand in node.operands}
    names = [name for name in archive.tensors if name in archive.parameters - folded]
    shapes = {archive.storage_keys[name]: archive.tensors[name].shape for name in names}
    return float(sum(map(prod, shapes.values())))


def _find_batch(archive: ExportedArchive) -> tuple[int, str]:
    """Samples that the network was exported for, and the input whose first dimension they are: the first that is not a vector.

    A convolution whose input has no dimension for samples means one sample, and no such input.
    """
    shapes = archive.program.shapes
    for node in archive.program.nodes:
        if node.kind.removeprefix("aten.") in aten.CONVOLUTIONS and len(shapes[node.args["input"]]) < len(shapes[node.args["weight"]]):
            return 1, ""
    return next(((shapes[name][0] or 1, name) for name in archive.inputs if len(shapes[name]) > 1), (1, ""))


def _own_name(node: Node) -> str:
    """'relu' for 'aten.relu_'."""
    return aten.plain_name(node.kind.partition(".")[2])


class _NetworkBuilder:
    """Visits the operators in order; collects the layers, their weights, and what became of each operator."""

    def __init__(self, archive: ExportedArchive):
        self.archive, self.shapes = archive, archive.program.shapes
        self.batch, self.batch_input = _find_batch(archive)
        self.unweighted = UnweightedRows(self.batch)
        self.constants = {name: Constant(name, tensor.shape, name in archive.parameters) for name, tensor in archive.tensors.items()}
        self.layers: list[LayerRow] = []
        self.weights: dict[str, WeightTensor] = {}
        self.operators: list[Operator] = []
        self._layers_of_weight: dict[object, list[str]] = {}
        self._layer_of_output: dict[str, int] = {}  # number of the layer whose output a tensor is, maybe reshaped
        self._name_uses = Counter[str]()
        self._unreadable_notes: list[str] = []

    def shared_layers(self) -> tuple[tuple[str, ...], ...]:
        """Names of layers that use the same weights."""
        return tuple(tuple(names) for names in self._layers_of_weight.values() if len(names) > 1)

    def visit(self, node: Node) -> None:
        namespace, name = node.kind.partition(".")[0], _own_name(node)
        if namespace in ("_operator", "math", "torch") or (namespace == "aten" and name in aten.BOOKKEEPING):
            return
        visitor = self._visitor(name) if namespace == "aten" else None
        if any(0 in self.shapes.get(tensor, ()) for tensor in (*node.operands, *node.outputs[:1])):
            self._add_operator(node, "fused", reason="empty")
        elif visitor:
            visitor(node)
        elif node.operands and all(operand in self.constants for operand in node.operands):
            self.constants |= dict(zip(node.outputs, fold(node, self.constants, self.shapes), strict=True))
            self._add_operator(node, "fused", reason="on weights alone")
        elif namespace == "aten" and name in aten.LOOKUPS:
            self._add_operator(node, "fused", reason="lookup")
        elif (namespace == "aten" and name in aten.FUSED) or namespace == "quantized_decomposed":
            self._visit_fused(node, name)
        else:
            self._visit_unknown(node)

    def _visitor(self, name: str) -> Callable[[Node], None] | None:
        """The method for an operator that multiplies, or that is a kernel of its own."""
        for names, visitor in (
            (("linear",), self._visit_linear), (aten.PRODUCTS, self._visit_product), (aten.CONVOLUTIONS, self._visit_convolution),
            (aten.ATTENTIONS, self._visit_attention), (aten.SOFTMAXES | aten.NORMS, self._visit_bandwidth_bound),
            (("einsum",), self._visit_einsum), (aten.TRANSPOSED_CONVOLUTIONS, self._visit_transposed_convolution),
            (aten.RECURRENT, self._visit_recurrent), (aten.UNSUPPORTED, self._visit_unknown),
        ):  # fmt: skip
            if name in names:
                return visitor
        return None

    def _visit_fused(self, node: Node, name: str) -> None:
        """A free operator; if it adds the bias of a layer, the bias belongs to the layer."""
        self._add_operator(node, "fused")
        layer = next((self._layer_of_output[operand] for operand in node.operands if operand in self._layer_of_output), None)
        if layer is None:
            return
        if name in aten.RESHAPES:
            self._layer_of_output[node.outputs[0]] = layer
        elif name == "add" and (bias := sum(self._constant_elements(operand) for operand in node.operands)) == self.layers[layer].m:
            parameters = self.layers[layer].other_parameters + bias
            self.layers[layer] = self.layers[layer].model_copy(update={"other_parameters": parameters})

    def _visit_linear(self, node: Node) -> None:
        inputs, weight = self.shapes[node.args["input"]], self.constants.get(node.args["weight"])
        if weight:
            self._add_linear(node, weight.as_row(), node.args.get("bias"))
            return
        m, k = self.shapes[node.args["weight"]]
        self._add_activation_product(node, (prod(inputs[:-1]), k), (k, m))

    def _visit_product(self, node: Node) -> None:
        """A matrix product: a linear layer if either factor is a weight."""
        left, right = (node.args[factor] for factor in aten.PRODUCTS[_own_name(node)])
        bias = node.args.get("bias", node.args.get("self") if "mat1" in node.args else None)
        weight_factor = self._find_weight_factor(left, right)
        if weight_factor is None:
            self._add_activation_product(node, self.shapes[left], self.shapes[right])
            return
        weight = self.constants[weight_factor].distinct_matrices()
        is_matrix_on_the_right = weight_factor == right and len(weight.shape) > 1
        self._add_linear(node, weight.transpose() if is_matrix_on_the_right else weight.as_row(), bias)

    def _find_weight_factor(self, *factors: str) -> str | None:
        """The factor that is a weight: preferably a parameter, else a matrix that the network holds; of two, the last."""
        constants = {factor: self.constants[factor] for factor in factors if factor in self.constants}
        parameters = [factor for factor, constant in constants.items() if constant.is_parameter]
        candidates = parameters or [factor for factor, constant in constants.items() if len(constant.shape) <= 2]
        return candidates[-1] if candidates else None

    def _visit_convolution(self, node: Node) -> None:
        weight = self.constants.get(node.args["weight"])
        inputs, outputs = (self._batched_shape(name, node) for name in (node.args["input"], node.outputs[0]))
        if node.args.get("transposed"):
            self._visit_transposed_convolution(node)
        elif weight is None:
            macs = prod(outputs) * prod(self.shapes[node.args["weight"]][1:]) / self.batch
            self._add_operator(node, "skipped", macs, "a convolution by activations")
        else:
            groups, bias = int(node.args.get("groups", 1)), self._constant_elements(node.args.get("bias"))
            row = convolution_row(self._name_layer(weight), weight.shape, inputs, outputs, groups, self.batch)
            self._add_weighted(node, row.model_copy(update={"other_parameters": bias}), weight)

    def _visit_transposed_convolution(self, node: Node) -> None:
        """Each weight multiplies each pixel of its input channel once."""
        inputs = self._batched_shape(node.args["input"], node)
        macs = prod(self.shapes[node.args["weight"]]) * prod(inputs[2:]) * inputs[0] / self.batch
        self._add_operator(node, "skipped", macs, "a transposed convolution")

    def _batched_shape(self, name: str, node: Node) -> Shape:
        """The shape of an input or output of a convolution, with its dimension for samples."""
        shape = self.shapes[name]
        return shape if len(shape) == len(self.shapes[node.args["weight"]]) else (1, *shape)

    def _visit_attention(self, node: Node) -> None:
        shapes = ((1, 1, 1, *self.shapes[node.args[name]]) for name in ("query", "key", "value"))
        query, key, value = ((prod(shape[:-3]), *shape[-3:]) for shape in shapes)
        self._add_layers(node, self.unweighted.attention(query, key, value))

    def _visit_bandwidth_bound(self, node: Node) -> None:
        kind = "softmax" if _own_name(node) in aten.SOFTMAXES else "norm"
        self._add_layers(node, [self.unweighted.bandwidth_bound(kind, self.shapes[node.operands[0]], self.shapes[node.outputs[0]])])

    def _visit_einsum(self, node: Node) -> None:
        """Skipped with its multiply-adds; with a single operand nothing is multiplied."""
        shapes = [self.shapes[name] for name in node.operands]
        if len(shapes) < 2:
            self._add_operator(node, "fused")
            return
        equation = node.args["equation"]
        self._add_operator(node, "skipped", einsum_macs(equation, shapes) / self.batch, f"einsum '{equation}'")

    def _visit_recurrent(self, node: Node) -> None:
        """Each matrix multiplies each position of the sequence."""
        matrices = [self.constants[name] for name in node.operands if name in self.constants and len(self.constants[name].shape) > 1]
        positions = prod(self.shapes[node.operands[0]][:-1])
        macs = sum(matrix.distinct_elements for matrix in matrices) * positions / self.batch
        self._add_operator(node, "skipped", macs, "a recurrent network")

    def _visit_unknown(self, node: Node) -> None:
        """Skipped: each parameter multiplies at least once; of other libraries, each held tensor that is not a vector."""
        is_foreign = not node.kind.startswith("aten.")
        operands = [self.constants[name] for name in dict.fromkeys(node.operands) if name in self.constants]
        weights = [constant for constant in operands if constant.is_parameter or (is_foreign and len(constant.shape) > 1)]
        reason = "unknown operator"
        if node.kind.startswith("higher_order."):
            reason = "its branches are not read"
        elif _own_name(node) in aten.UNSUPPORTED:
            reason = "there is no formula for it"
        if weights:
            reason += "; at least one multiply-add for each of its parameters"
        self._add_operator(node, "skipped", sum(weight.distinct_elements for weight in weights), reason)

    def _add_linear(self, node: Node, weight: Constant, bias: str | None) -> None:
        """Add a layer of weights [..., m, k]; several matrices, each with its own inputs, are groups."""
        *leading, m, k = weight.shape
        groups = prod(leading)
        outputs = (prod(self.shapes[node.outputs[0]]) // (groups * m), groups * m)
        row = linear_row(self._name_layer(weight), (groups * m, k), outputs, self.batch)
        row = row.model_copy(update={"groups": groups, "other_parameters": self._constant_elements(bias)})
        self._add_weighted(node, row, weight.reshape((groups * m, k)))

    def _add_activation_product(self, node: Node, left: Shape, right: Shape) -> None:
        left, right = left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1)
        count = prod(self.shapes[node.outputs[0]]) // (left[-2] * right[-1])
        self._add_layers(node, [self.unweighted.matmul(left, right, (count, left[-2], right[-1]))])

    def _add_weighted(self, node: Node, row: LayerRow, weight: Constant) -> None:
        key = (self.archive.storage_keys.get(weight.stored, weight.stored), weight.steps)
        self._layers_of_weight.setdefault(key, []).append(row.name)
        if weights := constant_weights(weight, self.archive.tensors):
            self.weights[row.name] = weights
        else:
            operator = weight.unknown_operator
            self._unreadable_notes.append(f"the weights of '{row.name}' are computed by {operator}, so their zeros are not known")
        self._add_layers(node, [row])
        self._layer_of_output[node.outputs[0]] = len(self.layers) - 1

    def _add_layers(self, node: Node, rows: list[LayerRow]) -> None:
        self.layers += rows
        self.operators.append(Operator(node.kind, rows[0].name if len(rows) == 1 else node.name, "layer", sum(map(row_macs, rows))))

    def _add_operator(self, node: Node, became: Literal["fused", "skipped"], macs: float = 0.0, reason: str = "") -> None:
        self.operators.append(Operator(node.kind, node.name, became, macs, reason))

    def _constant_elements(self, name: str | None) -> int:
        return self.constants[name].distinct_elements if name in self.constants else 0

    def _name_layer(self, weight: Constant) -> str:
        """The module of the weight, as if it were neither masked nor parametrised; its second use is called "name#2"."""
        tensor = self.archive.module_names[weight.stored]
        name = layer_name(re.sub(r"parametrizations\.(\w+)\.original\d*$", r"\1", tensor).removesuffix("_orig"))
        self._name_uses[name] += 1
        return name if self._name_uses[name] == 1 else f"{name}#{self._name_uses[name]}"

    def notes(self) -> list[str]:
        """Assumptions about sizes and weights."""
        program, notes = self.archive.program, []
        if self.batch > 1:
            notes.append(f"sizes are of one of {self.batch} samples, which is the first dimension of '{self.batch_input}'")
        notes += self._unreadable_notes
        if program.symbols:
            sizes = ", ".join(f"{symbol} = {value}" for symbol, value in program.symbols.items())
            notes.append(f"dynamic sizes are those of the export: {sizes}")
        if program.unknown_sizes:
            notes.append(f"taken as 1, since they are known only when the network runs: {', '.join(sorted(program.unknown_sizes))}")
        return notes
