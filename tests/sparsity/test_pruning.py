"""The best legal mask against all legal masks of a small matrix."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.sparsity import apply, legal, nearest, parse, random_mask

MASKS = (np.arange(2**16)[:, None] >> np.arange(16) & 1).astype(bool).reshape(-1, 4, 4)
FIXED = ["1:2", "2:4", "3:4", "1:4x2", "2:4x4", "1:3", "1:2/1:2", "1:2/block:2x2", "1:2/1:2x2", "2:3/block:2x1"]
FREE = ["unstructured", "block:2x2", "block:1x4", "vector:4", "row", "column", "block:2x4/2:4"]


@cache
def all_legal_masks(text: str) -> np.ndarray:
    return MASKS[legal(MASKS, parse(text))]


def values(seed: int, shape: tuple[int, int] = (4, 4)) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("text", FIXED)
@pytest.mark.parametrize("seed", range(5))
def test_no_legal_mask_keeps_more(text, seed):
    pattern, weights = parse(text), values(seed)
    best = (all_legal_masks(text) * weights**2).sum(axis=(1, 2)).max()
    found = apply(weights, pattern)
    assert legal(found, pattern)
    assert (found * weights**2).sum() == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("text", FREE)
@pytest.mark.parametrize("sparsity", [0.25, 0.5, 0.75])
def test_no_legal_mask_of_the_same_sparsity_keeps_more(text, sparsity):
    pattern, weights = parse(text), values(1)
    found = apply(weights, pattern, sparsity)
    assert legal(found, pattern)
    no_fuller = all_legal_masks(text)[all_legal_masks(text).sum(axis=(1, 2)) <= found.sum()]
    if text != "block:2x4/2:4":  # whose blocks are counted, not its elements
        assert (found * weights**2).sum() == pytest.approx((no_fuller * weights**2).sum(axis=(1, 2)).max(), rel=1e-5)
        assert found.mean() == pytest.approx(1 - sparsity, abs=0.13)


@pytest.mark.parametrize(("text", "shape"), [("2:2:8", (2, 8)), ("4:1:6", (4, 6)), ("3:3:7", (3, 7)), ("2:2:5", (2, 5))])
def test_columns_are_chosen_optimally(text, shape):
    pattern, weights = parse(text), values(2, shape)
    best = 0.0
    for chosen in (c for c in (bits_of(n, shape[1]) for n in range(2 ** shape[1])) if c.sum() <= 4):
        kept = np.sort(np.where(chosen, weights**2, 0), axis=1)[:, -pattern.n :]
        best = max(best, kept.sum())
    found = apply(weights, pattern)
    assert legal(found, pattern)
    assert (found * weights**2).sum() == pytest.approx(best, rel=1e-5)


def bits_of(number: int, width: int) -> np.ndarray:
    return (number >> np.arange(width) & 1).astype(bool)


@pytest.mark.parametrize("text", [*FIXED, *FREE])
@settings(max_examples=20)
@given(number=st.integers(0, 2**16 - 1))
def test_no_legal_mask_is_nearer(text, number):
    mask = MASKS[number]
    found = nearest(mask, text)
    assert legal(found, text)
    assert (found != mask).sum() == (all_legal_masks(text) != mask).sum(axis=(1, 2)).min()


@pytest.mark.parametrize("text", ["2:4", "64:2:8", "1:4x32", "3:4/2:4", "2:4/block:4x4", "4:2:40"])
@settings(max_examples=8)  # each size is compiled
@given(m=st.integers(1, 130), k=st.integers(1, 90), seed=st.integers(0, 9))
def test_random_masks_are_legal_and_full_for_any_size(text, m, k, seed):
    pattern = parse(text)
    mask = random_mask(pattern, m, k, seed=seed)
    assert mask.shape == (m, k)
    assert legal(mask, pattern)
    assert mask.sum() <= pattern.max_nonzeros(float(m), float(k))
    if k % pattern.tile[1] == 0:
        assert mask.sum() == pattern.max_nonzeros(float(m), float(k))


def test_a_legal_mask_is_its_own_nearest_mask():
    for text in [*FIXED, *FREE]:
        mask = random_mask(parse(text), 4, 4, None if parse(text).density else 0.5)
        np.testing.assert_array_equal(nearest(mask, parse(text)), mask)


@pytest.mark.parametrize(
    ("text", "sparsity", "message"),
    [
        ("unstructured", None, "'unstructured' may keep any fraction; give a sparsity, from 0 to 1"),
        ("2:4", 0.75, "'2:4' is 0.5 sparse, not 0.75; leave the sparsity out"),
        ("2:4", np.nan, "'2:4' is 0.5 sparse, not nan; leave the sparsity out"),
        ("row", 1.5, "a sparsity of 1.5 is out of range; write a number from 0 to 1"),
        ("block:4x4*", 0.5, "'block:4x4*' is a family; name one of its members"),
    ],
)
def test_invalid_sparsities_are_refused(text, sparsity, message):
    with pytest.raises(InputError) as caught:
        apply(values(0), parse(text), sparsity)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((4, 3, 2, 2)), "an array 4x3x2x2 is not a matrix; reshape it to [m, k], as in 'array.reshape(len(array), -1)'"),
        (np.ones(()), "an array of a number is not a matrix; reshape it to [m, k], as in 'array.reshape(len(array), -1)'"),
        (np.full((4, 4), np.nan), "the weights have elements that are NaN or infinite; replace them by finite numbers"),
        ({"fc": np.full((4, 4), np.inf)}, "fc: the weights have elements that are NaN or infinite; replace them by finite numbers"),
    ],
)
def test_weights_without_a_best_mask_are_refused(weights, message):
    with pytest.raises(InputError) as caught:
        apply(weights, "2:4")
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["unstructured", "block:8x8", "block:8x8/2:4", "row"])
def test_global_pruning_drops_the_same_fraction_of_all_and_keeps_more(text):
    draw = np.random.default_rng(0)
    weights = {"light": draw.standard_normal((64, 64)), "heavy": 3 * draw.standard_normal((32, 64))}
    each, together = (apply(weights, text, 0.75, scope=scope) for scope in ("layer", "global"))
    for masks in (each, together):
        assert sum(mask.sum() for mask in masks.values()) == pytest.approx(0.25 * 96 * 64, rel=0.02)
        assert all(legal(mask, text) for mask in masks.values())
    kept_each, kept_together = (sum((weights[name][mask] ** 2).sum() for name, mask in masks.items()) for masks in (each, together))
    assert kept_together > kept_each
    if text == "unstructured":  # one threshold for both
        least = min(np.abs(weights[name][mask]).min() for name, mask in together.items())
        assert all(np.abs(weights[name][~mask]).max() <= least for name, mask in together.items())


@pytest.mark.parametrize(
    "choose",
    [
        lambda text: apply(np.ones((4, 4)), text, 0.5),
        lambda text: random_mask(text, 4, 4, 0.5),
    ],
)
def test_a_block_larger_than_the_matrix_is_refused(choose):
    with pytest.raises(InputError, match="a block of 'block:8x8', 8x8, is larger than the 4x4 matrix"):
        choose("block:8x8")


def test_random_masks_choose_incomplete_blocks_as_often_as_complete_ones():
    masks = [random_mask("block:4x4", 6, 6, 0.5, seed) for seed in range(400)]
    shares = np.mean([[mask[0, 0], mask[5, 5]] for mask in masks], axis=0)
    assert shares == pytest.approx([0.5, 0.5], abs=4 * 0.025)
