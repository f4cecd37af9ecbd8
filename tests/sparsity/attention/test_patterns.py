"""Laws of attention patterns: counts against the definition, prefill against decode, containment against all small masks."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.sparsity.attention.family import contains, parse_family
from dse.sparsity.attention.grammar import parse_attention
from dse.sparsity.attention.pattern import AttentionPattern, FixedPattern
from tests.sparsity.attention.masks import score_mask
from tests.sparsity.attention.oracle import fixed_keys, legal_rows

FIXED = [
    "full", "causal", "window:1", "window:2", "window:5", "window:8", "global:2", "window:3+global:2", "strided:2", "strided:3",
    "window:2+strided:3", "window:3+strided:3", "window:4+global:3+strided:4", "global:5+strided:2", "chunk:2", "chunk:4", "chunk:6",
    "around:1", "around:4",
]  # fmt: skip
CHOSEN = ["topk:1", "topk:3", "topk:6", "topk:1x4", "topk:2x2", "topk:2x3", "topk:3x2", "block:2x2@0.5", "block:4x2@0.3", "block:3x4@0.7"]
sizes = st.integers(1, 40)


@st.composite
def patterns(draw, fixed_only=False):
    window, sinks, stride = draw(st.integers(0, 30)), draw(st.integers(0, 12)), draw(st.integers(0, 20))
    parts = [f"{name}:{size}" for name, size in [("window", window), ("global", sinks), ("strided", stride)] if size]
    kinds = ["causal", f"chunk:{draw(sizes)}", f"around:{draw(sizes)}", "+".join(parts) or "full"]
    if not fixed_only:
        kinds += [f"topk:{draw(sizes)}", f"topk:{draw(sizes)}x{draw(sizes)}"]
        kinds += [f"block:{draw(sizes)}x{draw(sizes)}@{draw(st.sampled_from(['0.1', '0.25', '0.5', '0.9']))}"]
    return draw(st.sampled_from(kinds))


def count(text: str, position: int, keys: int) -> int:
    return len(next(legal_rows(text, position, keys)))


@pytest.mark.parametrize("text", FIXED + CHOSEN)
def test_counts_are_those_of_the_definition_for_all_lengths_to_64(text):
    pattern = parse_attention(text)
    for keys in range(1, 65):
        expected = [count(text, position, keys) for position in range(keys)]
        for queries in range(1, keys + 1):
            assert pattern.count_scores(queries, keys) == sum(expected[keys - queries :])


@settings(deadline=None, max_examples=60)
@given(patterns(), st.integers(1, 300), st.data())
def test_counts_of_random_patterns_and_lengths(text, keys, data):
    queries = data.draw(st.integers(1, keys))
    pattern = parse_attention(text)
    expected = score_mask(pattern, queries, keys).sum()
    assert pattern.count_scores(queries, keys) == expected
    if isinstance(pattern, FixedPattern):
        rows = [fixed_keys(text, position, keys) for position in range(keys - queries, keys)]
        assert sum(map(len, rows)) == expected
        assert pattern.touched_keys(queries, keys) == len(frozenset().union(*rows))


@pytest.mark.parametrize("text", FIXED + CHOSEN)
def test_masks_are_legal(text):
    for keys in (1, 5, 9):
        mask = score_mask(parse_attention(text), keys, keys)
        for position in range(keys):
            assert frozenset(np.flatnonzero(mask[position]).tolist()) in set(legal_rows(text, position, keys))


@given(patterns(), st.integers(1, 10**7), st.integers(1, 1000))
def test_prefill_is_the_sum_of_decode_steps(text, keys, steps):
    pattern = parse_attention(text)
    if not pattern.is_causal:
        return
    first = max(keys - steps, 0)
    decoded = pattern.count_scores(np.ones(keys - first, np.int64), np.arange(first, keys) + 1)
    assert int(np.sum(decoded)) == pattern.count_scores(keys - first, keys)
    assert pattern.count_scores(keys, keys) == pattern.count_scores(first, first) + pattern.count_scores(keys - first, keys)


def test_counts_of_a_million_tokens_are_closed_forms():
    tokens = 2**20
    assert parse_attention("causal").count_scores(tokens, tokens) == tokens * (tokens + 1) // 2
    assert parse_attention("window:4096").count_scores(tokens, tokens) == 4096 * 4097 // 2 + (tokens - 4096) * 4096
    assert parse_attention("topk:2048").count_scores(1, tokens) == 2048
    assert parse_attention("strided:1024").count_scores(tokens, tokens) == 1024 * (1024 * 1025 // 2)


@settings(deadline=None, max_examples=80)
@given(patterns(fixed_only=True), st.integers(1, 70), st.integers(1, 20), st.integers(1, 20), st.data())
def test_touched_tiles_are_those_with_any_score(text, keys, rows, columns, data):
    queries = data.draw(st.integers(1, keys))
    mask = np.array([[key in fixed_keys(text, p, keys) for key in range(keys)] for p in range(keys - queries, keys)])
    expected = 0
    for row, column in product(range(0, queries, rows), range(0, keys, columns)):
        tile = mask[row : row + rows, column : column + columns]
        expected += tile.size * bool(tile.any())
    assert parse_attention(text).touched_scores(queries, keys, (rows, columns)) == expected


@settings(deadline=None, max_examples=80)
@given(patterns(), st.integers(1, 200), st.sampled_from([(1, 1), (1, 16), (16, 16), (64, 32), (128, 128)]), st.data())
def test_tiles_lie_between_the_scores_and_the_rectangle(text, keys, tile, data):
    queries = data.draw(st.integers(1, keys))
    pattern = parse_attention(text)
    assert pattern.count_scores(queries, keys) <= pattern.touched_scores(queries, keys, tile) <= queries * keys
    assert pattern.touched_scores(queries, keys) == pattern.count_scores(queries, keys)
    assert pattern.count_scores(1, keys) <= pattern.touched_keys(queries, keys) <= keys


@pytest.mark.parametrize("tile", [(4, 4), (2, 4), (4, 2), (1, 8)])
def test_tiles_that_divide_the_blocks_are_counted_exactly(tile):
    pattern = parse_attention("block:8x8@0.4")
    mask = score_mask(pattern, 64, 64)
    touched = [mask[r : r + tile[0], c : c + tile[1]] for r, c in product(range(0, 64, tile[0]), range(0, 64, tile[1]))]
    assert pattern.touched_scores(64, 64, tile) == sum(part.size for part in touched if part.any())


def test_indices_of_chosen_keys_and_blocks():
    assert parse_attention("topk:2048").stored_indices(1, 32768) == 2048
    assert parse_attention("topk:16x64").stored_indices(1, 32768) == 15  # the query's own block needs none
    assert parse_attention("topk:3x2").stored_indices(6, 6) == 0 + 0 + 1 + 1 + 2 + 2
    assert parse_attention("block:4x2@0.5").stored_indices(12, 12) == 0 + 1 + 2  # of 0, 2 and 4 earlier blocks
    assert parse_attention("window:4").stored_indices(6, 6) == 0


def covers(outer: str, inner: str, keys: int) -> bool:
    """Whether, for every query, each legal set of keys of `inner` is part of a legal set of `outer`."""
    positions = range(keys)
    return all(any(row <= other for other in legal_rows(outer, p, keys)) for p in positions for row in legal_rows(inner, p, keys))


@pytest.mark.parametrize("outer", FIXED + CHOSEN)
@pytest.mark.parametrize("inner", FIXED + CHOSEN)
def test_containment_is_sound(outer, inner):
    if contains(parse_attention(outer), parse_attention(inner)):
        assert all(covers(outer, inner, keys) for keys in (3, 8, 9))


@pytest.mark.parametrize("outer", FIXED)
@pytest.mark.parametrize("inner", FIXED)
def test_containment_of_fixed_masks_is_complete(outer, inner):
    expected = all(covers(outer, inner, keys) for keys in (7, 13, 40))
    assert contains(parse_attention(outer), parse_attention(inner)) == expected


@given(patterns(), patterns(), patterns())
def test_containment_is_an_order(first, second, third):
    a, b, c = map(parse_attention, (first, second, third))
    assert contains(a, a)
    if contains(a, b) and contains(b, c):
        assert contains(a, c)


@given(patterns())
def test_text_round_trip(text):
    pattern = parse_attention(text)
    assert parse_attention(str(pattern)) == pattern
    assert isinstance(pattern, AttentionPattern)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("strided:1", "causal"), ("window:1+strided:8", "strided:8"), ("window:9+strided:8", "window:8+strided:8"),
     ("global:4+window:8", "window:8+global:4"), ("block:64x64@1.0", "causal"), (" Causal ", "causal"), ("block:64x32@.50", "block:64x32@0.5")],
)  # fmt: skip
def test_canonical_text(text, canonical):
    assert str(parse_attention(text)) == canonical


@pytest.mark.parametrize(
    "text",
    ["", "windows:4", "window:0", "window:-1", "window:4+", "window:4+window:8", "topk:0", "topk:3x", "block:64x64", "block:64x64@0",
     "block:64x64@2", "causal+global:4", "2:4", "window:*", "chunk:9999999999"],
)  # fmt: skip
def test_bad_text_names_a_fix(text):
    with pytest.raises(InputError, match=r"write "):
        parse_attention(text)


@pytest.mark.parametrize(
    ("text", "keys", "needs"), [("window:8", 7, 8), ("topk:8", 7, 8), ("topk:2x8", 15, 16), ("block:4x8@0.5", 7, 8), ("global:9", 8, 9)]
)
def test_patterns_longer_than_the_context(text, keys, needs):
    with pytest.raises(InputError, match=f"needs {needs} tokens, and there are {keys}"):
        parse_attention(text).check_context(keys)
    parse_attention(text).check_context(needs)


@pytest.mark.parametrize(
    ("family", "pattern", "member"),
    [("window:*", "window:512", "window:512"), ("window:*", "causal", None), ("window:*", "window:8+global:2", None),
     ("window:*+global:*", "window:8", "window:8"), ("window:*", "chunk:64", "window:64"), ("chunk:*", "window:64", None),
     ("topk:*", "window:8+global:2", "topk:10"), ("topk:*", "topk:4x64", "topk:256"), ("topk:*", "strided:8", None),
     ("topk:*x32", "topk:4x64", "topk:4x64"), ("topk:*x64", "topk:4x32", None), ("block:64x64", "block:128x64@0.5", "block:128x64@0.5"),
     ("block:64x64", "block:32x64@0.5", None), ("around:*", "around:8", "around:8"), ("around:*", "window:3", None), ("topk:*", "around:8", None), ("causal", "topk:2048", "causal"), ("causal", "full", None), ("full", "window:3", "full")],
)  # fmt: skip
def test_members_of_families(family, pattern, member):
    found = parse_family(family).member_for(parse_attention(pattern))
    assert found == (None if member is None else parse_attention(member))


@given(
    patterns(),
    st.sampled_from(
        ["window:*", "window:*+global:*", "strided:*", "chunk:*", "topk:*", "topk:*x4", "block:2x2", "around:*", "around:6", "causal"]
    ),
)
def test_members_contain_the_pattern(text, family):
    pattern = parse_attention(text)
    if (member := parse_family(family).member_for(pattern)) is not None:
        assert contains(member, pattern)


@pytest.mark.parametrize("text", ["window:*+window:*", "window:4+global:*", "topk:4x*", "*", "block:64x64*"])
def test_bad_families(text):
    with pytest.raises(InputError):
        parse_family(text)
