"""What best masks keep: against the masks themselves, and laws of containment."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.accuracy.retained import largest_sums, retained_saliency, retained_shares
from dse.sparsity.grammar import parse
from dse.sparsity.mask import legal
from dse.sparsity.pruned_pattern import PrunedPattern
from dse.sparsity.pruning import best_mask

ANY_SHAPE = [  # each pattern contains the next one, at the same sparsity
    ("unstructured@0.5", "16:32", "8:16", "4:8", "2:4"),
    ("unstructured@0.75", "4:16", "2:8", "1:4"),
    ("unstructured@0.5", "block:1x2@0.5", "block:2x2@0.5", "block:4x4@0.5", "block:8x4@0.5"),
    ("unstructured@0.75", "block:1x2@0.75", "block:1x4@0.75", "row@0.75"),
    ("unstructured@0.3", "vector:2@0.3", "vector:4@0.3", "column@0.3"),
]
COMPLETE_TILES = [
    ("2:4", "2:4x2", "2:4x8"),
    ("2:8", "4:2:8", "8:2:8"),
    ("block:4x4@0.75", "block:8x8@0.75", "block:16x8@0.75"),
    ("unstructured@0.75", "block:4x8/2:4@0.75", "block:8x8/2:4@0.75"),
]


def saliency(seed: int, shape: tuple[int, int]) -> np.ndarray:
    return np.abs(np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


@pytest.mark.parametrize(
    "text", ["unstructured@0.75", "block:4x4@0.75", "row@0.5", "column@0.25", "2:4", "1:4x8", "8:2:16", "block:8x8/2:4@0.75"]
)
def test_the_sum_is_that_of_the_best_mask(text):
    request, scores = PrunedPattern.parse(text), saliency(0, (32, 64))
    mask = best_mask(scores, request.pattern, request.sparsity)
    assert legal(mask, request.pattern)
    assert mask.mean() == pytest.approx(1 - request.sparsity)
    kept = (mask * scores).sum(dtype=float)
    assert retained_saliency(scores, request.pattern, [request.sparsity]) == pytest.approx([kept], rel=1e-6)


@given(st.integers(0, 1000), st.sampled_from(ANY_SHAPE), st.integers(8, 40), st.integers(8, 70))
def test_a_pattern_that_contains_another_never_keeps_less(seed, chain, rows, columns):
    shares = retained_shares([(1.0, saliency(seed, (rows, columns)))], [PrunedPattern.parse(text) for text in chain]).shares
    assert all(more >= less - 1e-6 for more, less in pairwise(shares))


@pytest.mark.parametrize("chain", COMPLETE_TILES)
@pytest.mark.parametrize("seed", range(3))
def test_containment_holds_for_complete_tiles_of_every_pattern(seed, chain):
    requests = [PrunedPattern.parse(text) for text in chain]
    assert all(a.pattern.allows_masks_of(b.pattern) for a, b in pairwise(requests))
    shares = retained_shares([(1.0, saliency(seed, (16, 64)))], requests).shares
    assert all(more >= less - 1e-6 for more, less in pairwise(shares))


@given(st.integers(0, 1000), st.sampled_from(["2:4x8", "8:2:8", "block:8x8/2:4@0.75", "2:4/block:2x2", "row@0.4"]), st.integers(8, 30))
def test_unstructured_pruning_keeps_the_most(seed, text, columns):
    request = PrunedPattern.parse(text)
    requests = [request, PrunedPattern.parse(f"unstructured@{request.sparsity}")]
    share, unstructured = retained_shares([(1.0, saliency(seed, (11, columns)))], requests).shares
    assert share <= unstructured


@given(st.integers(0, 100), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_largest_sums_against_a_loop(seed, densities):
    values = np.random.default_rng(seed).random(13)
    descending = sorted(values, reverse=True)
    expected = [sum(v * min(max(d * 13 - i, 0), 1) for i, v in enumerate(descending)) for d in densities]
    assert largest_sums(values, np.array(densities)) == pytest.approx(expected, abs=1e-9)


def test_incomplete_tiles_count_by_their_weights():
    """Of 3 x 3 ones in blocks of 2 x 2, any half of the weights is half of the saliency."""
    ones = np.ones((3, 3), np.float32)
    for text in ("block:2x2", "unstructured", "row"):
        assert retained_saliency(ones, parse(text), [0.5, 0.25]) == pytest.approx([4.5, 6.75])
    assert retained_saliency(ones, parse("1:2"), [0.5]) == pytest.approx([4.5])


def test_an_n_m_keeps_the_largest_of_each_group():
    scores = np.array([[4, 1, 2, 3, 0, 5, 6, 7]], np.float32)
    assert retained_saliency(scores, parse("2:4"), [0.5]) == pytest.approx([4 + 3 + 6 + 7])
    assert retained_saliency(scores, parse("4:8"), [0.5]) == pytest.approx([7 + 6 + 5 + 4])


def test_a_block_larger_than_a_layer_has_no_share_and_others_are_as_without_it():
    requests = [PrunedPattern.parse("block:64x64@0.5"), PrunedPattern.parse("2:4")]
    layers = [(2.0, saliency(1, (64, 64))), (1.0, saliency(0, (16, 16)))]
    shares = retained_shares(layers, requests)
    assert list(shares.misfits) == [requests[0].pattern]
    assert shares.misfits[requests[0].pattern].endswith("64x64, is larger than the 16x16 matrix")
    assert np.isnan(shares.shares[0])
    assert shares.shares[1] == retained_shares(layers, requests[1:]).shares[0]


def test_the_equivalent_sparsity_of_unstructured_pruning_is_its_own_and_of_a_pattern_at_least_that():
    requests = [PrunedPattern.parse(text) for text in ("unstructured@0.7", "2:4", "block:4x4@0.7")]
    shares = retained_shares([(3.0, saliency(1, (64, 64))), (1.0, 100 * saliency(2, (32, 32)))], requests)
    own, nm, block = map(shares.equivalent_sparsity, requests)
    assert own == 0.7
    assert 0.5 < nm < 0.65
    assert 0.7 < block < 1
