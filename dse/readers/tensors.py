"""Named tensors without a graph (safetensors, state dicts, arrays): which of them are layers, and of what size.

A file of weights says what is multiplied, but not how often: every layer counts as run once a sample, until a network that
knows (`like`) lends its sizes.
"""

import re
from collections.abc import Mapping
from math import prod
from pathlib import Path

from dse.errors import BadInput, Problem
from dse.network.layers import LayerRow
from dse.readers.operators import layer_name
from dse.readers.source import Operator, Source, State, Weights

LOOKUP = re.compile(r"embed(?!.*(proj|dense|linear))|\bwte\b|\bwpe\b|position|relative|token_type", re.I)
NO_WEIGHT = re.compile(
    r"(\.|^)(bias|mask|masked_bias|running_\w+|num_batches_tracked|scale|zero_point|\w*norm\w*|ln_\w+|bn\d*)(\.|$)", re.I
)
ONCE = "how often a layer runs is not in a file of weights: once a sample is assumed (give --like a network that knows)"


def source(path: Path, kind: str, tensors: Mapping[str, Weights], shared: tuple[tuple[str, ...], ...] = ()) -> Source:
    """Tensors as a network of independent layers, in the natural order of their names; raises BadInput if none is a layer."""
    rows, weights, operators = [], {}, []
    biases = {name: prod(t.shape) for name, t in tensors.items() if name.endswith("bias")}
    for name in sorted(tensors, key=_natural):
        tensor = tensors[name]
        if reason := _no_layer(name, tensor):
            operators += [] if reason == "vector" else [Operator("tensor", name, "fused", reason=reason)]
            continue
        row = _row(layer_name(name), tensor.shape, biases.get(name.removesuffix("weight") + "bias", 0))
        rows.append(row)
        weights[row.name] = tensor
        operators.append(Operator("tensor", row.name, "layer", prod(tensor.shape)))
    if not rows:
        raise BadInput([Problem("no tensor is the weight of a layer", "give one with matrices of numbers in it", path)])
    return Source(path, kind, tuple(rows), (State(weights),), tuple(operators), shared, (ONCE,))


def _no_layer(name: str, tensor: Weights) -> str:
    if len(tensor.shape) < 2:
        return "vector"
    if 0 in tensor.shape or len(tensor.shape) > 5:
        return f"shape {tensor.shape}"
    if len(tensor.shape) == 2 and LOOKUP.search(name):
        return "lookup"
    if NO_WEIGHT.search(name):
        return "bias, mask or normalisation"
    return ""


def _row(name: str, shape: tuple[int, ...], bias: int) -> LayerRow:
    m, k = shape[0], prod(shape[1:])
    if len(shape) == 2:
        return LayerRow(name=name, kind="gemm", m=m, k=k, n=1, other_parameters=bias)
    return LayerRow(name=name, kind="conv", m=m, k=k, n=1, input_elements=k, other_parameters=bias)


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers by value: layer 2 before layer 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
