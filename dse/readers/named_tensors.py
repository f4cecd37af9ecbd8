"""Named tensors without a graph (safetensors, state dicts, arrays): which of them are layers, and of what size.

A file of weights says what is multiplied, but not how often: every layer counts as run once a sample, until a network that
knows (`like`) lends its sizes.
"""

import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

import numpy as np

from dse.base.errors import InputError
from dse.networks.layers import LayerRow, make_layer_row
from dse.readers.layer_rows import layer_name
from dse.readers.parsed_network import NamedTensors, NetworkState, Operator, ParsedNetwork, WeightTensor

# What a tensor is called that is no layer's weight: by the last part of its name, and for tables by the module before it.
TABLE_MODULE = re.compile(r"\w*embed(ding)?s?|\w*embed_(tokens|positions)|wte|wpe|relative_attention_bias", re.I)
TABLE = re.compile(r"\w*embed(ding)?s?|\w*_table", re.I)
PACKED = re.compile(r"qweight|qzeros|g_idx|weight_packed|compressed|bitmask|row_offsets|absmax|quant_map|weight_scale|weight_shape", re.I)
OTHER = re.compile(r"\w*bias|\w*mask|\w*index|\w*_ids|\w*token|scales?|zeros|zero_points?", re.I)
BUFFER = re.compile(r"running_(mean|var)|num_batches_tracked|\w*mask|\w*index|\w*_ids|inv_freq", re.I)
ONCE = "how often a layer runs is not in a file of weights: once a sample is assumed (give --like a network that knows)"


def source(path: Path, kind: str, given: NamedTensors) -> ParsedNetwork:
    """Tensors as a network of independent layers; raises InputError if none is a layer.

    In the order of the file, or in the natural order of their names if it keeps none.
    """
    rows, weights, operators = [], {}, []
    tensors = unmasked(given.weights)
    for name in tensors if given.ordered else sorted(tensors, key=_natural):
        tensor, short = tensors[name], layer_name(name)
        if other := _no_layer(name, tensor):
            operators += other
            continue
        bias = tensors.get(name.removesuffix("weight") + "bias")
        row = _row(name if short in weights else short, tensor.shape, prod(bias.shape) if bias else 0)
        rows.append(row)
        weights[row.name] = tensor
        operators.append(Operator("tensor", row.name, "layer", prod(tensor.shape)))
    if not rows:
        raise InputError("no tensor is the weight of a layer", "give one with matrices of numbers in it", path)
    shared = tuple(names for group in given.shared if len(names := tuple(n for n in map(layer_name, group) if n in weights)) > 1)
    states, parameters = (NetworkState(weights),), _parameters(tensors, given.shared)
    return ParsedNetwork(path, kind, tuple(rows), states, tuple(operators), shared, (ONCE,), parameters=parameters)


def _parameters(tensors: Mapping[str, WeightTensor], shared: tuple[tuple[str, ...], ...]) -> float:
    """Elements of all tensors that training changes, shared ones once; batch normalisation, which exporters fold away, left out."""
    again = {name for group in shared for name in group[1:]}
    folded = {name.removesuffix("running_mean") for name in tensors if name.endswith("running_mean")}
    kept = {n: t.shape for n, t in tensors.items() if n not in again and n.rpartition(".")[0] + "." not in folded}
    return float(sum(prod(shape) for name, shape in kept.items() if not _is_buffer(name.rpartition(".")[2], shape)))


def _is_buffer(own: str, shape: tuple[int, ...]) -> bool:
    """Not trained: running statistics, indices, masks (GPT-2 calls its causal one "bias")."""
    return bool(BUFFER.fullmatch(own)) or (own == "bias" and len(shape) > 1)


def _no_layer(name: str, tensor: WeightTensor) -> list[Operator] | None:
    """What a tensor is that is no layer, judged by its own name and that of its module alone; None if it is one."""
    *_, module, own = ("", *name.split("."))
    size = prod(tensor.shape)
    if len(tensor.shape) < 2 or size == 0:
        return [Operator("tensor", name, "fused", reason="vector")]
    if PACKED.fullmatch(own):
        return [Operator("tensor", name, "skipped", size, "packed by a quantiser, so that its zeros can't be counted")]
    if TABLE.fullmatch(own) or (own == "weight" and len(tensor.shape) == 2 and TABLE_MODULE.fullmatch(module)):
        return [Operator("tensor", name, "fused", reason="lookup")]
    if tensor.shape[0] == 1 and len(tensor.shape) > 2 and own != "weight":
        return [Operator("tensor", name, "fused", reason="the same for every output")]
    if OTHER.fullmatch(own) or len(tensor.shape) > 5:
        return [Operator("tensor", name, "skipped", size, "not known as a weight")]
    return None


def _row(name: str, shape: tuple[int, ...], bias: int) -> LayerRow:
    m, k = shape[0], prod(shape[1:])
    if len(shape) == 2:
        return make_layer_row(name=name, kind="gemm", m=m, k=k, n=1, other_parameters=bias)
    return make_layer_row(name=name, kind="conv", m=m, k=k, n=1, input_elements=k, other_parameters=bias)


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers by value: layer 2 before layer 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def unmasked(weights: Mapping[str, WeightTensor]) -> dict[str, WeightTensor]:
    """Pairs of `torch.nn.utils.prune`, "weight_orig" and "weight_mask", as the weights that they make."""
    found: dict[str, WeightTensor] = {}
    for name, tensor in weights.items():
        plain = name.removesuffix("_orig")
        mask = weights.get(f"{plain}_mask") if plain != name else None
        if mask and mask.shape == tensor.shape:
            found[plain] = WeightTensor(tensor.shape, tensor.dtype, lambda tensor=tensor, mask=mask: _masked(tensor, mask))
        elif not (name.endswith("_mask") and f"{name.removesuffix('_mask')}_orig" in weights):
            found[name] = tensor
    return found


def _masked(tensor: WeightTensor, mask: WeightTensor) -> Iterator[np.ndarray]:
    """Both in pieces, cut alike: their numbers may differ in size."""
    pieces, rest = mask.slabs(), None
    for slab in tensor.slabs():
        rest = next(pieces) if rest is None else rest
        while len(rest) < len(slab):
            rest = np.concatenate([rest, next(pieces)])
        with np.errstate(all="ignore"):  # a product that overflows is infinite, which is told where it is counted
            product = slab * rest[: len(slab)].astype(slab.dtype)
        yield product
        rest = rest[len(slab) :]
