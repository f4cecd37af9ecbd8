"""Matrices in number formats with scales: encoded bits equal the formulas, and decoding restores the rounded weights."""

from itertools import product
from math import floor, log2

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.base.number_format import number_format
from dse.sparsity import apply, parse, random_mask
from dse.sparsity.format import BSR, CSR, Bitmask, Delta, default_format
from dse.sparsity.layout import scale_bits
from dse.sparsity.quantize import count_number_bits, decode_numbers, encode_numbers

NAMES = ["mxfp8", "mxfp6", "mxfp4", "nvfp4", "fp8_block", "fp8_block128", "mxint8"]
TEXTS = [
    "fp16",
    "bf16",
    "fp32",
    "fp8+fp32",
    "int8:fp32/row",
    "int4:g32",
    "int4:g7z4",
    "int4:fp32/16z8",
    "fp8:fp32/3x5",
    "fp4:e4m3/16kept",
    "int8:bf16/row+fp32",
]
SIZES = [(16, 64), (19, 27), (33, 130), (1, 1), (5, 48)]
PATTERNS = ["dense", "unstructured", "2:4", "1:8", "2:4/block:1x2", "8:2:8", "1:4x8", "block:4x8", "block:8x16/2:4", "row", "column"]
E2M1 = sorted({sign * value for sign in (1, -1) for value in (0, 0.5, 1, 1.5, 2, 3, 4, 6)})


def draw_weights(m: int, k: int, text: str, seed: int) -> np.ndarray:
    pattern, weights = parse(text), np.random.default_rng(seed).standard_normal((m, k)) * 10.0 ** (seed % 5 - 2)
    return weights if text == "dense" else weights * apply(weights, pattern, None if pattern.density is not None else 0.6)


@pytest.mark.parametrize("name", NAMES + TEXTS)
@pytest.mark.parametrize("size", SIZES)
def test_a_dense_matrix_has_the_bits_of_the_formula(name, size):
    numbers = number_format(name)
    encoded = encode_numbers(draw_weights(*size, "dense", 1), numbers)
    assert encoded.bits.size == encoded.number_bits.size == numbers.bits(*map(float, size))


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp64", np.float64), ("fp32", np.float32), ("fp16", np.float16), ("bf16", ml_dtypes.bfloat16)]
)
def test_plain_floats_are_those_of_numpy(name, dtype):
    weights = draw_weights(7, 50, "2:4", 4)
    np.testing.assert_array_equal(decode_numbers(encode_numbers(weights, name, "2:4")), weights.astype(dtype).astype(np.float64))


def test_one_scale_for_a_matrix_or_a_row_maps_its_largest_value_to_the_largest_element():
    weights = np.array([[448.0, -1.0], [2.0, 0.5]])
    np.testing.assert_array_equal(decode_numbers(encode_numbers(weights, "fp8+fp32")), weights)
    np.testing.assert_allclose(
        decode_numbers(encode_numbers(weights, "int8:fp32/row")), [[448, -448 * round(127 / 448) / 127], [2, 2 * 32 / 127]]
    )


@pytest.mark.parametrize("text", PATTERNS)
@settings(max_examples=6, deadline=None)
@given(name=st.sampled_from([*NAMES, *TEXTS]), size=st.sampled_from(SIZES[:3]), seed=st.integers(0, 5))
def test_sparse_matrices_round_trip_with_the_counted_bits(text, name, size, seed):
    """Zeros that are not stored stay zeros, and the bits are those of the formula where the pattern fixes what it stores."""
    numbers, pattern = number_format(name), parse(text)
    weights = draw_weights(*size, text, seed)
    encoded = encode_numbers(weights, numbers, pattern)
    decoded = decode_numbers(encoded)
    assert encoded.number_bits.size == count_number_bits(weights != 0, numbers, pattern, default_format(pattern))
    assert not decoded[weights == 0].any()
    if pattern.density is not None or text in ("row", "column"):
        expected = scale_bits(numbers, pattern, *map(float, size), float(encoded.places.values.size))
        assert encoded.number_bits.size == expected + numbers.element_bits * encoded.places.values.size


@pytest.mark.parametrize("text", ["2:4", "1:8", "2:4/block:1x2"])
@pytest.mark.parametrize("name", ["nvfp4", "mxfp4", "mxfp8"])
def test_2_4_in_block_scaled_formats_round_trips(text, name):
    """A scale for 16 (32) kept values, which are 32 (64) positions of 2:4: half the scales of the dense matrix."""
    weights = draw_weights(32, 256, text, 3)
    numbers, density = number_format(name), parse(text).density
    encoded = encode_numbers(weights, numbers, text)
    kept = 32 * 256 * density
    assert encoded.number_bits.size == (numbers.element_bits + 8 / numbers.columns) * kept + numbers.matrix_bits
    error = np.abs(decode_numbers(encoded) - weights)
    assert error.max() <= np.abs(weights).max() / 4  # e2m1: steps of 2 up to 6, and a scale that is rounded
    assert (decode_numbers(encoded) != 0)[weights != 0].mean() > 0.7


def rounded_nvfp4(weights: np.ndarray) -> np.ndarray:
    """NVFP4 from its definition: the nearest of 16 values times a scale, one value after the other."""
    from ml_dtypes import float8_e4m3fn

    matrix, rounded = float(np.float32(np.abs(weights).max() / (6 * 448))), np.zeros_like(weights)
    for row, start in product(range(weights.shape[0]), range(0, weights.shape[1], 16)):
        block = weights[row, start : start + 16]
        scale = float(float8_e4m3fn(np.abs(block).max() / 6 / matrix)) * matrix
        rounded[row, start : start + 16] = [scale * min(E2M1, key=lambda value: abs(value - x / scale)) for x in block]
    return rounded


def rounded_mxfp4(weights: np.ndarray) -> np.ndarray:
    """MXFP4 from section 6.3 of the specification: the scale is a power of two, and elements saturate at 6."""
    rounded = np.zeros_like(weights)
    for row, start in product(range(weights.shape[0]), range(0, weights.shape[1], 32)):
        block = weights[row, start : start + 32]
        scale = 2.0 ** (floor(log2(np.abs(block).max())) - 2)
        rounded[row, start : start + 32] = [scale * min(E2M1, key=lambda value: abs(value - x / scale)) for x in block]
    return rounded


@pytest.mark.parametrize(("name", "expected"), [("nvfp4", rounded_nvfp4), ("mxfp4", rounded_mxfp4)])
@pytest.mark.parametrize("size", [(7, 64), (3, 41)])
def test_fp4_is_the_nearest_value_of_each_block(name, expected, size):
    weights = np.random.default_rng(5).standard_normal(size)
    np.testing.assert_allclose(decode_numbers(encode_numbers(weights, name)), expected(weights), rtol=1e-12)


def test_groups_with_zero_points_cut_the_range_of_each_group():
    """By hand: values from -1 to 2 in 15 steps of 0.2 (as fp16), with the zero point 5."""
    weights = np.array([[-1.0, 0.0, 2.0, 0.31]])
    step = float(np.float16(0.2))
    encoded = encode_numbers(weights, "int4:g4z4")
    np.testing.assert_allclose(decode_numbers(encoded), step * np.array([[-5, 0, 10, 2]]))
    assert encoded.number_bits.size == 16 + 4 + 4 * 4


def test_symmetric_groups_reach_both_ends():
    np.testing.assert_allclose(decode_numbers(encode_numbers(np.array([[7.0, -7.0, 3.4, 0.0]]), "int4:g4")), [[7, -7, 3, 0]])


@pytest.mark.parametrize("name", ["mxfp8", "mxfp6", "mxfp4", "nvfp4", "fp8_block", "int4:g32", "int8:fp32/row"])
def test_what_a_format_represents_is_kept(name):
    """Rounding twice is rounding once, up to the rounding of scales."""
    weights = np.random.default_rng(7).integers(-1, 2, (9, 70)) * 0.5
    np.testing.assert_allclose(decode_numbers(encode_numbers(weights, name)), weights, rtol=1e-3)


@pytest.mark.parametrize("name", [*NAMES, "int4:g16z4"])
def test_zeros_and_tiny_and_huge_values_are_finite(name):
    weights = np.zeros((2, 64))
    weights[1] = [1e-30, 1e30] * 32
    decoded = decode_numbers(encode_numbers(weights, name))
    assert np.isfinite(decoded).all()
    assert not decoded[0].any()


@pytest.mark.parametrize("text", ["unstructured", "block:4x8", "block:8x16/2:4"])
@pytest.mark.parametrize("form", [CSR(), Bitmask(), BSR()], ids=lambda form: form.kind)
@pytest.mark.parametrize("name", ["nvfp4", "mxfp8", "fp8_block"])
def test_expected_scales_are_the_mean_over_random_masks(text, form, name):
    """80 masks, within 4 standard errors."""
    pattern, numbers, (m, k) = parse(text), number_format(name), (24, 136)
    if not form.can_store(pattern):
        return
    masks = [random_mask(pattern, m, k, 0.8, seed) for seed in range(80)]
    stored = float(encode_numbers(masks[0].astype(float), numbers, pattern, form).places.values.size)
    counted = np.array([count_number_bits(mask, numbers, pattern, form) for mask in masks]) - numbers.element_bits * stored
    expected = float(scale_bits(numbers, pattern, float(m), float(k), stored))
    assert abs(counted.mean() - expected) <= 4 * counted.std() / np.sqrt(len(counted)) + 1e-9 * expected


def test_padded_places_take_elements_and_scales():
    """A 4-bit distance stores zeros between distant weights, which blocks of kept values count."""
    weights = np.zeros((2, 64))
    weights[:, 63] = 1.0
    encoded = encode_numbers(weights, "nvfp4", "unstructured", Delta())
    assert encoded.places.values.size > 2
    np.testing.assert_allclose(decode_numbers(encoded), weights)


def test_blocks_that_have_to_divide_the_rows_are_refused():
    message = "rows of 100 values are not a multiple of the 128 that share a scale in 'int4:fp16/128z4!'; pad the rows, or leave out '!'"
    with pytest.raises(InputError, match=message):
        encode_numbers(np.ones((4, 100)), "gptq")
    assert encode_numbers(np.ones((4, 256)), "gptq").number_bits.size == 4 * (256 * 4 + 2 * 20)


def test_weights_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match="infinite or not a number"):
        encode_numbers(np.array([[np.nan]]), "nvfp4")
