"""Networks as `torch.export.save` writes them (.pt2): operators in the order in which they run, and their weights.

No code of the file is run, and PyTorch itself isn't needed: see `program`.
"""

import re
from collections import Counter
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Literal

from dse.networks.layers import LayerRow
from dse.readers import layer_rows
from dse.readers.layer_rows import Shape, Unweighted
from dse.readers.parsed_network import NetworkState, Operator, ParsedNetwork, WeightTensor
from dse.readers.pytorch import archive as torch_archive
from dse.readers.pytorch import aten
from dse.readers.pytorch import constants as torch_constants
from dse.readers.pytorch.archive import Archive
from dse.readers.pytorch.constants import Constant
from dse.readers.pytorch.program import Node


def read_exported_program(path: Path) -> ParsedNetwork:
    """The layers and weights of a `torch.export` archive; raises InputError."""
    archive = torch_archive.read(path)
    with torch_archive.refused(path):
        walk = _Walk(archive)
        for node in archive.program.nodes:
            walk.visit(node)
        shared = tuple(tuple(names) for names in walk.users.values() if len(names) > 1)
        found = tuple(walk.layers), (NetworkState(walk.weights),), tuple(walk.operators), shared, tuple(walk.notes())
        return ParsedNetwork(path, "torch.export", *found, parameters=_parameters(archive))


def _parameters(archive: Archive) -> float:
    """Elements of all parameters, each tensor once; those of batch normalisation, which exporters fold away, left out."""
    folded = {part for node in archive.program.nodes if "batch_norm" in node.kind for part in node.operands}
    own = {archive.places[name]: archive.stored[name].shape for name in archive.stored if name in archive.parameters - folded}
    return float(sum(map(prod, own.values())))


def _batch(archive: Archive) -> tuple[int, str]:
    """Samples that the network was exported for, and the input that says so: the first that is more than one vector.

    A convolution without a dimension for samples says that there is one.
    """
    shapes = archive.program.shapes
    for node in archive.program.nodes:
        if node.kind.removeprefix("aten.") in aten.CONVOLUTIONS and len(shapes[node.args["input"]]) < len(shapes[node.args["weight"]]):
            return 1, ""
    return next(((shapes[name][0] or 1, name) for name in archive.inputs if len(shapes[name]) > 1), (1, ""))


class _Walk:
    """Visits the operators one by one; keeps the rows that they become, the weights of these and what became of each operator."""

    def __init__(self, archive: Archive):
        self.archive, self.shapes = archive, archive.program.shapes
        self.batch, self.input = _batch(archive)
        self.unweighted = Unweighted(self.batch)
        self.constants = {name: Constant(name, weights.shape, name in archive.parameters) for name, weights in archive.stored.items()}
        self.layers: list[LayerRow] = []
        self.weights: dict[str, WeightTensor] = {}
        self.operators: list[Operator] = []
        self.users: dict[object, list[str]] = {}  # layers by the tensor that they use
        self.made: dict[str, int] = {}  # rows by the tensors that are their outputs, maybe in another shape
        self.met = Counter[str]()
        self.underived: list[str] = []

    def visit(self, node: Node) -> None:
        namespace, _, name = node.kind.partition(".")
        name = aten.plain(name)
        if namespace in ("_operator", "math", "torch") or (namespace == "aten" and name in aten.BOOKKEEPING):
            return
        visitor = self._visitor(name) if namespace == "aten" else None
        if any(0 in self.shapes.get(part, ()) for part in (*node.operands, *node.outputs[:1])):
            self._note(node, "fused", reason="empty")
        elif visitor:
            visitor(node)
        elif node.operands and all(part in self.constants for part in node.operands):
            self.constants |= dict(zip(node.outputs, torch_constants.fold(node, self.constants, self.shapes), strict=True))
            self._note(node, "fused", reason="on weights alone")
        elif namespace == "aten" and name in aten.LOOKUPS:
            self._note(node, "fused", reason="lookup")
        elif (namespace == "aten" and name in aten.FUSED) or namespace == "quantized_decomposed":
            self._fused(node, name)
        else:
            self._unknown(node)

    def _fused(self, node: Node, name: str) -> None:
        """Part of its neighbour; of that neighbour's row, if it adds the bias."""
        self._note(node, "fused")
        row = next((self.made[part] for part in node.operands if part in self.made), None)
        if row is None:
            return
        if name in aten.RESHAPES:
            self.made[node.outputs[0]] = row
        elif name == "add" and (bias := sum(self._elements(part) for part in node.operands)) == self.layers[row].m:
            parameters = self.layers[row].other_parameters + bias
            self.layers[row] = self.layers[row].model_copy(update={"other_parameters": parameters})

    def _visitor(self, name: str) -> Callable[[Node], None] | None:
        """What reads an operator that multiplies or that runs by itself."""
        for names, visitor in (
            (("linear",), self._linear), (aten.PRODUCTS, self._product), (aten.CONVOLUTIONS, self._convolution),
            (aten.ATTENTIONS, self._attention), (aten.SOFTMAXES | aten.NORMS, self._bandwidth_bound), (("einsum",), self._einsum),
            (aten.TRANSPOSED_CONVOLUTIONS, self._transposed_convolution), (aten.RECURRENT, self._recurrent),
            (aten.UNSUPPORTED, self._unknown),
        ):  # fmt: skip
            if name in names:
                return visitor
        return None

    def _linear(self, node: Node) -> None:
        inputs, weight = self.shapes[node.args["input"]], self.constants.get(node.args["weight"])
        if weight:
            self._weighted(node, weight if len(weight.shape) > 1 else weight.reshaped((1, *weight.shape)), node.args.get("bias"))
            return
        m, k = self.shapes[node.args["weight"]]
        self._unweighted_product(node, (prod(inputs[:-1]), k), (k, m))

    def _product(self, node: Node) -> None:
        left, right = (node.args[factor] for factor in aten.PRODUCTS[aten.plain(node.kind.partition(".")[2])])
        bias = node.args.get("bias", node.args.get("self") if "mat1" in node.args else None)
        if right in (weights := self._weight_factors(left, right)):
            weight = self.constants[right].matrices()
            column = len(weight.shape) == 1
            self._weighted(node, weight.reshaped((1, *weight.shape)) if column else weight.transposed(), bias)
        elif left in weights:
            weight = self.constants[left].matrices()
            self._weighted(node, weight if len(weight.shape) > 1 else weight.reshaped((1, *weight.shape)), bias)
        else:
            self._unweighted_product(node, self.shapes[left], self.shapes[right])

    def _weight_factors(self, *factors: str) -> list[str]:
        """Those that are weights: parameters first, then other tensors that the network holds, if they are matrices."""
        constants = {factor: self.constants[factor] for factor in factors if factor in self.constants}
        parameters = [factor for factor, constant in constants.items() if constant.parameter]
        return parameters[-1:] or [factor for factor, constant in constants.items() if len(constant.shape) <= 2][-1:]

    def _weighted(self, node: Node, weight: Constant, bias: str | None) -> None:
        """`weight` is [..., m, k]; several matrices, each with inputs of its own, are groups."""
        *leading, m, k = weight.shape
        groups = prod(leading)
        outputs = (prod(self.shapes[node.outputs[0]]) // (groups * m), groups * m)
        row = layer_rows.linear(self._named(weight), (groups * m, k), outputs, self.batch)
        row = row.model_copy(update={"groups": groups, "other_parameters": self._elements(bias)})
        self._keep(node, row, weight.reshaped((groups * m, k)))

    def _unweighted_product(self, node: Node, left: Shape, right: Shape) -> None:
        left, right = left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1)
        count = prod(self.shapes[node.outputs[0]]) // (left[-2] * right[-1])
        self._add(node, [self.unweighted.matmul(left, right, (count, left[-2], right[-1]))])

    def _convolution(self, node: Node) -> None:
        weight = self.constants.get(node.args["weight"])
        inputs, outputs = (self._with_samples(name, node) for name in (node.args["input"], node.outputs[0]))
        if node.args.get("transposed"):
            self._transposed_convolution(node)
        elif weight is None:
            macs = prod(outputs) * prod(self.shapes[node.args["weight"]][1:]) / self.batch
            self._note(node, "skipped", macs, "a convolution by activations")
        else:
            groups = int(node.args.get("groups", 1))
            row = layer_rows.convolution(self._named(weight), weight.shape, inputs, outputs, groups, self.batch)
            self._keep(node, row.model_copy(update={"other_parameters": self._elements(node.args.get("bias"))}), weight)

    def _transposed_convolution(self, node: Node) -> None:
        """Each weight meets each pixel of its input channel once."""
        macs = prod(self.shapes[node.args["weight"]]) * prod(self._with_samples(node.args["input"], node)[2:])
        samples = self._with_samples(node.args["input"], node)[0]
        self._note(node, "skipped", macs * samples / self.batch, "a transposed convolution")

    def _with_samples(self, name: str, node: Node) -> Shape:
        """The shape of an input or output of a convolution, with its dimension for samples."""
        shape = self.shapes[name]
        return shape if len(shape) == len(self.shapes[node.args["weight"]]) else (1, *shape)

    def _attention(self, node: Node) -> None:
        query, key, value = ((1, 1, 1, *self.shapes[node.args[name]]) for name in ("query", "key", "value"))
        query, key, value = ((prod(shape[:-3]), *shape[-3:]) for shape in (query, key, value))
        self._add(node, self.unweighted.attention(query, key, value))

    def _bandwidth_bound(self, node: Node) -> None:
        kind = "softmax" if aten.plain(node.kind.partition(".")[2]) in aten.SOFTMAXES else "norm"
        self._add(node, [self.unweighted.bandwidth_bound(kind, self.shapes[node.operands[0]], self.shapes[node.outputs[0]])])

    def _einsum(self, node: Node) -> None:
        shapes = [self.shapes[name] for name in node.operands]
        if len(shapes) < 2:
            self._note(node, "fused")
            return
        sizes = _index_sizes(node.args["equation"], shapes)
        self._note(node, "skipped", prod(sizes.values()) / self.batch, f"einsum '{node.args['equation']}'")

    def _recurrent(self, node: Node) -> None:
        """Each matrix multiplies each position."""
        matrices = sum(self.constants[name].elements for name in node.operands if len(self._constant_shape(name)) > 1)
        positions = prod(self.shapes[node.operands[0]][:-1])
        self._note(node, "skipped", matrices * positions / self.batch, "a recurrent network")

    def _unknown(self, node: Node) -> None:
        """Parameters that it takes multiply at least once each; of other libraries, tensors of every kind that are no vectors."""
        foreign = not node.kind.startswith("aten.")
        known = [self.constants[name] for name in dict.fromkeys(node.operands) if name in self.constants]
        weights = [one for one in known if one.parameter or (foreign and len(one.shape) > 1)]
        reason = "unknown operator"
        if node.kind.startswith("higher_order."):
            reason = "its branches are not looked into"
        elif aten.plain(node.kind.partition(".")[2]) in aten.UNSUPPORTED:
            reason = "no formula for it"
        if weights:
            reason += "; at least one multiply-add for each of its parameters"
        self._note(node, "skipped", sum(one.elements for one in weights), reason)

    def _constant_shape(self, name: str) -> Shape:
        return self.constants[name].shape if name in self.constants else ()

    def _elements(self, bias: str | None) -> int:
        return self.constants[bias].elements if bias in self.constants else 0

    def _named(self, weight: Constant) -> str:
        """A layer is called as its tensor, its second use "name#2"; masked and parametrised ones as without."""
        tensor = self.archive.names[weight.stored]
        tensor = re.sub(r"parametrizations\.(\w+)\.original\d*$", r"\1", tensor).removesuffix("_orig")
        name = layer_rows.layer_name(tensor)
        self.met[name] += 1
        return name if self.met[name] == 1 else f"{name}#{self.met[name]}"

    def _keep(self, node: Node, row: LayerRow, weight: Constant) -> None:
        """A layer with weights."""
        use = (self.archive.places.get(weight.stored, weight.stored), weight.steps)
        self.users.setdefault(use, []).append(row.name)
        if weights := torch_constants.weights(weight, self.archive.stored):
            self.weights[row.name] = weights
        else:
            self.underived.append(f"the weights of '{row.name}' are made by {weight.unknown}, so their zeros are not known")
        self._add(node, [row])
        self.made[node.outputs[0]] = len(self.layers) - 1

    def _add(self, node: Node, rows: list[LayerRow]) -> None:
        self.layers += rows
        macs = sum((row.m or 0) * (row.k or 0) * (row.n or 0) * row.count for row in rows if row.kind != "elementwise")
        self.operators.append(Operator(node.kind, rows[0].name if len(rows) == 1 else node.name, "layer", macs))

    def _note(self, node: Node, became: Literal["fused", "skipped"], macs: float = 0.0, reason: str = "") -> None:
        self.operators.append(Operator(node.kind, node.name, became, macs, reason))

    def notes(self) -> list[str]:
        """What had to be assumed."""
        program, found = self.archive.program, self.underived
        if self.batch > 1:
            found = [f"sizes are of one of {self.batch} samples, which is the first dimension of '{self.input}'", *found]
        if program.dynamic:
            sizes = ", ".join(f"{symbol} = {value}" for symbol, value in program.dynamic.items())
            found = [*found, f"dynamic sizes are those of the export: {sizes}"]
        if program.unknown:
            found = [*found, f"taken as 1, since only running the network would tell: {', '.join(sorted(program.unknown))}"]
        return found


def _index_sizes(equation: str, shapes: list[Shape]) -> dict[str, int]:
    """The size of each index of an einsum; the dimensions of an ellipsis are numbered from the last."""
    sizes: dict[str, int] = {}
    for term, shape in zip(equation.partition("->")[0].replace(" ", "").split(","), shapes, strict=True):
        before, dots, after = term.partition("...")
        inner = [str(place) for place in range(len(shape) - len(before) - len(after), 0, -1)] if dots else []
        for index, length in zip([*before, *inner, *after], shape, strict=True):
            sizes[index] = max(length, sizes.get(index, 1))
    return sizes
