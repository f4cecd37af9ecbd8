"""Exact counts of masks against loops over all elements."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.sparsity import statistics
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import NM, Block

SIZES = ((1, 2), (1, 4), (1, 3), (2, 2), (4, 4), (3, 5))


def slabs_of(mask: np.ndarray, cuts: list[int]) -> list[np.ndarray]:
    return [part for part in np.split(mask, sorted(cuts)) if len(part)]


@st.composite
def masks(draw):
    m, k = draw(st.integers(1, 13)), draw(st.integers(1, 17))
    density = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    mask = np.random.default_rng(draw(st.integers(0, 2**32))).random((m, k)) < density
    return mask, draw(st.lists(st.integers(0, m), max_size=4))


@given(masks())
def test_counts_agree_with_loops_for_slabs_of_any_height(case):
    mask, cuts = case
    found = statistics.count_nonzeros(slabs_of(mask, cuts), mask.shape[1], SIZES)
    assert found.nnz == mask.sum()
    np.testing.assert_array_equal(found.rows, [row.sum() for row in mask])
    np.testing.assert_array_equal(found.columns, [column.sum() for column in mask.T])
    for rows, columns in SIZES:
        blocks = [mask[i : i + rows, j : j + columns].sum() for i in range(0, len(mask), rows) for j in range(0, mask.shape[1], columns)]
        np.testing.assert_array_equal(found.blocks[(rows, columns)], np.bincount(blocks, minlength=rows * columns + 1))
        assert found.occupied_blocks((rows, columns)) == sum(block > 0 for block in blocks)


@given(masks())
def test_stored_elements_agree_with_loops(case):
    mask, cuts = case
    stored = statistics.count_nonzeros(slabs_of(mask, cuts), mask.shape[1], SIZES).stored_elements()
    assert stored[parse("dense")] == mask.size
    assert stored[parse("unstructured")] == mask.sum()
    for pattern, elements in stored.items():
        if isinstance(pattern, NM):
            groups = np.pad(mask, ((0, 0), (0, -mask.shape[1] % pattern.m))).reshape(-1, pattern.m)
            assert groups.sum(axis=1).max() == pattern.n  # the tightest that holds it
            assert elements == len(groups) * pattern.n
        elif isinstance(pattern, Block) and pattern.tile != (1, 1):
            rows, columns = pattern.tile
            padded = np.pad(mask, ((0, -len(mask) % rows), (0, -mask.shape[1] % columns)))
            blocks = padded.reshape(len(padded) // rows, rows, -1, columns).any(axis=(1, 3))
            assert elements == blocks.sum() * rows * columns
        assert elements >= mask.sum()


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, np.uint8, np.bool_]
)
def test_zeros_of_every_dtype_are_recognised(dtype):
    values = np.array([[0.0, 1.0, 0.0, 2.0], [3.0, 0.0, -0.0, 0.0]]).astype(dtype)
    assert statistics.count_nonzeros([values], 4, ()).nnz == 3


def test_the_tolerance_is_inclusive_and_applies_to_magnitudes():
    values = np.array([[0.1, -0.1, 0.11, -0.2, -128.0]])
    assert statistics.count_nonzeros([values], 5, (), tolerance=0.1).nnz == 3
    assert statistics.count_nonzeros([np.array([[-128, 1]], np.int8)], 2, (), tolerance=1).nnz == 1


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_numbers_that_are_not_finite_are_refused_with_their_position(wrong, dtype):
    slabs = [np.zeros((3, 4), dtype), np.zeros((3, 4), dtype)]
    slabs[1][2, 1] = wrong
    with pytest.raises(InputError, match=r"row 5, column 1 is -?(nan|inf)"):
        statistics.count_nonzeros(slabs, 4, ())


def test_huge_but_finite_weights_are_accepted():
    assert statistics.count_nonzeros([np.full((64, 64), 3e38, np.float32)], 64, ()).nnz == 4096
