"""The grammar of patterns, and containment against enumerated masks."""

import itertools
import re
import time
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.sparsity import mask as masks_
from dse.sparsity.grammar import KNOWN_FORMS, parse, read_pattern_aliases
from dse.sparsity.hierarchy import Hierarchy, canonicalize
from dse.sparsity.kinds import DENSE, NM, UNSTRUCTURED, VNM, Block, BlockFamily, Structured, VNMFamily

nm = st.integers(2, 9).flatmap(lambda m: st.builds(NM, st.integers(1, m - 1), st.just(m), st.sampled_from([1, 1, 2, 4])))
vnm = st.builds(VNM, st.sampled_from([2, 4, 8]), st.integers(1, 4), st.integers(5, 12)).map(canonicalize)
blocks = st.builds(Block, st.integers(1, 4), st.integers(1, 4))
families = st.one_of(st.builds(BlockFamily, blocks), st.builds(VNMFamily, st.sampled_from([2, 4]), st.integers(1, 4)).map(canonicalize))
whole = st.builds(Structured, st.sampled_from(["row", "column", "channel"]))
nested = st.one_of(
    st.builds(Hierarchy, st.builds(NM, st.integers(1, 2), st.integers(3, 4)), st.one_of(nm, vnm, st.just(Block(4, 2)))),
    st.builds(Hierarchy, st.sampled_from([Block(8, 16), Block(16, 8)]), st.sampled_from([NM(2, 4), NM(1, 8, 4), VNM(4, 2, 8)])),
).map(canonicalize)
simple = st.one_of(nm, vnm, blocks, whole, st.just(DENSE))
patterns = st.one_of(simple, families, nested)


def legal(mask: np.ndarray, pattern) -> bool:
    """The definition of a legal mask, in loops."""
    k = mask.shape[1]
    if isinstance(pattern, NM):
        alike = all((block == block[:1]).all() for block in tiles(mask, pattern.v, k))
        return alike and all(group.sum() <= pattern.n for group in tiles(mask, 1, pattern.m))
    if isinstance(pattern, VNM):
        chosen = all(block.any(axis=0).sum() <= 4 for block in tiles(mask, pattern.v, pattern.m))
        return chosen and all(group.sum() <= pattern.n for group in tiles(mask, 1, pattern.m))
    if isinstance(pattern, Block | BlockFamily):
        return all(tile.all() or not tile.any() for tile in tiles(mask, *pattern.tile))
    if isinstance(pattern, Structured):
        return all(line.all() or not line.any() for line in (mask if pattern.axis == "row" else mask.T))
    if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, NM):
        rows, columns = pattern.inner.tile
        groups = tiles(mask, rows, columns * pattern.outer.m)
        few = all(sum(tile.any() for tile in tiles(group, rows, columns)) <= pattern.outer.n for group in groups)
        return few and legal(mask, pattern.inner)
    return legal(mask, pattern.inner) if isinstance(pattern, Hierarchy) else True


def tiles(mask: np.ndarray, rows: int, columns: int):
    m, k = mask.shape
    return [mask[i : i + rows, j : j + columns] for i in range(0, m, rows) for j in range(0, k, columns)]


CANDIDATES = [
    *(NM(n, m, v) for m in (2, 3, 4) for n in range(1, m) for v in (1, 2, 4)), *(Block(r, c) for r in (1, 2, 4) for c in (1, 2, 4)),
    *(VNM(v, n, m) for v in (2, 4) for n in (1, 2, 3) for m in (5, 8)), Structured("row"), Structured("column"), Structured("channel"), DENSE, BlockFamily(Block(2, 2)),
    Hierarchy(NM(1, 2), NM(1, 2)), Hierarchy(NM(1, 2), Block(2, 2)), Hierarchy(NM(1, 2), Block(2, 1)), Hierarchy(NM(2, 3), NM(1, 2, 2)),
    Hierarchy(Block(4, 4), NM(1, 2)), Hierarchy(Block(2, 4), NM(2, 4, 2)), Hierarchy(NM(1, 2), Hierarchy(NM(1, 2), Block(1, 1))),
]  # fmt: skip


def test_containment_is_sound_over_every_mask_of_4_by_4():
    """p is below q only if every mask legal in p is legal in q; a wrong no is rare."""
    masks = (np.arange(2**16)[:, None] >> np.arange(16) & 1).astype(bool).reshape(-1, 4, 4)
    allowed = {p: masks_.legal(masks, p) for p in CANDIDATES}
    missed = 0
    for p, q in itertools.product(CANDIDATES, repeat=2):
        contained = not (allowed[p] & ~allowed[q]).any()
        assert contained or not p.is_below(q), f"{p} in {q}"
        missed += contained and not p.is_below(q)
    assert missed < 0.2 * len(CANDIDATES) ** 2  # many hold on so small a matrix only


@given(patterns, st.integers(0, 2**32), st.sampled_from([(4, 4), (16, 16), (5, 11)]))
def test_legality_agrees_with_the_definition(pattern, seed, shape):
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < rng.choice([0.05, 0.3, 0.9])
    if not isinstance(pattern, VNMFamily):
        assert bool(masks_.legal(mask, pattern)) == legal(mask, pattern)


def thin_to_legal(pattern, shape, rng) -> np.ndarray:
    """A random legal mask of a pattern: blocks of its granularity are dropped until the mask is legal."""
    rows, columns = (length if size == inf else int(size) for size, length in zip(pattern.granularity, shape, strict=True))
    mask = np.kron(
        rng.random((-(-shape[0] // rows), -(-shape[1] // columns))) < rng.choice([0.1, 0.5, 1.0]), np.ones((rows, columns), bool)
    )
    mask = mask[: shape[0], : shape[1]].astype(bool)
    for limit in pattern.group_limits * 2:
        for i in range(0, shape[0], limit.rows):
            for j in range(0, shape[1], limit.columns * limit.group_size):
                band = mask[i : i + limit.rows, j : j + limit.columns * limit.group_size]
                places = [start for start in range(0, band.shape[1], limit.columns) if band[:, start : start + limit.columns].any()]
                for start in rng.permutation(places)[limit.max_occupied :]:
                    band[:, start : start + limit.columns] = False
    return mask


@given(patterns, patterns, st.integers(0, 2**32))
def test_containment_is_sound_on_masks_of_16_by_16(p, q, seed):
    if isinstance(p, VNMFamily) or isinstance(q, VNMFamily) or not p.is_below(q):
        return
    mask = thin_to_legal(p, (16, 16), np.random.default_rng(seed))
    if legal(mask, p):
        assert legal(mask, q), f"{p} in {q}"


@given(patterns)
def test_thinning_makes_legal_masks(p):
    """The test above needs legal masks that use what their patterns allow."""
    if not isinstance(p, VNMFamily):
        found = [thin_to_legal(p, (16, 16), np.random.default_rng(seed)) for seed in range(5)]
        assert sum(legal(mask, p) for mask in found) >= 4


@pytest.mark.parametrize("shape", [(1, 12), (2, 6), (4, 3)])
def test_containment_is_sound_and_complete_on_small_matrices(shape):
    """Patterns whose groups divide the matrix: p is below q exactly if every mask legal in p is legal in q."""
    rows, columns = shape
    masks = [np.array(bits, bool).reshape(shape) for bits in itertools.product((0, 1), repeat=rows * columns)]
    candidates = [NM(n, m) for m in (2, 3, 4, 6, 12) if columns % m == 0 for n in range(1, m)]
    candidates += [Block(r, c) for r in (1, 2, 4) for c in (1, 2, 3, 4, 6) if rows % r == 0 and columns % c == 0]
    allowed = {p: {n for n, mask in enumerate(masks) if legal(mask, p)} for p in candidates}
    for p, q in itertools.product(candidates, repeat=2):
        assert p.is_below(q) == (allowed[p] <= allowed[q]), f"{p} in {q}"


@given(patterns)
def test_every_pattern_is_below_itself_and_dense(p):
    assert p.is_below(p)
    assert p.is_below(DENSE)


@given(patterns, patterns, patterns)
def test_containment_is_transitive(p, q, r):
    if p.is_below(q) and q.is_below(r):
        assert p.is_below(r)


@given(patterns, patterns)
def test_containment_is_antisymmetric(p, q):
    if p.is_below(q) and q.is_below(p):
        assert p == q


@given(patterns)
def test_the_text_of_a_pattern_parses_to_the_pattern(p):
    assert parse(str(p)) == p


@pytest.mark.parametrize(
    ("text", "same"), [("4:4", "dense"), ("block:1x1", "unstructured"), (" 2:4 ", "2:4"), ("Block:16x16", "block:16x16")]
)
def test_equal_patterns_have_equal_texts(text, same):
    assert str(parse(text)) == same
    assert parse(text) == parse(same)


def test_the_order_of_common_patterns():
    assert parse("1:8").is_below(parse("2:4"))
    assert parse("2:4").is_below(UNSTRUCTURED)
    assert UNSTRUCTURED.is_below(DENSE)
    assert not DENSE.is_below(UNSTRUCTURED)
    assert parse("block:32x32").is_below(parse("block:16x16"))
    assert not parse("2:4").is_below(parse("1:2"))
    assert not parse("2:8").is_below(parse("1:4"))


def test_a_family_stores_a_mask_in_its_own_block_size():
    family = parse("block:16x16*")
    assert family.storage_pattern_for(parse("block:32x48")) == Block(32, 48)
    assert family.storage_pattern_for(parse("block:24x16")) is None
    assert parse("block:16x16").storage_pattern_for(parse("block:32x48")) == Block(16, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5:4", "'5:4' keeps 5 of 4, which is impossible; write N:M with N <= M, as in '4:5'"),
        ("0:4", "'0:4' keeps nothing; write N:M with N >= 1, as in '2:4'"),
        ("block:0x4", "a block of 0x4 is empty; write at least 1 row and 1 column, as in 'block:16x16'"),
        ("blocks", f"'blocks' is not a pattern (see character 6, 's'); write {KNOWN_FORMS}"),
        ("2:", f"'2:' is not a pattern (it ends too early); write {KNOWN_FORMS}"),
        ("block:16y16", f"'block:16y16' is not a pattern (see character 9, 'y'); write {KNOWN_FORMS}"),
        ("block:8x8/2;4", f"'block:8x8/2;4' is not a pattern (see character 12, ';'); write {KNOWN_FORMS}"),
        ("64:5:8", "'64:5:8' keeps 5 of 4 columns chosen from 8, which is impossible; write V:N:M with N <= 4 <= M, as in '64:2:8'"),
        ("64:2:3", "'64:2:3' keeps 2 of 4 columns chosen from 3, which is impossible; write V:N:M with N <= 4 <= M, as in '64:2:8'"),
        ("2:4x0", "'2:4x0' is shared by no row; write at least 1 row, as in '2:4x32'"),
        (
            "block:32x32/block:4x4",
            "in 'block:32x32/block:4x4' both levels keep any fraction; write 'block:4x4' alone, which has the same masks",
        ),
        ("block:6x6/2:4", "tiles of 1x4 do not fill 'block:6x6'; write a block that is a multiple of 1x4"),
        ("row/2:4", "'row/2:4' cannot be nested; write block:RxC or N:M outside, and N:M, N:MxV, V:N:M or block:RxC inside"),
    ],
)
def test_impossible_patterns_are_refused(text, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        parse(text)


def test_edge_tiles_are_padded():
    """ResNet's first convolution has k = 147."""
    assert NM(2, 4).stored_elements(64.0, 147.0, 0.5) == 64 * 37 * 2
    assert Block(16, 16).stored_elements(64.0, 147.0, 1.0) == 64 * 160
    assert UNSTRUCTURED.stored_elements(64.0, 147.0, 0.1) == pytest.approx(940.8)


@given(nm, st.integers(1, 40))
def test_max_nonzeros_is_the_fullest_legal_row(p, k):
    row = np.zeros((1, k), bool)
    for start in range(0, k, p.m):
        row[0, start : start + p.n] = True
    assert legal(row, p)
    assert p.max_nonzeros(3.0, float(k)) == 3 * row.sum()


@pytest.mark.parametrize(
    ("text", "density", "stored"),
    [
        ("64:2:8", 1 / 4, 128 * 256 / 4),
        ("1:4x32", 1 / 4, 128 * 256 / 4),
        ("3:4/2:4", 3 / 8, 128 * 256 * 3 / 8),
        ("2:4/block:4x4", 1 / 2, 128 * 256 / 2),
        ("2:4/64:2:8", 1 / 8, 128 * 256 / 8),
        ("3:4/2:4/1:4", 3 / 32, 128 * 256 * 3 / 32),
    ],
)
def test_the_density_of_nested_patterns_is_the_product_of_their_levels(text, density, stored):
    pattern = parse(text)
    assert pattern.density == pytest.approx(density)
    assert pattern.stored_elements(128.0, 256.0, 1.0) == pytest.approx(stored)
    assert pattern.max_nonzeros(128.0, 256.0) == pytest.approx(stored)


def test_free_blocks_around_a_fixed_pattern_are_kept_as_the_density_needs():
    pattern = parse("block:32x32/2:4")
    assert pattern.density is None
    assert pattern.stored_elements(128.0, 256.0, 0.5) == 128 * 256 / 2  # every block, each half full
    assert pattern.stored_elements(128.0, 256.0, 0.1) == pytest.approx(128 * 256 / 10)


@given(nested, st.integers(1, 60))
def test_max_nonzeros_of_nested_patterns_is_that_of_the_fullest_mask(p, k):
    """A greedy mask: each outer group keeps its first tiles, and each of them is filled one after the other."""
    rows = p.tile[0]
    mask = np.zeros((rows, k), bool)
    fill(mask, p)
    assert legal(mask, p)
    assert p.max_nonzeros(float(rows), float(k)) == mask.sum()


def fill(mask: np.ndarray, pattern) -> None:
    if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, NM):
        width = pattern.inner.tile[1]
        for start in range(0, mask.shape[1], width * pattern.outer.m):
            for tile in range(start, min(start + width * pattern.outer.n, mask.shape[1]), width):
                fill(mask[:, tile : tile + width], pattern.inner)
    elif isinstance(pattern, Hierarchy):
        fill(mask, pattern.inner)
    elif isinstance(pattern, NM | VNM):
        for start in range(0, mask.shape[1], pattern.m):
            mask[:, start : start + pattern.n] = True
    else:
        mask[:] = True


def test_a_v_n_m_family_stores_patterns_of_any_m():
    family = parse("64:2:*")
    assert family.storage_pattern_for(parse("64:2:16")) == VNM(64, 2, 16)
    assert family.storage_pattern_for(parse("128:1:10")) == VNM(64, 2, 10)
    assert family.storage_pattern_for(parse("1:8x64")) == VNM(64, 2, 8)
    assert family.storage_pattern_for(parse("32:2:16")) is None
    assert family.storage_pattern_for(UNSTRUCTURED) is None


def test_rows_and_columns_are_unions_of_the_blocks_that_divide_them():
    assert parse("row").is_below(parse("block:1x8"))
    assert not parse("row").is_below(parse("block:2x8"))
    assert parse("column").is_below(parse("vector:16"))
    assert not parse("block:1x8").is_below(parse("row"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/".join(["1:1"] * 40), "'1:1/1:1/1:1.*' has 40 levels; write at most 8"),
        ("2:4/" * 100_000, "has 400000 characters; write at most 200"),
        ("٣:4", "'٣:4' is not a pattern"),
        ("²:4", "'²:4' is not a pattern"),
        ("2:" + "4" * 5000, "has 5002 characters"),
    ],
    ids=lambda text: text[:12],
)
def test_long_patterns_are_refused_quickly(text, message):
    began = time.process_time()
    with pytest.raises(InputError, match=message):
        parse(text)
    assert time.process_time() - began < 2


def test_chains_of_names_are_resolved_quickly():
    """Each name adds levels to the one before; a hundred names are resolved quickly, and more are refused."""
    chain = {"patterns": {"a0": "1:2"} | {f"a{n}": f"1:2/a{n - 1}" for n in range(1, 90)}}
    began = time.process_time()
    assert sorted(read_pattern_aliases(chain)) == [f"a{n}" for n in range(8)]
    assert read_pattern_aliases({"patterns": {f"a{n}": f"a{n + 1}" for n in range(10_000)}}) == {}
    assert time.process_time() - began < 2


def test_groups_of_huge_coprime_sizes_are_compared_quickly():
    """Their common period has 1e18 columns; the answer may then be no, which is sound, but a pattern is still below itself."""
    one, other = parse("5:999999937"), parse("5:999999929")
    began = time.process_time()
    assert not one.is_below(other)
    assert one.is_below(one)
    assert one.is_below(UNSTRUCTURED)
    assert time.process_time() - began < 2
