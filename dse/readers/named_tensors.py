"""Turn named tensors without a graph (safetensors, state dicts, arrays) into layers, by their names and shapes.

How often a layer runs is not in a file of weights: once per sample is assumed, unless another network gives the sizes
(`dse trace --like`).
"""

import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from dse.base.errors import InputError
from dse.networks.layers import LayerRow, make_layer_row
from dse.readers.layer_rows import layer_name
from dse.readers.parsed_network import NamedTensors, NetworkState, Operator, ParsedNetwork, Shape, WeightTensor
from dse.readers.quantized.unpack import packing_notes, unpack_weights

# Names of tensors that are not the weight of a layer. Matched with the last part of the name; _TABLE_MODULE with the module before it.
_TABLE_MODULE = re.compile(r"\w*embed(ding)?s?|\w*embed_(tokens|positions)|wte|wpe|relative_attention_bias", re.I)
_TABLE = re.compile(r"\w*embed(ding)?s?|\w*_table", re.I)
_PACKED = re.compile(
    r"qweight|qzeros|g_idx|weight_packed|compressed|bitmask|row_offsets|absmax|quant_map|weight_shape|scale_packed|meta"
    r"|weight_(global_)?scale(_2|_inv)?|\w+_blocks|\w+_scales",
    re.I,
)
_OTHER = re.compile(r"\w*bias|\w*mask|\w*index|\w*_ids|\w*token|scales?|zeros|zero_points?", re.I)
_BUFFER = re.compile(r"running_(mean|var)|num_batches_tracked|\w*mask|\w*index|\w*_ids|inv_freq", re.I)
MAX_DIMENSIONS = 5  # of a weight: the kernel of a convolution over volumes
RUNS_ONCE_NOTE = "how often a layer runs is not in a file of weights: once per sample is assumed (--like takes it from another network)"


def network_from_tensors(
    path: Path, file_format: str, named: NamedTensors, quantization: Mapping[str, object] | None = None
) -> ParsedNetwork:
    """A network of independent layers; raises InputError if no tensor is the weight of a layer.

    Layers are in the order of the file, or in the natural order of their names if the file keeps none. `quantization`: the key
    `quantization_config` of a config.json that came with the file.
    """
    rows, weights, operators = [], {}, []
    tensors = unpack_weights(apply_masks(named.tensors), quantization or {})
    for name in tensors if named.ordered else sorted(tensors, key=_natural_order):
        tensor, layer = tensors[name], layer_name(name)
        if other := _operator_of_other(name, tensor):
            operators.append(other)
            continue
        bias = tensors.get(name.removesuffix("weight") + "bias")
        row = _layer_row(name if layer in weights else layer, tensor.shape, prod(bias.shape) if bias else 0)
        rows.append(row)
        weights[row.name] = tensor
        operators.append(Operator("tensor", row.name, "layer", prod(tensor.shape)))
    if not rows:
        raise InputError("no tensor is the weight of a layer", "give one with matrices of numbers in it", path)
    shared = tuple(names for group in named.shared if len(names := tuple(n for n in map(layer_name, group) if n in weights)) > 1)
    return ParsedNetwork(
        path, file_format, tuple(rows), (NetworkState(weights),), tuple(operators), shared,
        (RUNS_ONCE_NOTE, *packing_notes(named.tensors, quantization or {})), parameters=_count_parameters(tensors, named.shared),
    )  # fmt: skip


def _count_parameters(tensors: Mapping[str, WeightTensor], shared: tuple[tuple[str, ...], ...]) -> float:
    """Elements of all trained tensors, shared ones once; without batch normalisation, which exporters fold into its neighbour."""
    duplicates = {name for group in shared for name in group[1:]}
    folded = {name.removesuffix("running_mean") for name in tensors if name.endswith("running_mean")}
    shapes = {n: t.shape for n, t in tensors.items() if n not in duplicates and n.rpartition(".")[0] + "." not in folded}
    return float(sum(prod(shape) for name, shape in shapes.items() if not _is_buffer(name.rpartition(".")[2], shape)))


def _is_buffer(own_name: str, shape: Shape) -> bool:
    """Whether a tensor is not trained: running statistics, indices, masks (the causal mask of GPT-2 is called "bias")."""
    return bool(_BUFFER.fullmatch(own_name)) or (own_name == "bias" and len(shape) > 1)


def _operator_of_other(name: str, tensor: WeightTensor) -> Operator | None:
    """The operator of a tensor that is not the weight of a layer, by its own name and that of its module; None for a weight."""
    *_, module, own_name = ("", *name.split("."))
    elements, dimensions = prod(tensor.shape), len(tensor.shape)
    if dimensions < 2 or elements == 0:
        return Operator("tensor", name, "fused", reason="vector")
    if _PACKED.fullmatch(own_name):
        return Operator("tensor", name, "skipped", elements, "packed by a quantiser in an unknown way, so its zeros cannot be counted")
    if _TABLE.fullmatch(own_name) or (own_name == "weight" and dimensions == 2 and _TABLE_MODULE.fullmatch(module)):
        return Operator("tensor", name, "fused", reason="lookup")
    if tensor.shape[0] == 1 and dimensions > 2 and own_name != "weight":
        return Operator("tensor", name, "fused", reason="the same for every output")
    if _OTHER.fullmatch(own_name) or dimensions > MAX_DIMENSIONS:
        return Operator("tensor", name, "skipped", elements, "not known as a weight")
    return None


def _layer_row(name: str, shape: Shape, bias: int) -> LayerRow:
    m, k = shape[0], prod(shape[1:])
    if len(shape) == 2:
        return make_layer_row(name=name, kind="gemm", m=m, k=k, n=1, other_parameters=bias)
    return make_layer_row(name=name, kind="conv", m=m, k=k, n=1, input_elements=k, other_parameters=bias)


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key that takes numbers by value: layer 2 is before layer 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def apply_masks(tensors: Mapping[str, WeightTensor]) -> dict[str, WeightTensor]:
    """Replace pairs of `torch.nn.utils.prune`, "weight_orig" and "weight_mask", by their product."""
    products: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        plain = name.removesuffix("_orig")
        mask = tensors.get(f"{plain}_mask") if plain != name else None
        if mask and mask.shape == tensor.shape:
            products[plain] = WeightTensor(tensor.shape, tensor.dtype, lambda tensor=tensor, mask=mask: _masked_slabs(tensor, mask))
        elif not (name.endswith("_mask") and f"{name.removesuffix('_mask')}_orig" in tensors):
            products[name] = tensor
    return products


def _masked_slabs(tensor: WeightTensor, mask: WeightTensor) -> Iterator[Shaped[np.ndarray, "row ..."]]:
    """Slabs of a tensor times its mask. The slabs of the mask may have another height, since its numbers may have another width."""
    mask_slabs, mask_rows = mask.slabs(), None
    for slab in tensor.slabs():
        mask_rows = next(mask_slabs) if mask_rows is None else mask_rows
        while len(mask_rows) < len(slab):
            mask_rows = np.concatenate([mask_rows, next(mask_slabs)])
        with np.errstate(all="ignore"):  # a product that overflows is infinite, which is reported when it is counted
            product = slab * mask_rows[: len(slab)].astype(slab.dtype)
        yield product
        mask_rows = mask_rows[len(slab) :]
