"""Number formats with scales: bits of matrices of any shape, names, texts and messages."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.dtype import OperandDtypes
from dse.base.number_format import NAMED_FORMATS, number_format
from dse.sparsity.format import NMIndex
from dse.sparsity.grammar import parse

TEXTS = [
    "fp16", "int8+fp32", "int8:fp32/row", "fp8:fp32/128x128", "int4:fp16/128z4", "int4:fp16/32z4!", "fp4:e4m3/16kept+fp32", "fp6:e8m0/32",
    "int8:bf16/row+fp32", "fp4:e4m3/3",
]  # fmt: skip


def bits_block_by_block(m: int, k: int, element: int, rows: int, columns: int, of_block: int, of_matrix: int) -> int:
    """Bits of a matrix, from its definition: every element, and each block that has any element."""
    blocks = {(row // rows, column // columns) for row in range(m) for column in range(k)}
    return sum(element for _ in range(m * k)) + of_block * len(blocks) + of_matrix * (m * k > 0)


@given(m=st.integers(0, 40), k=st.integers(0, 40))
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("mxfp8", (8, 1, 32, 8, 0)),
        ("mxfp6", (6, 1, 32, 8, 0)),
        ("mxfp4", (4, 1, 32, 8, 0)),
        ("nvfp4", (4, 1, 16, 8, 32)),
        ("fp8_block", (8, 1, 128, 32, 0)),
        ("fp8:fp32/3x5", (8, 3, 5, 32, 0)),
        ("int4:g7z4", (4, 1, 7, 16 + 4, 0)),
        ("int4:g7", (4, 1, 7, 16, 0)),
        ("int8:fp32/row", (8, 1, 10**9, 32, 0)),
        ("fp8+fp32", (8, 1, 1, 0, 32)),
        ("bf16", (16, 1, 1, 0, 0)),
    ],
)
def test_bits_of_a_matrix_are_those_of_its_elements_and_blocks(text, parts, m, k):
    assert number_format(text).bits(float(m), float(k)) == bits_block_by_block(m, k, *parts)


@pytest.mark.parametrize(
    ("text", "mean"),
    [("mxfp8", 8.25), ("mxfp6", 6.25), ("mxfp4", 4.25), ("nvfp4", 4.5), ("fp8_block", 8.25), ("int4:g128", 4.125), ("int4:g32z4", 4.625)],
)
def test_the_mean_is_exact_where_blocks_divide_the_matrix(text, mean):
    """Published widths: 4.25 bits of MXFP4 and 4.5 of NVFP4 (without its fp32 scale of a matrix)."""
    form = number_format(text)
    assert form.mean_bits == mean
    assert form.bits(256.0, 1024.0) == mean * 256 * 1024 + form.matrix_bits


@given(m=st.integers(1, 10**6), k=st.integers(1, 10**6), text=st.sampled_from(TEXTS))
def test_bits_are_at_least_the_mean_and_at_most_one_block_more_per_side(m, k, text):
    form = number_format(text)
    if form.columns == np.inf:
        return
    rows, columns = ceil(m / form.rows) * form.rows, ceil(k / form.columns) * form.columns
    scales = Fraction(form.block_bits, int(form.rows * form.columns))
    assert form.element_bits * m * k + scales * m * k <= form.bits(m, k)
    assert form.bits(m, k) == form.element_bits * m * k + scales * int(rows * columns) + form.matrix_bits


def test_deepseek_weights_have_square_blocks_and_its_inputs_rows_of_128():
    """DeepSeek-V3, arXiv 2412.19437, section 3.3.2; 129 rows and columns need four blocks of weights, and 2 x 129 of inputs."""
    weights, inputs = (number_format("fp8_block128", role) for role in ("weights", "activations"))
    assert weights.scale_bits(129.0, 129.0) == 4 * 32
    assert inputs.scale_bits(129.0, 129.0) == 2 * 129 * 32


@pytest.mark.parametrize("text", [*TEXTS, *NAMED_FORMATS.values()])
def test_a_text_reads_back(text):
    assert str(number_format(text)) == text
    assert number_format(str(number_format(text))) == number_format(text)


def test_group_texts_are_short_for_fp16_scales():
    assert number_format("int4:g64z4") == number_format("int4:fp16/64z4")


def test_only_formats_that_say_so_need_whole_blocks():
    assert number_format("int4:g128z4").divides(100.0)
    assert not number_format("gptq").divides(100.0)
    assert number_format("gptq").divides(np.array([128.0, 100.0, 256.0])).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fp5", "unknown dtype 'fp5'; did you mean"),
        ("nvfp5", "unknown dtype 'nvfp5'; did you mean 'nvfp4'"),
        ("int4:", "'int4:' is not the text of a number format; write ELEMENT:SCALE/BLOCK, as in"),
        ("int4:g", "'int4:g' is not the text of a number format"),
        ("fp8!", "unknown dtype 'fp8!'"),
        ("int5:g128", "unknown element 'int5' of 'int5:g128'; did you mean"),
        ("fp4:e4m4/16", "unknown scale 'e4m4' of 'fp4:e4m4/16'; did you mean 'e4m3'"),
        ("fp4:e4m3/16+fp33", "unknown scale 'fp33' of"),
        ("int4:g0", "a block of 'int4:g0' has no elements; write how many elements share a scale"),
        ("fp8:fp32/0x128", "a block of 'fp8:fp32/0x128' has no elements"),
        ("fp8:fp32/2x2kept", "'fp8:fp32/2x2kept' counts the kept values of several rows"),
        ("fp4:e4m3/16z4", "'fp4:e4m3/16z4' has zero points, which only integers have"),
        ("int8:fp32/row!", "'int8:fp32/row!' needs whole blocks, and a row is always one"),
        ("nvfp4_acc16", "unknown dtype 'nvfp4_acc16'"),
        ("fp8@2:4", "'fp8@2:4' has a pattern, which 'weights' do not have; state a pattern of the cache, as in 'cache=fp8@2:4'"),
        ("fp8@4:2", "'fp8@4:2' keeps 4 of 2 elements; write N:M with 0 < N < M"),
        ("fp8@2", "'fp8@2' is not the text of a number format"),
    ],
)
def test_what_is_not_a_format_is_refused_with_a_fix(name, message):
    with pytest.raises(ValueError, match="weights") as caught:
        OperandDtypes(weights=name, activations="fp16", outputs="fp16", compute="fp16")
    assert message in str(caught.value)


def test_roles_have_their_formats():
    dtype = OperandDtypes.model_validate("bf16 weights=fp8_block128 activations=fp8_block128 cache=int4:g32")
    assert str(dtype.number_format("weights")) == "fp8:fp32/128x128"
    assert str(dtype.number_format("activations")) == "fp8:fp32/128"
    assert str(dtype.number_format("cache")) == "int4:fp16/32"
    assert OperandDtypes.model_validate(dtype.text) == dtype


@given(
    rows=st.integers(0, 40),
    columns=st.integers(0, 200),
    text=st.sampled_from(["2:4", "1:4", "4:8", "2:5"]),
    element=st.sampled_from(["fp8", "bf16"]),
)
def test_a_pattern_of_the_cache_stores_what_nm_index_stores(rows, columns, text, element):
    """The same elements and metadata as the format of sparse weights, for rows that groups need not divide."""
    pattern, numbers = parse(text), number_format(f"{element}@{text}", "cache")
    cost = NMIndex().cost(pattern, float(rows), float(columns), pattern.stored_elements(float(rows), float(columns), 1.0))
    assert numbers.bits(float(rows), float(columns)) == numbers.element_bits * cost.elements + cost.metadata_bits


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("fp8@2:4", (8 + 2) / 2),
        ("int4:g32@2:4", (4 + 2) / 2 + 16 / 32),
        ("fp4:e4m3/16kept@2:4", (4 + 2) / 2 + 8 / 32),
        ("nvfp4@1:4", 6 / 4 + 8 / 64),
    ],
)
def test_a_cache_may_have_scales_and_a_pattern(text, bits):
    numbers = number_format(text, "cache")
    assert numbers.mean_bits == bits
    assert numbers.bits(8.0, 256.0) == bits * 8 * 256 + numbers.matrix_bits
    assert number_format(str(numbers), "cache") == numbers


def test_nothing_is_computed_in_a_pattern():
    with pytest.raises(ValueError, match="'fp8@2:4' is a format of operands, in which no unit computes; write 'fp8 weights="):
        OperandDtypes.model_validate("fp8@2:4")
    assert OperandDtypes.model_validate("bf16 cache=fp8@2:4").text == "bf16 cache=fp8@2:4"


@pytest.mark.parametrize(("text", "cache"), [("bf16", "bf16"), ("int8 elementwise=bf16", "bf16"), ("bf16 cache=fp8", "fp8")])
def test_the_cache_is_stored_as_attention_reads_it_unless_it_is_stated(text, cache):
    assert str(OperandDtypes.model_validate(text).number_format("cache")) == cache
