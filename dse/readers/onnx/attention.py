"""Attention operators of ONNX and onnxruntime: shapes of their query, key and value heads."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from onnx import NodeProto

from dse.readers.parsed_network import Shape

OPERATORS = ("Attention", "MultiHeadAttention", "GroupQueryAttention")


class Heads(NamedTuple):
    """Shapes [batch, heads, tokens, width]."""

    query: Shape
    key: Shape
    value: Shape


def integer_attributes(node: NodeProto) -> dict[str, int]:
    return {item.name: item.i for item in node.attribute}


def input_name(node: NodeProto, place: int) -> str:
    """The tensor at one of a node's inputs, '' if there is none."""
    return node.input[place] if place < len(node.input) else ""


def attention_heads(node: NodeProto, shapes: Mapping[str, Shape], values: Mapping[str, np.ndarray]) -> Heads:
    """The heads of an attention operator; raises LookupError if a shape that they depend on is not known."""
    if node.op_type == "GroupQueryAttention":
        return _grouped_heads(node, shapes, values)
    if node.op_type == "MultiHeadAttention":
        return _multi_head_heads(node, shapes)
    return _projected_heads(node, shapes) if node.domain == "com.microsoft" else _standard_heads(node, shapes)


def _split_heads(shape: Shape, heads: int) -> Shape:
    """[batch, tokens, heads * width] as [batch, heads, tokens, width]."""
    return shape if len(shape) == 4 else (shape[0], heads, shape[1], shape[2] // heads)


def _add_tokens(shape: Shape, tokens: int) -> Shape:
    return (*shape[:2], shape[2] + tokens, shape[3])


def _past_tokens(node: NodeProto, place: int, shapes: Mapping[str, Shape]) -> int:
    """Tokens of earlier steps, whose keys are one of the inputs."""
    return shapes[name][-2] if (name := input_name(node, place)) else 0


def _standard_heads(node: NodeProto, shapes: Mapping[str, Shape]) -> Heads:
    attributes, past = integer_attributes(node), _past_tokens(node, 4, shapes)
    query, key, value = (shapes[name] for name in node.input[:3])
    heads, kv_heads = attributes.get("q_num_heads", 0), attributes.get("kv_num_heads", 0)
    key, value = _split_heads(key, kv_heads), _split_heads(value, kv_heads)
    return Heads(_split_heads(query, heads), _add_tokens(key, past), _add_tokens(value, past))


def _projected_heads(node: NodeProto, shapes: Mapping[str, Shape]) -> Heads:
    """onnxruntime's Attention computes query, key and value from one input, with a weight of its own."""
    (batch, tokens, _), heads = shapes[node.input[0]], integer_attributes(node)["num_heads"]
    query, key, value = ((batch, heads, tokens, width // heads) for width in _projection_widths(node, shapes))
    past = _past_tokens(node, 4, shapes)
    return Heads(query, _add_tokens(key, past), _add_tokens(value, past))


def _projection_widths(node: NodeProto, shapes: Mapping[str, Shape]) -> Shape:
    widths = next((tuple(item.ints) for item in node.attribute if item.name == "qkv_hidden_sizes"), ())
    return widths or (shapes[node.input[1]][-1] // 3,) * 3


def _multi_head_heads(node: NodeProto, shapes: Mapping[str, Shape]) -> Heads:
    """Query, key and value apart, or packed: [batch, tokens, heads, 3, width], or key and value [batch, tokens, heads, 2, width]."""
    heads, query, past = integer_attributes(node)["num_heads"], shapes[node.input[0]], _past_tokens(node, 6, shapes)
    if len(query) == 5:
        shape = (query[0], query[2], query[1], query[4])
        return Heads(shape, _add_tokens(shape, past), _add_tokens(shape, past))
    key = shapes[input_name(node, 1)]
    if len(key) == 5:
        key = value = (key[0], key[2], key[1], key[4])
    else:
        key, value = _split_heads(key, heads), _split_heads(shapes[input_name(node, 2)], heads)
    return Heads(_split_heads(query, heads), _add_tokens(key, past), _add_tokens(value, past))


def _grouped_heads(node: NodeProto, shapes: Mapping[str, Shape], values: Mapping[str, np.ndarray]) -> Heads:
    attributes, (batch, tokens, width) = integer_attributes(node), shapes[node.input[0]]
    heads, kv_heads = attributes["num_heads"], attributes["kv_num_heads"]
    is_packed = not input_name(node, 1)  # query, key and value in one input
    width //= heads + 2 * kv_heads if is_packed else heads
    total = values.get(input_name(node, 6))
    keys = int(total.item()) if total is not None else tokens + _past_tokens(node, 3, shapes)
    key = (batch, kv_heads, keys, width)
    return Heads((batch, heads, tokens, width), key, key)
