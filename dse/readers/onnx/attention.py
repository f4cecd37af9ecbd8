"""The operators that are a whole attention: which query heads see how many keys, of which width."""

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto

Shape = tuple[int, ...]
Heads = tuple[Shape, Shape, Shape]  # query, key, value: each [batch, heads, tokens, width]
OPERATORS = ("Attention", "MultiHeadAttention", "GroupQueryAttention")


def integers(node: NodeProto) -> dict[str, int]:
    return {item.name: item.i for item in node.attribute}


def name_of(node: NodeProto, place: int) -> str:
    """The tensor at one of a node's inputs, '' if there is none."""
    return node.input[place] if place < len(node.input) else ""


def heads(node: NodeProto, shapes: Mapping[str, Shape], numbers: Mapping[str, np.ndarray]) -> Heads:
    """Raises LookupError where a shape that it takes is not known."""
    if node.op_type == "GroupQueryAttention":
        return _grouped(node, shapes, numbers)
    if node.op_type == "MultiHeadAttention":
        return _multi_head(node, shapes)
    return _packed(node, shapes) if node.domain == "com.microsoft" else _standard(node, shapes)


def _split(shape: Shape, count: int) -> Shape:
    """[batch, tokens, heads * width] as [batch, heads, tokens, width]."""
    return shape if len(shape) == 4 else (shape[0], count, shape[1], shape[2] // count)


def _longer(shape: Shape, past: int) -> Shape:
    return (*shape[:2], shape[2] + past, shape[3])


def _past(node: NodeProto, place: int, shapes: Mapping[str, Shape]) -> int:
    """Tokens of earlier steps, whose keys are an input."""
    return shapes[name][-2] if (name := name_of(node, place)) else 0


def _standard(node: NodeProto, shapes: Mapping[str, Shape]) -> Heads:
    given, past = integers(node), _past(node, 4, shapes)
    query, key, value = (shapes[name] for name in node.input[:3])
    counts = given.get("q_num_heads", 0), given.get("kv_num_heads", 0)
    return _split(query, counts[0]), _longer(_split(key, counts[1]), past), _longer(_split(value, counts[1]), past)


def _packed(node: NodeProto, shapes: Mapping[str, Shape]) -> Heads:
    """onnxruntime's Attention makes query, key and value with a weight of its own."""
    (batch, tokens, _), widths, count = shapes[node.input[0]], qkv_widths(node, shapes), integers(node)["num_heads"]
    query, key, value = ((batch, count, tokens, width // count) for width in widths)
    past = _past(node, 4, shapes)
    return query, _longer(key, past), _longer(value, past)


def qkv_widths(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    sizes = next((tuple(item.ints) for item in node.attribute if item.name == "qkv_hidden_sizes"), ())
    return sizes or (shapes[node.input[1]][-1] // 3,) * 3


def _multi_head(node: NodeProto, shapes: Mapping[str, Shape]) -> Heads:
    count, query, past = integers(node)["num_heads"], shapes[node.input[0]], _past(node, 6, shapes)
    if len(query) == 5:  # [batch, tokens, heads, 3, width]
        both = (query[0], query[2], query[1], query[4])
        return both, _longer(both, past), _longer(both, past)
    key = shapes[name_of(node, 1)]
    if len(key) == 5:  # [batch, tokens, heads, 2, width]
        key = value = (key[0], key[2], key[1], key[4])
    else:
        key, value = _split(key, count), _split(shapes[name_of(node, 2)], count)
    return _split(query, count), _longer(key, past), _longer(value, past)


def _grouped(node: NodeProto, shapes: Mapping[str, Shape], numbers: Mapping[str, np.ndarray]) -> Heads:
    given, (batch, tokens, width) = integers(node), shapes[node.input[0]]
    count, shared = given["num_heads"], given["kv_num_heads"]
    width //= count if name_of(node, 1) else count + 2 * shared  # without keys of their own, all three are packed
    total = numbers.get(name_of(node, 6))
    keys = int(total.item()) if total is not None else tokens + _past(node, 3, shapes)
    key = (batch, shared, keys, width)
    return (batch, count, tokens, width), key, key
