"""Replace the packed tensors of every module by its weight, where their packing is published; others are left as they are."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dse.readers.parsed_network import WeightTensor
from dse.readers.quantized.bitmask import read_bitmask
from dse.readers.quantized.floats import read_expert_blocks, read_packed_fp4
from dse.readers.quantized.integers import Quantization, read_gptq_or_awq, read_int_quantized, read_pack_quantized
from dse.readers.quantized.module_tensors import ModuleTensors

SCALES = {
    "weight_scale", "weight_scale_2", "weight_scale_inv", "weight_zero_point", "weight_global_scale", "weight_shape", "weight_g_idx",
    "input_scale", "input_global_scale", "input_zero_point", "output_scale",
}  # fmt: skip
GPTQ_NOTE = "GPTQ zero points are taken as stored less 1, as in version 1 of the format: no config.json says otherwise"


class _Packing(NamedTuple):
    """A published packing: the tensors that it needs, those that it may have, and its reader."""

    needed: frozenset[str]
    others: frozenset[str]
    read: Callable[[ModuleTensors, Quantization], WeightTensor | None]


PACKINGS = tuple(
    _Packing(frozenset(needed.split()), frozenset(others.split()) | SCALES, read)
    for needed, others, read in (
        ("shape bitmask compressed", "row_offsets", lambda tensors, _: read_bitmask(tensors)),
        ("weight_packed weight_scale weight_shape", "", read_pack_quantized),
        ("weight_packed weight_scale", "", read_packed_fp4),
        ("weight weight_scale weight_scale_2", "", read_packed_fp4),
        ("weight weight_scale weight_zero_point", "", read_int_quantized),
        ("qweight qzeros scales", "g_idx", read_gptq_or_awq),
    )
)


def unpack_weights(tensors: Mapping[str, WeightTensor], quantization: Quantization) -> dict[str, WeightTensor]:
    """The tensors with the weights of packed modules in the place of their parts; scales of other quantised weights are left out.

    `quantization` is the `quantization_config` of the network's config.json, if there is one.
    """
    tensors = _unpack_experts(tensors)
    modules: dict[str, dict[str, WeightTensor]] = {}
    for name, tensor in tensors.items():
        module, _, own_name = name.rpartition(".")
        modules.setdefault(module, {})[own_name] = tensor
    weights = {module: _unpack_module(parts, quantization) for module, parts in modules.items()}
    unpacked: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        module, _, own_name = name.rpartition(".")
        weight, consumed = weights[module]
        if own_name not in consumed:
            unpacked[name] = tensor
        elif weight is not None:
            unpacked[module if module.endswith("weight") else f"{module}.weight" if module else "weight"] = weight
    return unpacked


def _unpack_experts(tensors: Mapping[str, WeightTensor]) -> Mapping[str, WeightTensor]:
    """The tensors with stacks of experts in the place of their blocks and scales, as in GPT-OSS."""
    stacks = {}
    for name, blocks in tensors.items():
        base = name.removesuffix("_blocks")
        scale = tensors.get(f"{base}_scales") if base != name else None
        if scale is not None and (weight := read_expert_blocks(blocks, scale)) is not None:
            stacks[base] = weight
    parts = {f"{base}{part}": base for base in stacks for part in ("_blocks", "_scales")}
    return {parts.get(name, name): stacks.get(parts.get(name, name), tensor) for name, tensor in tensors.items()}


def _unpack_module(parts: ModuleTensors, quantization: Quantization) -> tuple[WeightTensor | None, frozenset[str]]:
    """The weight of a module, and the tensors that are parts of it."""
    for packing in PACKINGS:
        if packing.needed <= parts.keys() and (weight := packing.read(parts, quantization)) is not None:
            return weight, packing.needed | packing.others
    return None, frozenset(SCALES) if "weight" in parts and parts["weight"].dtype in ("fp8", "int8") else frozenset()


def packing_notes(tensors: Mapping[str, WeightTensor], quantization: Quantization) -> tuple[str, ...]:
    """What is assumed of packed tensors."""
    has_gptq = any(name.rpartition(".")[2] == "qweight" for name in tensors) and any(name.endswith("g_idx") for name in tensors)
    return (GPTQ_NOTE,) if has_gptq and not quantization else ()
