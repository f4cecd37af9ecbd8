"""Masks are legal, have exactly the sparsity requested, and keep the most saliency that their pattern allows."""

from itertools import product
from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.sparsity import legal
from dse.sparsity.grammar import parse
from dse.sparsity.hierarchy import Hierarchy, inner_density
from dse.sparsity.pruned_pattern import PrunedPattern
from dse.training.masks import check_step, choose_masks, remaining_tiles, tile_count
from dse.training.request import FIXED_PATTERNS, FREE_PATTERNS, SPARSITIES

SIZES = {"a": (64, 128), "b": (64, 128)}  # 32 blocks of 16 x 16 each
STEPS = [PrunedPattern.of(parse(text)) for text in FIXED_PATTERNS] + [
    PrunedPattern.of(parse(text), s) for text, s in product(FREE_PATTERNS, SPARSITIES)
]


def random_weights(seed: int, sizes=SIZES) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(scale=generator.uniform(0.5, 2), size=size) for name, size in sizes.items()}


@pytest.mark.parametrize("scope", ["layer", "global"])
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_masks_are_legal_and_exactly_as_sparse_as_requested(step, scope):
    masks = choose_masks(random_weights(1), step, scope)
    assert all(legal(mask, step.pattern) for mask in masks.values())
    assert sum(int(mask.sum()) for mask in masks.values()) == (1 - step.sparsity) * sum(m * k for m, k in SIZES.values())


@pytest.mark.parametrize("step", STEPS[::3], ids=str)
def test_the_total_is_exact_where_layers_cannot_have_their_share(step):
    """9216 and 36864 weights are no multiples of 32 blocks; together with 18432 they are."""
    sizes = {"a": (32, 288), "b": (32, 288), "c": (64, 288), "d": (64, 576)}  # those of the small ResNet
    if step.pattern.density is None:
        total = sum(remaining_tiles(sizes, step).values()) * inner_density(step.pattern) * np.prod(step.pattern.tile)
        assert total == (1 - step.sparsity) * 73728


@pytest.mark.parametrize("step", [step for step in STEPS if step.pattern.density is not None], ids=str)
def test_every_layer_of_a_fixed_pattern_has_its_density(step):
    for mask in choose_masks(random_weights(2), step).values():
        assert mask.mean() == 1 - step.sparsity


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=6), st.floats(0.02, 0.98), st.sampled_from([1, 4]))
def test_tiles_are_shared_out_by_largest_remainders(grid, sparsity, block):
    """The total is the nearest whole number, and no layer differs from its share by a whole tile."""
    sizes = {str(number): (down * block, across * block) for number, (down, across) in enumerate(grid)}
    step = PrunedPattern.of(parse(f"block:{block}x{block}"), sparsity)
    counts, shares = (
        remaining_tiles(sizes, step),
        {name: (1 - sparsity) * down * across for name, (down, across) in zip(sizes, grid, strict=True)},
    )
    assert abs(sum(counts.values()) - sum(shares.values())) <= 0.5 + 1e-6
    assert all(abs(counts[name] - shares[name]) < 1 for name in sizes)
    rounded_up = [shares[name] % 1 for name in sizes if counts[name] > shares[name] + 1e-6]
    rounded_down = [shares[name] % 1 for name in sizes if counts[name] < shares[name] - 1e-6]
    assert min(rounded_up, default=1) >= max(rounded_down, default=0) - 1e-9


def test_the_density_inside_tiles_counts():
    step = PrunedPattern.of(parse("block:16x16/2:4"), 0.75)
    assert inner_density(step.pattern) == 0.5
    assert remaining_tiles({"a": (32, 288)}, step) == {"a": 18}  # half of the 36 tiles, half of the weights of each
    assert tile_count(parse("row"), 32, 288) == 32


def saliency(weights, masks) -> float:
    return sum(float((weights[name] ** 2 * mask).sum()) for name, mask in masks.items())


def contains(wide: PrunedPattern, narrow: PrunedPattern) -> bool:
    """Whether the masks of `wide` include those of `narrow`. A two-level pattern fills the tiles that it keeps: its masks do not include 1:4."""
    fills_tiles = isinstance(wide.pattern, Hierarchy) and not isinstance(narrow.pattern, Hierarchy)
    return wide != narrow and isclose(wide.sparsity, narrow.sparsity) and wide.pattern.allows_masks_of(narrow.pattern) and not fills_tiles


PAIRS = [pair for pair in product(STEPS, STEPS) if contains(*pair)]


@pytest.mark.parametrize("scope", ["layer", "global"])
def test_a_pattern_that_contains_another_never_keeps_less_saliency(scope):
    """At the same sparsity, where every layer can have its share exactly."""
    assert len(PAIRS) > 40
    for seed in range(2):
        weights = random_weights(seed)
        kept = {step: saliency(weights, choose_masks(weights, step, scope)) for step in {step for pair in PAIRS for step in pair}}
        for wide, narrow in PAIRS:
            assert kept[wide] >= kept[narrow] * (1 - 1e-6), f"{wide} keeps less than {narrow}"


@pytest.mark.parametrize(
    ("pattern", "sparsity", "sizes", "message"),
    [
        (
            "block:64x64",
            0.5,
            {"a": (32, 288), "b": (64, 64)},
            "a: a block of 'block:64x64', 64x64, is larger than the 32x288 matrix; take a smaller one",
        ),
        ("1:64", None, {"a": (32, 32)}, "a: the groups of '1:64' are wider than the 32x32 matrix; take a smaller one"),
        ("block:16x16", 0.99, {"a": (32, 32)}, "'block:16x16' at sparsity 0.99 keeps no weight; take a lower sparsity, or smaller blocks"),
    ],
)
def test_patterns_too_coarse_for_a_layer_are_refused(pattern, sparsity, sizes, message):
    with pytest.raises(InputError) as error:
        check_step(PrunedPattern.of(parse(pattern), sparsity), sizes)
    assert str(error.value) == message
