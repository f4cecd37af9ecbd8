"""Bits of each format against counts of a real mask, and against published closed forms."""

from math import ceil, comb, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dse.base.errors import InputError
from dse.sparsity import best_format
from dse.sparsity.format import BSR, CSR, ELL, Bitmask, Combinatorial, Delta, Enumerative, Format, NMIndex, default_format
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import DENSE, NM, UNSTRUCTURED, Block

CONTRACT = [(CSR(), UNSTRUCTURED), (CSR(), NM(2, 4)), (BSR(), Block(4, 2)), (NMIndex(), NM(1, 8))]
CONTRACT += [(kind(), pattern) for kind in (Bitmask, Combinatorial) for pattern in (UNSTRUCTURED, Block(4, 2), NM(2, 4))]


@pytest.mark.parametrize(("form", "pattern"), CONTRACT, ids=str)
@given(m=st.integers(1, 100).map(lambda tiles: 4 * tiles), k=st.integers(8, 500), density=st.floats(0.0, 1.0))
def test_bits_are_positive_and_grow_with_the_matrix(form, pattern, m, k, density):
    assert form.can_store(pattern)
    m, k = float(m), float(k)
    stored = pattern.stored_elements(m, k, density)
    bits = form.cost(pattern, m, k, stored).metadata_bits
    assert np.isfinite(bits)
    assert bits >= 0
    assert form.cost(pattern, 2 * m, k, 2 * stored).metadata_bits >= bits


@given(st.integers(1, 30), st.integers(1, 30), st.floats(0, 1), st.integers(0, 9))
def test_csr_bits_agree_with_a_real_matrix(m, k, share, seed):
    mask = np.random.default_rng(seed).random((m, k)) < share
    stored = float(mask.sum())
    assert CSR().cost(UNSTRUCTURED, float(m), float(k), stored).metadata_bits == pytest.approx(32 * mask.sum() + 32 * (m + 1), rel=1e-12)


@given(st.integers(1, 20), st.integers(1, 20), st.floats(0, 1), st.integers(0, 9))
def test_bsr_bits_agree_with_a_real_matrix(tiles_down, tiles_across, share, seed):
    kept = np.random.default_rng(seed).random((tiles_down, tiles_across)) < share
    m, k = 4.0 * tiles_down, 2.0 * tiles_across
    stored = Block(4, 2).stored_elements(m, k, kept.mean())
    assert stored == pytest.approx(8 * kept.sum())
    assert BSR().cost(Block(4, 2), m, k, stored).metadata_bits == pytest.approx(32 * kept.sum() + 32 * (tiles_down + 1))


def test_2_4_in_fp16_is_0_5625_of_dense():
    """Shinn et al. 2023: n:m index, 2 bits for each of 2 of 4 values."""
    m = k = 1024.0
    stored = NM(2, 4).stored_elements(m, k, 0.5)
    bits = 16 * stored + NMIndex().cost(NM(2, 4), m, k, stored).metadata_bits
    assert bits / (16 * m * k) == 0.5625


@pytest.mark.parametrize(("n", "m"), [(1, 2), (2, 4), (1, 8), (3, 8), (1, 32)])
def test_index_bitmask_and_combinatorial_bits_by_hand(n, m):
    pattern, groups = NM(n, m), 10.0 * 20
    stored = pattern.stored_elements(10.0, 20.0 * m, n / m)
    assert stored == groups * n
    assert NMIndex().cost(pattern, 10.0, 20.0 * m, stored).metadata_bits == groups * n * ceil(log2(m))
    assert Bitmask().cost(pattern, 10.0, 20.0 * m, stored).metadata_bits == groups * m
    assert Combinatorial().cost(pattern, 10.0, 20.0 * m, stored).metadata_bits == pytest.approx(groups * log2(comb(m, n)), rel=1e-9)


def test_bitmask_and_combinatorial_bits_of_blocks():
    """6 x 8 elements in 4 x 2 blocks: 2 x 4 blocks, 3 of them kept."""
    pattern, stored = Block(4, 2), 3.0 * 8
    assert Bitmask().cost(pattern, 6.0, 8.0, stored).metadata_bits == 8
    assert Combinatorial().cost(pattern, 6.0, 8.0, stored).metadata_bits == pytest.approx(log2(comb(8, 3)))
    assert BSR().cost(pattern, 6.0, 8.0, stored).metadata_bits == 32 * 3 + 32 * (2 + 1)


@given(st.integers(1, 40), st.integers(1, 40), st.floats(0, 1))
def test_no_format_is_below_the_combinatorial_bound(m, k, density):
    stored = float(round(density * m * k))
    floor = Combinatorial().cost(UNSTRUCTURED, float(m), float(k), stored).metadata_bits
    assert floor == pytest.approx(log2(comb(m * k, int(stored))), rel=1e-9, abs=1e-9)
    assert floor <= Bitmask().cost(UNSTRUCTURED, float(m), float(k), stored).metadata_bits + 1e-9


@pytest.mark.parametrize(
    "text", ["dense", "unstructured", "2:4", "block:8x8", "block:8x8*", "64:2:8", "64:2:*", "1:4x32", "3:4/2:4", "block:32x32/2:4", "row"]
)
def test_every_pattern_has_a_default_format(text):
    assert default_format(parse(text)).can_store(parse(text))


def test_bits_depend_on_the_widths():
    narrow = CSR.model_validate({"kind": "csr", "index": "16 bit", "pointer": "32 bit"})
    assert narrow.cost(UNSTRUCTURED, 1.0, 100.0, 10.0).metadata_bits == 16 * 10 + 32 * 2


def test_dense_needs_no_metadata():
    assert default_format(DENSE).cost(DENSE, 3.0, 4.0, 12.0).metadata_bits == 0


def test_bits_of_nested_patterns_are_counted_level_by_level():
    """128 x 256 elements, by hand."""
    size = (128.0, 256.0)

    def bits(form, text: str, density: float = 1.0) -> float:
        pattern = parse(text)
        return float(form.cost(pattern, *size, pattern.stored_elements(*size, density)).metadata_bits)

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


def test_csr_with_indices_as_wide_as_values_is_half_metadata():
    """Gale: the storage efficiency of CSR is v z / ((v + i) z + p (m + 1)), 1/2 for v = i and long rows."""
    m, k, values = 4096.0, 4096.0, 32.0
    stored = UNSTRUCTURED.stored_elements(m, k, 0.2)
    cost = CSR().cost(UNSTRUCTURED, m, k, stored)
    assert values * cost.elements / (values * cost.elements + cost.metadata_bits) == pytest.approx(1 / 2, rel=2e-3)
    pointers = 32 * (m + 1)
    assert values * cost.elements / (values * cost.elements + cost.metadata_bits - pointers) == 1 / 2


@pytest.mark.parametrize(
    ("text", "density"), [("2:4", None), ("unstructured", 0.1), ("unstructured", 0.5), ("block:8x8", 0.2), ("block:32x32/2:4", 0.1)]
)
def test_the_best_format_is_between_the_bound_and_every_other_format(text, density):
    pattern, size = parse(text), (512.0, 1024.0)
    stored = pattern.stored_elements(*size, density or pattern.density)
    others = (Bitmask(), CSR(), BSR(), ELL(), Delta(), NMIndex(), Enumerative())
    costs = [form.cost(pattern, *size, stored) for form in others if form.can_store(pattern)]
    best = best_format(text, density, 512, 1024).cost(pattern, *size, stored)
    floor = Combinatorial().cost(pattern, *size, stored)
    assert (
        16 * floor.elements + floor.metadata_bits
        <= 16 * best.elements + best.metadata_bits
        <= min(16 * c.elements + c.metadata_bits for c in costs)
    )


def test_dense_is_the_best_format_at_densities_near_one():
    assert best_format("unstructured", 0.99).kind == "dense"
    assert best_format("dense").kind == "dense"
    with pytest.raises(InputError, match="may keep any fraction"):
        best_format("unstructured")


@pytest.mark.parametrize(
    ("pattern", "density", "message"),
    [
        ("unstructured", 1.5, "a density of 1.5 is out of range; write a number from 0 to 1"),
        ("unstructured", float("nan"), "a density of nan is out of range; write a number from 0 to 1"),
        ("2:4", 0.1, "'2:4' has the density 0.5, not 0.1; leave the density out"),
    ],
)
def test_densities_that_no_mask_has_are_refused(pattern, density, message):
    with pytest.raises(InputError) as error:
        best_format(pattern, density)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("written", "pattern", "density"),
    [
        ({"kind": "delta", "width": "3 bit"}, "unstructured", 0.05),
        ({"kind": "ell"}, "unstructured", 0.1),
        ({"kind": "blocked_ell"}, "block:4x4", 0.3),
    ],
)
def test_elements_that_a_format_pads_are_stored(written, pattern, density):
    form, found = TypeAdapter(Format).validate_python(written), parse(pattern)
    stored = found.stored_elements(256.0, 256.0, density)
    assert form.cost(found, 256.0, 256.0, stored).elements > 1.05 * stored


def test_numbers_too_narrow_for_a_matrix_do_not_fit():
    narrow = CSR.model_validate({"kind": "csr", "index": "8 bit", "pointer": "16 bit"})
    assert narrow.cost(UNSTRUCTURED, 10.0, 256.0, 99.0).fits
    assert not narrow.cost(UNSTRUCTURED, 10.0, 257.0, 99.0).fits
    assert not narrow.cost(UNSTRUCTURED, 1000.0, 256.0, 65536.0).fits


@pytest.mark.parametrize(
    ("levels", "pattern"),
    [
        ([{"kind": "dense"}, {"kind": "index"}], "unstructured"),  # rows of any length
        ([{"kind": "dense", "padded": True}, {"kind": "bitmask"}], "unstructured"),
        ([{"kind": "dense", "pointer": "32 bit"}, {"kind": "enumerative"}], "unstructured"),
        ([{"kind": "index"}, {"kind": "index"}], "2:4"),  # one rank too many
        ([{"kind": "delta", "width": "2 bit"}], "2:4"),
        ([{"kind": "index"}], "dense"),
        ([{"kind": "delta", "width": "2 bit"}], "row"),
    ],
)
def test_ranks_that_cannot_be_decoded_are_refused(levels, pattern):
    assert not TypeAdapter(Format).validate_python({"kind": "levels", "levels": levels}).can_store(parse(pattern))
