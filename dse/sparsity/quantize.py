"""Encode real matrices in number formats with scales, dense or with the positions of a sparse format, and decode them.

The bits of the numbers are the scale of the matrix, the scales of the blocks, their zero points and the elements, in this order. Blocks and
elements are in the order of rows. A scale maps the largest magnitude of its block to the largest element: rounded to the dtype of the
scale, or for E8M0 as the OCP Microscaling Formats Specification v1.0 (section 6.3) has it, 2^(floor(log2 max) - exponent of the
largest element). With zero points, the range from the least to the largest value of a block, which includes 0, is cut into equal steps,
so that a stored zero stays zero.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from dse.base.errors import InputError
from dse.base.number_format import NumberFormat, number_format
from dse.sparsity import encoding
from dse.sparsity.format import Format, default_format
from dse.sparsity.grammar import as_pattern
from dse.sparsity.kinds import Structured
from dse.sparsity.number_codes import (
    Codes,
    Values,
    decode_float,
    decode_integer,
    encode_float,
    encode_integer,
    largest_value,
    read_codes,
    write_codes,
)
from dse.sparsity.pattern import Pattern
from dse.sparsity.rank import Bits
from dse.sparsity.tree import Mask


@dataclass(frozen=True, eq=False)
class EncodedNumbers:
    """An encoded matrix: which places are stored, and the bits of their numbers with the scales.

    `bits` are all of it: the metadata of the positions, then the numbers.
    """

    numbers: NumberFormat
    places: encoding.Encoded
    number_bits: Bits

    @property
    def bits(self) -> Bits:
        return np.concatenate([self.places.bits, self.number_bits])


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The block of each stored value, in the order of rows, and the number of blocks."""

    index: Int[np.ndarray, " number"]
    count: int


def encode_numbers(
    weights: Float[np.ndarray, "m k"], numbers: NumberFormat | str, pattern: Pattern | str = "dense", form: Format | None = None
) -> EncodedNumbers:
    """Encode `weights`, whose nonzeros are legal in `pattern`; `form` is the format of their positions, by default the usual one.

    Raises InputError: the weights are not legal or not finite, or blocks that have to divide the rows do not.
    """
    numbers, pattern = number_format(numbers) if isinstance(numbers, str) else numbers, as_pattern(pattern)
    _check_matrix(weights, numbers)
    places = encoding.encode(weights, pattern, form or default_format(pattern))
    blocks = _list_blocks(places, numbers)
    return EncodedNumbers(numbers, replace(places, values=np.ones(len(places.values), bool)), _encode(places.values, blocks, numbers))


def decode_numbers(encoded: EncodedNumbers) -> Float[np.ndarray, "m k"]:
    """Decode the weights, rounded to the format, from the bits alone."""
    blocks = _list_blocks(encoded.places, encoded.numbers)
    return encoding.decode(replace(encoded.places, values=_decode(encoded.number_bits, blocks, encoded.numbers)))


def count_number_bits(mask: Mask, numbers: NumberFormat, pattern: Pattern, form: Format) -> int:
    """Count the bits of the numbers that a format stores of a legal mask, scales included; raises InputError."""
    blocks = _list_blocks(encoding.encode(mask.astype(np.float32), pattern, form), numbers)
    return _width_of_matrix(numbers, blocks) + numbers.element_bits * len(blocks.index) + numbers.block_bits * blocks.count


def _check_matrix(weights: np.ndarray, numbers: NumberFormat) -> None:
    if not np.isfinite(weights).all():
        raise InputError("a weight is infinite or not a number", "encode finite weights")
    if numbers.group is not None:
        raise InputError(f"'{numbers}' has a pattern of a cache", "leave out '@', and give the pattern")
    if not numbers.divides(weights.shape[1]):
        what = f"rows of {weights.shape[1]} values are not a multiple of the {numbers.columns:g} that share a scale in '{numbers}'"
        raise InputError(what, "pad the rows, or leave out '!'")


def _list_blocks(places: encoding.Encoded, numbers: NumberFormat) -> _Blocks:
    """The blocks of the stored values; places beyond the matrix, in incomplete tiles, belong to the last blocks.

    Structured pruning leaves a smaller dense matrix, which is cut into blocks.
    """
    stored, shape = encoding.decode_mask(places), places.shape
    if isinstance(places.pattern, Structured):
        stored = stored[stored.any(axis=1)][:, stored.any(axis=0)]
        shape = (stored.shape[0], stored.shape[1])
    row, column = np.nonzero(stored)
    if numbers.scale is None:
        return _Blocks(np.zeros(len(row), int), 0)
    if numbers.counts_kept:
        return _list_blocks_of_rows(row, stored.sum(axis=1), numbers.columns)
    if not all(shape):
        return _Blocks(np.zeros(0, int), 0)
    height, width = int(numbers.rows), int(min(numbers.columns, shape[1]))
    down, across = -(-shape[0] // height), -(-shape[1] // width)
    return _Blocks(np.minimum(row // height, down - 1) * across + np.minimum(column // width, across - 1), down * across)


def _list_blocks_of_rows(row: np.ndarray, lengths: np.ndarray, columns: float) -> _Blocks:
    """The blocks of the stored values of each row, `columns` to a block."""
    size = int(min(columns, max(int(lengths.max(initial=0)), 1)))
    blocks = -(-lengths // size)
    place = np.arange(len(row)) - np.repeat(lengths.cumsum() - lengths, lengths)
    return _Blocks(np.repeat(blocks.cumsum() - blocks, lengths) + place // size, int(blocks.sum()))


def _width_of_matrix(numbers: NumberFormat, blocks: _Blocks) -> int:
    """Bits of the scale of the matrix; an empty one has none."""
    return numbers.matrix_bits if len(blocks.index) else 0


def _encode(values: np.ndarray, blocks: _Blocks, numbers: NumberFormat) -> Bits:
    values = values.astype(np.float64)
    lowest, highest = _block_ranges(values, blocks)
    matrix = _encode_matrix_scale(values, numbers)
    scales = _encode_scales(lowest, highest, float(_read_matrix_scale(matrix, numbers)), numbers)
    steps = _steps(scales, matrix, numbers)
    zeros = encode_integer(-lowest / steps, numbers.zero_point_bits, True) if numbers.zero_point_bits else np.zeros(0, np.uint64)
    scaled = values / _of_values(steps, blocks) + _of_values(zeros.astype(np.float64), blocks, 0.0)
    elements = _encode_elements(scaled, numbers)
    parts = ((matrix, numbers.matrix_bits), (scales, numbers.block_bits - numbers.zero_point_bits), (zeros, numbers.zero_point_bits))
    written = [write_codes(codes, width) for codes, width in (*parts, (elements, numbers.element_bits)) if width]
    return np.concatenate([np.zeros(0, bool), *written])


def _decode(bits: Bits, blocks: _Blocks, numbers: NumberFormat) -> Values:
    widths = [_width_of_matrix(numbers, blocks), (numbers.block_bits - numbers.zero_point_bits) * blocks.count]
    widths += [numbers.zero_point_bits * blocks.count * (numbers.scale is not None)]
    ends = np.cumsum(widths)
    matrix, scales, zeros, elements = np.split(bits, ends)
    matrix_scale = read_codes(matrix, numbers.matrix_bits) if len(matrix) else np.zeros(0, np.uint64)
    scale_codes = read_codes(scales, numbers.block_bits - numbers.zero_point_bits) if len(scales) else np.zeros(0, np.uint64)
    steps = _steps(scale_codes, matrix_scale, numbers)
    offsets = read_codes(zeros, numbers.zero_point_bits).astype(np.float64) if len(zeros) else np.zeros(0)
    decoded = _decode_elements(read_codes(elements, numbers.element_bits), numbers)
    return (decoded - _of_values(offsets, blocks, 0.0)) * _of_values(steps, blocks)


def _block_ranges(values: Values, blocks: _Blocks) -> tuple[Values, Values]:
    """The least and the largest value of each block, both with 0; of one block if there are no scales of blocks."""
    lowest, highest = np.zeros(max(blocks.count, 1)), np.zeros(max(blocks.count, 1))
    np.minimum.at(lowest, blocks.index, values)
    np.maximum.at(highest, blocks.index, values)
    return lowest[: blocks.count], highest[: blocks.count]


def _encode_matrix_scale(values: Values, numbers: NumberFormat) -> Codes:
    """The scale that maps the largest magnitude to the largest element times the largest e4m3 scale, if blocks have such scales."""
    if numbers.matrix_scale is None or not len(values):
        return np.zeros(0, np.uint64)
    reach = largest_value(numbers.element) * (largest_value("e4m3") if numbers.scale == "e4m3" else 1.0)
    return _encode_scale(np.abs(values).max(keepdims=True) / reach, numbers.matrix_scale)


def _encode_scales(lowest: Values, highest: Values, matrix: float, numbers: NumberFormat) -> Codes:
    if numbers.scale is None:
        return np.zeros(0, np.uint64)
    if numbers.zero_point_bits:
        return _encode_scale((highest - lowest) / (2**numbers.element_bits - 1) / matrix, numbers.scale)
    magnitude, largest = np.maximum(-lowest, highest) / matrix, largest_value(numbers.element)
    if numbers.scale == "e8m0":
        exponents = np.floor(np.log2(np.where(magnitude > 0, magnitude, 1.0))) - np.floor(np.log2(largest))
        return (np.clip(exponents, -127, 127) + 127).astype(np.uint64)
    return _encode_scale(magnitude / largest, numbers.scale)


def _encode_scale(scales: Values, name: str) -> Codes:
    """The codes of the nearest scales; 1 for blocks of zeros, and the least positive one instead of 0."""
    codes = encode_float(np.where(scales > 0, scales, 1.0), name)
    return np.where(decode_float(codes, name) > 0, codes, 1).astype(np.uint64)


def _read_matrix_scale(codes: Codes, numbers: NumberFormat) -> float:
    return float(decode_float(codes, numbers.matrix_scale)[0]) if numbers.matrix_scale is not None and len(codes) else 1.0


def _steps(scales: Codes, matrix: Codes, numbers: NumberFormat) -> Values:
    """The scale of each block times that of the matrix; of one block if there are no scales of blocks."""
    whole = _read_matrix_scale(matrix, numbers)
    return np.array([whole]) if numbers.scale is None else decode_float(scales, numbers.scale) * whole


def _of_values(of_blocks: Values, blocks: _Blocks, otherwise: float = 1.0) -> Values:
    """The number of the block of each value; `otherwise` if blocks have none."""
    return of_blocks[blocks.index] if len(of_blocks) else np.full(len(blocks.index), otherwise)


def _encode_elements(scaled: Values, numbers: NumberFormat) -> Codes:
    if numbers.element.startswith("int"):
        return encode_integer(scaled, numbers.element_bits, numbers.zero_point_bits > 0)
    return encode_float(scaled, numbers.element)


def _decode_elements(codes: Codes, numbers: NumberFormat) -> Values:
    if numbers.element.startswith("int"):
        return decode_integer(codes, numbers.element_bits, numbers.zero_point_bits > 0)
    return decode_float(codes, numbers.element)
