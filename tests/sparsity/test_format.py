"""Bits of each format against counts made from a real mask, and against the published closed forms."""

from math import ceil, comb, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.sparsity.format import BSR, CSR, Bitmask, Combinatorial, NMIndex, default_format
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import DENSE, NM, UNSTRUCTURED, Block

CONTRACT = [(CSR(), UNSTRUCTURED), (CSR(), NM(2, 4)), (BSR(), Block(4, 2)), (NMIndex(), NM(1, 8))]
CONTRACT += [(kind(), pattern) for kind in (Bitmask, Combinatorial) for pattern in (UNSTRUCTURED, Block(4, 2), NM(2, 4))]


@pytest.mark.parametrize(("form", "pattern"), CONTRACT, ids=str)
@given(m=st.integers(1, 100).map(lambda tiles: 4 * tiles), k=st.integers(8, 500), density=st.floats(0.0, 1.0))
def test_every_format_needs_bits_and_more_for_more(form, pattern, m, k, density):
    assert form.accepts(pattern)
    m, k = float(m), float(k)
    stored = pattern.stored(m, k, density)
    bits = form.metadata_bits(pattern, m, k, stored)
    assert np.isfinite(bits)
    assert bits >= 0
    assert form.metadata_bits(pattern, 2 * m, k, 2 * stored) >= bits


@given(st.integers(1, 30), st.integers(1, 30), st.floats(0, 1), st.integers(0, 9))
def test_csr_counts_what_a_real_matrix_has(m, k, share, seed):
    mask = np.random.default_rng(seed).random((m, k)) < share
    stored = float(mask.sum())
    assert CSR().metadata_bits(UNSTRUCTURED, float(m), float(k), stored) == 32 * mask.sum() + 32 * (m + 1)


@given(st.integers(1, 20), st.integers(1, 20), st.floats(0, 1), st.integers(0, 9))
def test_bsr_counts_what_a_real_matrix_has(tiles_down, tiles_across, share, seed):
    kept = np.random.default_rng(seed).random((tiles_down, tiles_across)) < share
    m, k = 4.0 * tiles_down, 2.0 * tiles_across
    stored = Block(4, 2).stored(m, k, kept.mean())
    assert stored == pytest.approx(8 * kept.sum())
    assert BSR().metadata_bits(Block(4, 2), m, k, stored) == pytest.approx(32 * kept.sum() + 32 * (tiles_down + 1))


def test_2_4_in_fp16_is_0_5625_of_dense():
    """Shinn et al. 2023: n:m index, 2 bits for each of 2 of 4 values."""
    m = k = 1024.0
    stored = NM(2, 4).stored(m, k, 0.5)
    bits = 16 * stored + NMIndex().metadata_bits(NM(2, 4), m, k, stored)
    assert bits / (16 * m * k) == 0.5625


@pytest.mark.parametrize(("n", "m"), [(1, 2), (2, 4), (1, 8), (3, 8), (1, 32)])
def test_index_bitmask_and_floor_by_hand(n, m):
    pattern, groups = NM(n, m), 10.0 * 20
    stored = pattern.stored(10.0, 20.0 * m, n / m)
    assert stored == groups * n
    assert NMIndex().metadata_bits(pattern, 10.0, 20.0 * m, stored) == groups * n * ceil(log2(m))
    assert Bitmask().metadata_bits(pattern, 10.0, 20.0 * m, stored) == groups * m
    assert Combinatorial().metadata_bits(pattern, 10.0, 20.0 * m, stored) == pytest.approx(groups * log2(comb(m, n)), rel=1e-9)


def test_bitmask_and_floor_of_blocks_count_blocks():
    """6 x 8 elements in 4 x 2 blocks: 2 x 4 blocks, 3 of them kept."""
    pattern, stored = Block(4, 2), 3.0 * 8
    assert Bitmask().metadata_bits(pattern, 6.0, 8.0, stored) == 8
    assert Combinatorial().metadata_bits(pattern, 6.0, 8.0, stored) == pytest.approx(log2(comb(8, 3)))
    assert BSR().metadata_bits(pattern, 6.0, 8.0, stored) == 32 * 3 + 32 * (2 + 1)


@given(st.integers(1, 40), st.integers(1, 40), st.floats(0, 1))
def test_no_format_is_below_the_combinatorial_floor(m, k, density):
    stored = float(round(density * m * k))
    floor = Combinatorial().metadata_bits(UNSTRUCTURED, float(m), float(k), stored)
    assert floor == pytest.approx(log2(comb(m * k, int(stored))), rel=1e-9, abs=1e-9)
    assert floor <= Bitmask().metadata_bits(UNSTRUCTURED, float(m), float(k), stored) + 1e-9


@pytest.mark.parametrize(
    "text", ["dense", "unstructured", "2:4", "block:8x8", "block:8x8*", "64:2:8", "64:2:*", "1:4x32", "3:4/2:4", "block:32x32/2:4", "row"]
)
def test_every_pattern_has_a_usual_format(text):
    assert default_format(parse(text)).accepts(parse(text))


def test_widths_count():
    narrow = CSR.model_validate({"kind": "csr", "index": "16 bit", "pointer": "32 bit"})
    assert narrow.metadata_bits(UNSTRUCTURED, 1.0, 100.0, 10.0) == 16 * 10 + 32 * 2


def test_dense_needs_no_metadata():
    assert default_format(DENSE).metadata_bits(DENSE, 3.0, 4.0, 12.0) == 0


def test_bits_of_nested_patterns_are_counted_level_by_level():
    """128 x 256 elements, by hand."""
    size = (128.0, 256.0)

    def bits(form, text: str, density: float = 1.0) -> float:
        pattern = parse(text)
        return float(form.metadata_bits(pattern, *size, pattern.stored(*size, density)))

    blocks = 2 * 32  # of 64 x 8
    assert bits(NMIndex(), "64:2:8") == blocks * 4 * 3 + blocks * 64 * 2 * 2  # 4 of 8 columns, then 2 of 4 in each of 64 rows
    assert bits(NMIndex(), "1:4x32") == 4 * 64 * 2  # one place in 4, chosen once for 32 rows
    groups = 128 * 16  # of 4 tiles of 4
    assert bits(NMIndex(), "3:4/2:4") == groups * 3 * 2 + groups * 3 * 2 * 2
    assert bits(Bitmask(), "3:4/2:4") == groups * 4 + groups * 3 * 4
    assert bits(Combinatorial(), "3:4/2:4") == pytest.approx(groups * log2(4) + groups * 3 * log2(6))
    kept = 0.25 / 0.5 * (4 * 8)  # blocks of 32 x 32, each half full
    assert bits(BSR(), "block:32x32/2:4", 0.25) == 32 * kept + 32 * (4 + 1) + kept * 32 * 8 * 2 * 2
    assert bits(Bitmask(), "row", 0.5) == 128
