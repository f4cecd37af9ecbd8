"""The grammar, and containment against brute force over masks."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.errors import BadInput
from dse.sparsity.pattern import DENSE, NM, UNSTRUCTURED, Block, BlockFamily, parse

nm = st.integers(2, 9).flatmap(lambda m: st.builds(NM, st.integers(1, m - 1), st.just(m)))
blocks = st.builds(Block, st.integers(1, 4), st.integers(1, 4))
families = st.builds(BlockFamily, blocks)
patterns = st.one_of(nm, blocks, families, st.just(DENSE))


def legal(mask: np.ndarray, pattern) -> bool:
    """Straight from the definition of a legal mask."""
    rows, columns = mask.shape
    if isinstance(pattern, NM):
        return all(mask[r, c : c + pattern.m].sum() <= pattern.n for r in range(rows) for c in range(0, columns, pattern.m))
    if isinstance(pattern, Block):
        tiles = (
            mask[r : r + pattern.rows, c : c + pattern.columns]
            for r in range(0, rows, pattern.rows)
            for c in range(0, columns, pattern.columns)
        )
        return all(tile.all() or not tile.any() for tile in tiles)
    return True


@pytest.mark.parametrize("shape", [(1, 12), (2, 6), (4, 3)])
def test_containment_is_sound_and_complete_on_small_matrices(shape):
    """Patterns whose groups divide the matrix: p fits q exactly if every mask legal in p is legal in q."""
    rows, columns = shape
    masks = [np.array(bits, bool).reshape(shape) for bits in itertools.product((0, 1), repeat=rows * columns)]
    candidates = [NM(n, m) for m in (2, 3, 4, 6, 12) if columns % m == 0 for n in range(1, m)]
    candidates += [Block(r, c) for r in (1, 2, 4) for c in (1, 2, 3, 4, 6) if rows % r == 0 and columns % c == 0]
    allowed = {p: {n for n, mask in enumerate(masks) if legal(mask, p)} for p in candidates}
    for p, q in itertools.product(candidates, repeat=2):
        assert p.fits(q) == (allowed[p] <= allowed[q]), f"{p} in {q}"


@given(patterns)
def test_every_pattern_fits_itself_and_dense(p):
    assert p.fits(p)
    assert p.fits(DENSE)


@given(patterns, patterns, patterns)
def test_containment_is_transitive(p, q, r):
    if p.fits(q) and q.fits(r):
        assert p.fits(r)


@given(st.one_of(nm, blocks, st.just(DENSE)), st.one_of(nm, blocks, st.just(DENSE)))
def test_containment_is_antisymmetric(p, q):
    if p.fits(q) and q.fits(p):
        assert p == q


@given(patterns)
def test_the_text_of_a_pattern_is_the_pattern(p):
    assert parse(str(p)) == p


@pytest.mark.parametrize(
    ("text", "same"), [("4:4", "dense"), ("block:1x1", "unstructured"), (" 2:4 ", "2:4"), ("Block:16x16", "block:16x16")]
)
def test_equal_patterns_have_equal_texts(text, same):
    assert str(parse(text)) == same
    assert parse(text) == parse(same)


def test_the_order_that_the_design_is_built_on():
    assert parse("1:8").fits(parse("2:4"))
    assert parse("2:4").fits(UNSTRUCTURED)
    assert UNSTRUCTURED.fits(DENSE)
    assert not DENSE.fits(UNSTRUCTURED)
    assert parse("block:32x32").fits(parse("block:16x16"))
    assert not parse("2:4").fits(parse("1:2"))
    assert not parse("2:8").fits(parse("1:4"))


def test_a_family_stores_a_mask_in_its_own_block_size():
    family = parse("block:16x16*")
    assert family.member_for(parse("block:32x48")) == Block(32, 48)
    assert family.member_for(parse("block:24x16")) is None
    assert parse("block:16x16").member_for(parse("block:32x48")) == Block(16, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5:4", "'5:4' keeps 5 of 4, which is impossible; write N:M with N <= M, as in '4:5'"),
        ("0:4", "'0:4' keeps nothing; write N:M with N >= 1, as in '2:4'"),
        ("block:0x4", "a block of 0x4 is empty; write at least 1 row and 1 column, as in 'block:16x16'"),
        ("blocks", "'blocks' is not a pattern; write 'dense', 'unstructured', 'block:16x16', 'block:16x16*' or 'N:M' as in '2:4'"),
    ],
)
def test_impossible_patterns(text, message):
    with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
        parse(text)


def test_edge_tiles_are_padded():
    """ResNet's first convolution has k = 147."""
    assert NM(2, 4).stored(64.0, 147.0, 0.5) == 64 * 37 * 2
    assert Block(16, 16).stored(64.0, 147.0, 1.0) == 64 * 160
    assert UNSTRUCTURED.stored(64.0, 147.0, 0.1) == pytest.approx(940.8)


@given(nm, st.integers(1, 40))
def test_kept_is_the_fullest_legal_row(p, k):
    row = np.zeros((1, k), bool)
    for start in range(0, k, p.m):
        row[0, start : start + p.n] = True
    assert legal(row, p)
    assert p.kept(3.0, float(k)) == 3 * row.sum()
