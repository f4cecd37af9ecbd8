"""Multiply-adds of the ONNX operators that never become layers, so that what is left out can be weighed."""

from collections.abc import Callable, Iterator
from math import prod

from onnx import GraphProto, NodeProto

from dse.readers.onnx import operators as onnx_kinds
from dse.readers.onnx.attention import integers
from dse.readers.onnx.shapes import Values

Formula = Callable[[NodeProto, Values], float]
AT_LEAST = "at least one multiply-add for each number of its weights"


def verdict(node: NodeProto, values: Values, batch: int) -> tuple[float, str]:
    """Multiply-adds of one sample, and why the operator is skipped."""
    if (formula := _FORMULAS.get(node.op_type)) and node.domain in onnx_kinds.DOMAINS:
        try:
            return formula(node, values) / batch, "no layer of this kind"
        except (LookupError, ValueError, ArithmeticError):  # a shape is not known
            return weighed(node, values, None, "no layer of this kind, and its shapes are not known")
    return weighed(node, values, None, _reason(node))


def weighed(node: NodeProto, values: Values, macs: float | None, reason: str) -> tuple[float, str]:
    """An operator that is skipped for a reason of its own, with its multiply-adds or with the least that they can be."""
    if macs is not None:
        return macs, reason
    least = at_least(node, values)
    return least, f"{reason}: {AT_LEAST}" if least else reason


def _reason(node: NodeProto) -> str:
    place = f" of '{node.domain}'" if node.domain not in ("", "ai.onnx") else ""
    why = "unknown operator" if place or node.op_type not in _MULTIPLY else "no layer of this kind, and its multiply-adds are not counted"
    why = "its inner graphs are not read" if node.op_type in onnx_kinds.SUBGRAPHS else why
    return why + place


def at_least(node: NodeProto, values: Values) -> float:
    """Every number of a weight takes part at least once."""
    names = {*node.input, *_captured(node)}
    return float(sum(prod(values.shapes[name]) for name in names if name in values.fixed and name in values.shapes) + _inner(node))


def _graphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs inside a node, and those inside them."""
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            yield graph
            for inner in graph.node:
                yield from _graphs(inner)


def _captured(node: NodeProto) -> set[str]:
    """Tensors around a node that its inner graphs use; their own tensors may have the same names."""
    used = {name for graph in _graphs(node) for inner in graph.node for name in inner.input}
    own = {tensor.name for graph in _graphs(node) for tensor in graph.initializer}
    return used - own


def _inner(node: NodeProto) -> int:
    tensors = [tensor for graph in _graphs(node) for tensor in graph.initializer]
    constants = (item.t for graph in _graphs(node) for inner in graph.node for item in inner.attribute if item.HasField("t"))
    return sum(prod(tensor.dims) for tensor in [*tensors, *constants])


def _transposed_convolution(node: NodeProto, values: Values) -> float:
    """Each input pixel of each channel meets the whole of its kernels [channels, outputs of a group, *kernel]."""
    inputs, weight = values.shapes[node.input[0]], values.shapes[node.input[1]]
    return prod(weight) * inputs[0] * prod(inputs[2:])


def _deformed_convolution(node: NodeProto, values: Values) -> float:
    outputs, weight = values.shapes[node.output[0]], values.shapes[node.input[1]]
    return prod(weight) * outputs[0] * prod(outputs[2:])


def _recurrent(node: NodeProto, values: Values) -> float:
    """Both weights, of the input and of the state, are used at each step of each sequence."""
    steps = prod(values.shapes[node.input[0]][:2])
    return steps * sum(prod(values.shapes[name]) for name in node.input[1:3])


def _einsum(node: NodeProto, values: Values) -> float:
    """One multiply-add for each combination of indices; with a single operand nothing is multiplied."""
    if len(node.input) < 2:
        return 0.0
    equation = next(item.s.decode() for item in node.attribute if item.name == "equation")
    sizes: dict[object, int] = {}
    for term, name in zip(equation.split("->")[0].split(","), node.input, strict=True):
        for index, size in _indices(term.replace(" ", ""), values.shapes[name]):
            sizes[index] = max(size, sizes.get(index, 1))
    return float(prod(sizes.values()))


def _indices(term: str, shape: tuple[int, ...]) -> Iterator[tuple[object, int]]:
    """Letters with their sizes; '...' stands for the dimensions that are left, counted from the right."""
    before, dots, after = term.partition("...")
    if not dots and len(before) != len(shape):
        raise ValueError("the equation does not fit its operands")
    hidden = len(shape) - len(before) - len(after)
    yield from zip(before, shape, strict=False)
    yield from ((place - hidden, shape[len(before) + place]) for place in range(hidden))
    yield from zip(after, shape[len(shape) - len(after) :], strict=True)


def _narrow(node: NodeProto, values: Values) -> float:
    """onnxruntime packs the weights [N, K] of a few bits each in blocks of its own."""
    given = integers(node)
    return given["N"] * given["K"] * prod(values.shapes[node.input[0]][:-1])


_FORMULAS: dict[str, Formula] = {
    "ConvTranspose": _transposed_convolution, "DeformConv": _deformed_convolution, "LSTM": _recurrent, "GRU": _recurrent,
    "RNN": _recurrent, "Einsum": _einsum, "MatMulNBits": _narrow,
}  # fmt: skip
_MULTIPLY = frozenset(("DFT", "STFT", "Det", "LinearAttention", "CausalConvWithState", "AffineGrid"))  # known, but not counted
