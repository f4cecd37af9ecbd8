"""Weights as integers with scales and zero points of groups: compressed-tensors, GPTQ and AWQ.

pack-quantized   `weight_packed` int32 [m, ceil(k / p)] holds p = floor(32 / bits) codes in a word, lowest bits first, each plus
                 2^(bits - 1); `weight_scale` [m, groups]; `weight_zero_point` [ceil(m / p), groups], packed along m; `weight_g_idx` [k];
                 `weight_shape` (compressed_tensors 0.9, compressors/quantized_compressors/pack_quantized.py)
int-quantized    `weight` int8 [m, k], `weight_scale` and `weight_zero_point` [m, groups]
GPTQ             `qweight` int32 [k bits / 32, m], packed along k; `qzeros` [groups, m bits / 32]; `scales` [groups, m]; `g_idx` [k].
                 Version 1 stores zero points less 1, `checkpoint_format: gptq_v2` as they are (AutoGPTQ, GPTQModel)
AWQ              `qweight` int32 [k, m / 8] of 4 bits, packed along m in the order 0, 2, 4, 6, 1, 3, 5, 7; `qzeros` [groups, m / 8];
                 `scales` [groups, m] (AutoAWQ, format `gemm`)
"""

from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import Float, Int

from dse.readers.parsed_network import WeightTensor
from dse.readers.quantized.module_tensors import (
    ModuleTensors,
    column_groups,
    dequantize,
    read_shape,
    read_whole,
    row_ranges,
    unpack_words,
)

PACKED_WIDTHS = (4, 8, 2, 3, 5, 6, 1)  # bits, the usual ones first: a short row may fit several
GPTQ_WIDTHS = (2, 4, 8)  # which divide a word; others are split over two
AWQ_PLACES = np.array([0, 4, 1, 5, 2, 6, 3, 7])  # of output channels 0 to 7 in a word
Quantization = Mapping[str, object]  # `quantization_config` of a config.json


def read_pack_quantized(tensors: ModuleTensors, _: Quantization) -> WeightTensor | None:
    """The weights of `pack-quantized`; None if the shapes of its tensors do not match."""
    shape, packed, scale = read_shape(tensors["weight_shape"]), tensors["weight_packed"], tensors["weight_scale"]
    if shape is None or packed.dtype != "int32" or len(scale.shape) != 2 or scale.shape[0] != shape[0]:
        return None
    m, k = shape
    bits = next((bits for bits in PACKED_WIDTHS if packed.shape == (m, -(-k // (32 // bits)))), None)
    zeros, order = tensors.get("weight_zero_point"), tensors.get("weight_g_idx")
    if bits is None or (zeros is not None and zeros.shape != (-(-m // (32 // bits)), scale.shape[1])):
        return None

    def slabs() -> Iterator[Float[np.ndarray, "row k"]]:
        words, scales = read_whole(packed), read_whole(scale)
        zero_codes = np.full(scales.shape, 2 ** (bits - 1)) if zeros is None else _unpack_down(read_whole(zeros), bits)[:m]
        groups = column_groups(k, scales.shape[1], None if order is None else read_whole(order))
        for rows in row_ranges(m, k):
            codes = unpack_words(words[rows], bits).reshape(-1, packed.shape[1] * (32 // bits))[:, :k]
            yield dequantize(codes, zero_codes[rows], scales[rows], groups)

    return WeightTensor(shape, _format_text(bits, scale, k, scale.shape[1], zeros is not None), slabs)


def read_int_quantized(tensors: ModuleTensors, _: Quantization) -> WeightTensor | None:
    """The weights of `int-quantized` with zero points; None if the shapes of its tensors do not match."""
    weight, scale, zeros = tensors["weight"], tensors["weight_scale"], tensors["weight_zero_point"]
    if (
        weight.dtype != "int8"
        or len(weight.shape) != 2
        or len(scale.shape) != 2
        or zeros.shape != scale.shape
        or scale.shape[0] != weight.shape[0]
    ):
        return None
    m, k = weight.shape

    def slabs() -> Iterator[Float[np.ndarray, "row k"]]:
        codes, scales, zero_codes = (read_whole(tensor) for tensor in (weight, scale, zeros))
        groups = column_groups(k, scales.shape[1], None)
        for rows in row_ranges(m, k):
            yield dequantize(codes[rows].astype(np.int32), zero_codes[rows].astype(np.int32), scales[rows], groups)

    return WeightTensor(weight.shape, _format_text(8, scale, k, scale.shape[1], True), slabs)


def read_gptq_or_awq(tensors: ModuleTensors, quantization: Quantization) -> WeightTensor | None:
    """The weights [m, k] of GPTQ or AWQ, which differ in the shapes of their tensors; None if they match neither."""
    packed, zeros, scale = tensors["qweight"], tensors["qzeros"], tensors["scales"]
    if any(len(tensor.shape) != 2 for tensor in (packed, zeros, scale)) or packed.dtype != "int32" or zeros.shape[0] != scale.shape[0]:
        return None
    m = scale.shape[1]
    bits = 32 * zeros.shape[1] // m if m else 0
    if packed.shape[1] == m and bits in GPTQ_WIDTHS and zeros.shape[1] * 32 == m * bits:
        return _read_gptq(tensors, bits, quantization.get("checkpoint_format") == "gptq_v2")
    if packed.shape[1] == zeros.shape[1] and m == 8 * zeros.shape[1]:
        return _read_awq(tensors)
    return None


def _read_gptq(tensors: ModuleTensors, bits: int, stores_zeros: bool) -> WeightTensor:
    packed, scale, order = tensors["qweight"], tensors["scales"], tensors.get("g_idx")
    k, m = packed.shape[0] * 32 // bits, scale.shape[1]

    def slabs() -> Iterator[Float[np.ndarray, "row k"]]:
        words, scales = read_whole(packed), read_whole(scale).T
        zeros = unpack_words(read_whole(tensors["qzeros"]), bits).reshape(scale.shape[0], m).T
        zeros = zeros if stores_zeros else (zeros + 1) % 2**bits
        groups = column_groups(k, scale.shape[0], None if order is None else read_whole(order))
        for rows in row_ranges(m, k):
            yield dequantize(_unpack_down(words[:, rows], bits).T, zeros[rows], scales[rows], groups)

    return WeightTensor((m, k), _format_text(bits, scale, k, scale.shape[0], True), slabs)


def _read_awq(tensors: ModuleTensors) -> WeightTensor:
    packed, scale = tensors["qweight"], tensors["scales"]
    k, m = packed.shape[0], scale.shape[1]

    def slabs() -> Iterator[Float[np.ndarray, "row k"]]:
        words, scales = read_whole(packed), read_whole(scale).T
        zeros = unpack_words(read_whole(tensors["qzeros"]), 4)[..., AWQ_PLACES].reshape(scale.shape[0], m).T
        groups = column_groups(k, scale.shape[0], None)
        for rows in row_ranges(m // 8, 8 * k):  # of words: 8 output channels each
            codes = unpack_words(words[:, rows], 4)[..., AWQ_PLACES].reshape(k, -1).T
            channels = slice(8 * rows.start, 8 * rows.stop)
            yield dequantize(codes, zeros[channels], scales[channels], groups)

    return WeightTensor((m, k), _format_text(4, scale, k, scale.shape[0], True), slabs)


def _unpack_down(words: Int[np.ndarray, "word column"], bits: int) -> Int[np.ndarray, "row column"]:
    """The codes of words that are packed along the first dimension."""
    return np.moveaxis(unpack_words(words, bits), -1, 1).reshape(-1, words.shape[1])


def _format_text(bits: int, scale: WeightTensor, k: int, groups: int, has_zeros: bool) -> str:
    """The number format as a dtype: 'int4:fp16/128z4'."""
    side = "row" if groups == 1 else str(-(-k // groups))
    return f"int{bits}:{scale.dtype}/{side}" + (f"z{bits}" if has_zeros else "")
