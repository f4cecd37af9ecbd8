"""Weights in fp4 with scales of blocks: NVFP4 and MXFP4 of compressed-tensors, and NVFP4 of ModelOpt.

Two E2M1 numbers are in a byte, the first in its low half. compressed-tensors has `weight_packed` uint8 [m, k / 2] and `weight_scale`:
E4M3 [m, k / 16], or E8M0 as uint8 [m, k / 32] (formats `nvfp4-pack-quantized` and `mxfp4-pack-quantized`). ModelOpt calls the packed
numbers `weight`, and has `weight_scale_2` for the whole tensor. That scale, which has no zeros, is left out: values are relative to it.
GPT-OSS stacks the experts of a layer: `NAME_blocks` uint8 [experts, m, k / 32, 16] and `NAME_scales` uint8 [experts, m, k / 32] in MXFP4.
"""

from collections.abc import Iterator

import ml_dtypes
import numpy as np
from jaxtyping import Float, UInt8

from dse.readers.parsed_network import WeightTensor
from dse.readers.quantized.integers import Quantization
from dse.readers.quantized.module_tensors import ModuleTensors, read_whole, row_ranges


def read_packed_fp4(tensors: ModuleTensors, _: Quantization) -> WeightTensor | None:
    """The weights of NVFP4 or MXFP4; None if the shapes or dtypes of its tensors do not match."""
    packed, scale = tensors.get("weight_packed") or tensors["weight"], tensors["weight_scale"]
    if packed.dtype != "uint8" or len(packed.shape) != 2 or len(scale.shape) != 2 or scale.shape[0] != packed.shape[0]:
        return None
    m, k = packed.shape[0], 2 * packed.shape[1]
    block = {"fp8": 16, "uint8": 32}.get(scale.dtype)
    if block is None or scale.shape[1] != -(-k // block):
        return None

    def slabs() -> Iterator[Float[np.ndarray, "row k"]]:
        data, scales = read_whole(packed), _read_scales(scale)
        for rows in row_ranges(m, k):
            yield _unpack(data[rows]) * np.repeat(scales[rows], block, axis=1)[:, :k]

    return WeightTensor((m, k), "nvfp4" if block == 16 else "mxfp4", slabs)


def read_expert_blocks(blocks: WeightTensor, scale: WeightTensor) -> WeightTensor | None:
    """The weights [experts m, k] of a stack of experts in MXFP4; None if the shapes of its tensors do not match."""
    if {blocks.dtype, scale.dtype} != {"uint8"} or len(blocks.shape) != 4 or blocks.shape[3] != 16 or scale.shape != blocks.shape[:3]:
        return None
    experts, m, groups, _ = blocks.shape
    k = 32 * groups

    def slabs() -> Iterator[Float[np.ndarray, "row k"]]:
        scales, start = _read_scales(scale).reshape(-1, groups), 0
        for slab in blocks.slabs():
            data = slab.reshape(-1, k // 2)
            for rows in row_ranges(len(data), k):
                yield _unpack(data[rows]) * np.repeat(scales[start + rows.start : start + rows.stop], 32, axis=1)
            start += len(data)

    return WeightTensor((experts * m, k), "mxfp4", slabs)


def _unpack(data: UInt8[np.ndarray, "row byte"]) -> Float[np.ndarray, "row k"]:
    """The E2M1 numbers of bytes."""
    codes = np.stack([data & 15, data >> 4], axis=-1).reshape(len(data), -1).astype(np.uint8)
    return codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def _read_scales(scale: WeightTensor) -> Float[np.ndarray, "m block"]:
    values = read_whole(scale)
    return (values.view(ml_dtypes.float8_e8m0fnu) if values.dtype == np.uint8 else values).astype(np.float32)
