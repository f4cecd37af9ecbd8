"""Patterns of several levels against the definition of their text: legality, containment, density, masks and encodings."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.model.cost.area import selection_network_share
from dse.sparsity import apply, nearest, random_mask
from dse.sparsity import mask as masks_
from dse.sparsity.encoding import count, decode, encode
from dse.sparsity.format import BSR, COO, CSC, CSR, ELL, Bitmask, Combinatorial, Delta, Enumerative, NMIndex, default_format
from dse.sparsity.grammar import parse

FORMATS = (CSR(), CSC(), COO(), BSR(), ELL(kind="blocked_ell"), Delta(), NMIndex(), Bitmask(), Enumerative())


def numbers(level: str) -> list[int]:
    return [int(number) for number in level.replace("block:", "").replace("vector:", "").replace("x", ":").split(":")]


def tile(levels: list[str]) -> tuple[int, int]:
    """Rows and columns of the tile that an outer level counts."""
    first, *inside = levels
    given = numbers(first)
    if first.startswith("block"):
        return given[0], given[1]
    if inside:
        rows, columns = tile(inside)
        return rows, columns * given[1]
    return (given[0], given[2]) if first.count(":") == 2 else (given[2] if len(given) == 3 else 1, given[1])


def split(masks: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Reshape [mask, m, k] of complete tiles to [mask, down, across, row, column]."""
    batch, m, k = masks.shape
    return masks.reshape(batch, m // rows, rows, k // columns, columns).swapaxes(2, 3)


def legal(masks: np.ndarray, levels: list[str]) -> np.ndarray:
    """Which masks [mask, m, k] are legal, by the definition of every level."""
    first, *inside = levels
    if not inside and first.startswith("block"):
        blocks = split(masks, *tile(levels))
        return (blocks.any((3, 4)) == blocks.all((3, 4))).all((1, 2))
    if first.startswith("block"):
        return legal(masks, inside)  # any block may be dropped
    if first.count(":") == 2:
        v, n, m = numbers(first)
        blocks = split(masks, v, m)
        return (blocks.any(3).sum(3) <= 4).all((1, 2)) & (blocks.sum(4) <= n).all((1, 2, 3))
    n, m, *shared = numbers(first)
    size = tile(inside) if inside else ((shared or [1])[0], 1)
    tiles = split(masks, *size)
    few = (tiles.any((3, 4)).reshape(len(masks), -1, m).sum(2) <= n).all(1)
    return few & (legal(masks, inside) if inside else (tiles.any((3, 4)) == tiles.all((3, 4))).all((1, 2)))


def keeps_all(level: str) -> bool:
    return level.count(":") == 1 and level[0].isdigit() and len(set(numbers(level))) == 1


def with_whole_tiles(levels: list[str]) -> list[str]:
    """Replace N:N inside other levels, which keeps all of its tile, by a block."""
    kept = next((number for number in range(len(levels), 0, -1) if not keeps_all(levels[number - 1])), 0)
    if kept in (0, len(levels)):
        return levels
    rows, columns = tile(levels[kept:])
    last = [] if levels[kept - 1].startswith("block") else [f"block:{rows}x{columns}"]  # any fraction of blocks that are kept whole
    return [*levels[:kept], *last]


def every_mask(m: int, k: int) -> np.ndarray:
    return (np.arange(2 ** (m * k))[:, None] >> np.arange(m * k) & 1).astype(bool).reshape(-1, m, k)


LEVELS = ["1:2", "2:2", "2:4", "1:4", "1:2x2", "2:1:4", "2:2:8", "2:3:8", "block:1x2", "block:2x2", "block:2x4"]
SHAPES = [(2, 8), (4, 4)]


def valid_nestings(levels: list[str], depth: int) -> list[list[str]]:
    """All nestings of up to `depth` levels that the grammar allows."""
    found = []
    for number in range(1, depth + 1):
        for nested in itertools.product(levels, repeat=number):
            try:
                parse("/".join(nested))
            except InputError:
                continue
            found.append(list(nested))
    return found


def without_free_blocks(text: str) -> str:
    """A pattern without its outer free blocks, which do not change the legal masks."""
    first, _, inside = text.partition("/")
    return without_free_blocks(inside) if inside and first.startswith("block") else text


@pytest.fixture(scope="module")
def legal_masks() -> dict[str, dict[tuple[int, int], bytes]]:
    """The set of legal masks of each pattern, by its text and the shape of the matrix."""
    masks = {shape: every_mask(*shape) for shape in SHAPES}
    found: dict[str, dict[tuple[int, int], bytes]] = {}
    for levels in valid_nestings(LEVELS, 3):
        rows, columns = tile(levels)
        fitting = [shape for shape in SHAPES if shape[0] % rows == 0 and shape[1] % columns == 0]
        found["/".join(levels)] = {shape: np.packbits(legal(masks[shape], with_whole_tiles(levels))).tobytes() for shape in fitting}
    return {text: sets for text, sets in found.items() if sets}


def test_patterns_with_the_same_masks_have_the_same_text_except_free_blocks(legal_masks):
    assert len(legal_masks) > 80
    for (text, sets), (other, others) in itertools.combinations(legal_masks.items(), 2):
        if shared := sets.keys() & others.keys():
            same = all(sets[shape] == others[shape] for shape in shared)
            one, two = (without_free_blocks(str(parse(each))) for each in (text, other))
            assert same == ({one, two} == {"dense", "unstructured"} or one == two), (text, other, one, two)


def test_containment_is_a_sound_partial_order_on_canonical_texts(legal_masks):
    named = {str(parse(text)): sets for text, sets in legal_masks.items()}
    patterns = {text: parse(text) for text in named}
    fits = {pair for pair in itertools.product(patterns, repeat=2) if patterns[pair[0]].is_below(patterns[pair[1]])}
    for one, two in fits:
        assert one == two or (two, one) not in fits, (one, two)
        for shape in named[one].keys() & named[two].keys():
            mine, theirs = (np.frombuffer(named[text][shape], np.uint8) for text in (one, two))
            assert not (mine & ~theirs).any(), (one, two, shape)
    above = {one: {two for first, two in fits if first == one} for one in patterns}
    assert all(above[two] <= above[one] for one, two in fits)


@st.composite
def nestings(draw) -> list[str]:
    """Up to four levels that can be nested, from the inside out; their tile has at most 64 columns."""
    innermost = st.sampled_from(["1:2", "2:4", "3:4", "1:4x2", "2:2:8", "4:2:6", "3:3", "block:2x4", "block:1x2", "vector:2"])
    levels = [draw(innermost)]
    for _ in range(draw(st.integers(0, 3))):
        rows, columns = tile([level.replace("vector:2", "block:2x1") for level in levels])
        fraction = levels[0].startswith(("block", "vector"))
        blocks = [] if fraction else [f"block:{rows * down}x{columns * across}" for down in (1, 2) for across in (1, 2)]
        level = draw(st.sampled_from(["1:2", "2:3", "2:4", *blocks]))
        if tile([level, *(each.replace("vector:2", "block:2x1") for each in levels)])[1] > 64:
            break
        levels.insert(0, level)
    return levels


def plain(levels: list[str]) -> list[str]:
    return with_whole_tiles([level.replace("vector:2", "block:2x1") for level in levels])


@settings(max_examples=25)
@given(nestings(), st.integers(0, 3))
def test_every_valid_nesting_has_masks_bits_and_costs(levels, seed):
    pattern, (rows, columns) = parse("/".join(levels)), tile(plain(levels))
    m, k, sparsity = 2 * rows, 2 * columns, 0.5 if parse("/".join(levels)).density is None else None
    mask = random_mask(pattern, m, k, sparsity, seed)
    assert legal(mask[None], plain(levels)).all()
    assert masks_.legal(mask, pattern)
    full = random_mask(pattern, m, k, None if sparsity is None else 0.0, seed)
    if pattern.density is not None:
        assert full.mean() == pytest.approx(pattern.density)
        assert pattern.stored_elements(float(m), float(k), 1.0) == full.sum() == pattern.max_nonzeros(float(m), float(k))
    weights = np.random.default_rng(seed).standard_normal((m - 1, k - 1)) if m > rows + 1 else np.ones((m, k))
    pruned = weights * apply(weights, pattern, sparsity)
    for form in FORMATS:
        if form.can_store(pattern):
            encoded, counted = encode(pruned, pattern, form), count(pruned != 0, pattern, form)
            assert (encoded.values.size, encoded.bits.size) == (counted.elements, counted.metadata_bits), form
            np.testing.assert_array_equal(decode(encoded), pruned)
    expected = default_format(pattern).cost(pattern, float(m), float(k), pattern.stored_elements(float(m), float(k), 0.1))
    assert np.isfinite([expected.elements, expected.metadata_bits, selection_network_share(pattern)]).all()
    assert Combinatorial().can_store(pattern) == Bitmask().can_store(pattern)


@pytest.mark.parametrize("text", ["1:2/block:1x4/1:2", "1:2/block:2x2/1:2", "1:2/2:1:4", "block:2x4/1:2/block:1x2", "1:2/2:2/1:2"])
def test_the_nearest_mask_differs_in_the_fewest_places(text):
    levels, masks = text.split("/"), every_mask(2, 8)
    allowed = masks[legal(masks, levels)]
    for seed in range(20):
        mask = np.random.default_rng(seed).random((2, 8)) < 0.5
        found = nearest(mask, text)
        assert legal(found[None], levels).all()
        assert (found ^ mask).sum() == (allowed ^ mask).sum((1, 2)).min()


def test_blocks_between_two_levels_of_fixed_density_are_all_kept():
    """2 of 4 blocks of 32 x 32, each with 1:8 inside: 2/4 x 1/8."""
    pattern = parse("2:4/block:32x32/1:8")
    assert pattern.density == 1 / 16
    assert pattern.tile == (32, 128)
    assert pattern.stored_elements(64.0, 256.0, 1.0) == 64 * 256 / 16
    # one of 2 tiles out of 4, of 1 row of blocks in 2; then 3 bits for each element
    assert NMIndex().cost(pattern, 64.0, 256.0, 1024.0).metadata_bits == 2 * 2 * 2 * 2 + 3 * 1024


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2:2:8", "2:8"), ("4:1:16", "1:16"), ("8:2:4", "2:4"), ("2:2:*", "1:2:*"), ("1:2/1:4", "1:8"), ("2:4/vector:8", "2:4x8"),
        ("2:4/block:1x8/1:8", "2:4/1:8"), ("1:2/2:2:8", "1:2/block:2x8/2:8"), ("2:4/4:4", "2:4/block:1x4"), ("4:4/2:4", "2:4"),
        ("block:32x32/4:4", "block:32x32"), ("1:2/8:2:4", "1:2/block:8x4/2:4"),
    ],
)  # fmt: skip
def test_equal_patterns_have_the_same_text(text, same):
    assert str(parse(text)) == same == str(parse(same))


@pytest.mark.parametrize(
    ("below", "above"), [("block:4x8/2:4", "2:4"), ("block:16x16", "block:16x16*"), ("block:4x4/2:4", "block:8x8/2:4")]
)
def test_the_pattern_that_stores_less_of_the_same_masks_is_below(below, above):
    assert parse(below).is_below(parse(above))
    assert not parse(above).is_below(parse(below))
    assert parse(above).storage_pattern_for(parse(below)) is not None
    assert parse(below).storage_pattern_for(parse(above)) is not None  # any of them may be stored as the other


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4:4/block:4x4", "'4:4' keeps every tile, and each any fraction"),
        ("1:999999999/1:999999999", "is 999999998000000001 columns wide; write levels of at most 999999999 columns together"),
        ("4:4x8/2:4", "cannot be nested"),
    ],
)
def test_invalid_nestings_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)
