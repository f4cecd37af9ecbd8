"""The steps to a pattern and sparsity: nested, at most half of the weights each, and independent of what else is measured."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.sparsity.grammar import parse
from dse.sparsity.pruned_pattern import PrunedPattern
from dse.training.masks import choose_masks
from dse.training.pruning_path import pruning_path
from dse.training.request import FIXED_PATTERNS, FREE_PATTERNS, SPARSITIES


def texts(pattern: str, sparsity: float | None = None) -> list[str]:
    return [str(step) for step in pruning_path(PrunedPattern.of(parse(pattern), sparsity))]


def test_paths_by_hand():
    assert texts("unstructured", 0.875) == ["unstructured 0.5", "unstructured 0.75", "unstructured 0.875"]
    assert texts("block:4x4", 0.9) == ["block:4x4 0.5", "block:4x4 0.75", "block:4x4 0.875", "block:4x4 0.9"]
    assert texts("unstructured", 0.3) == ["unstructured 0.3"]
    assert texts("1:8") == ["4:8 0.5", "2:8 0.75", "1:8 0.875"]
    assert texts("3:8") == ["6:8 0.25", "3:8 0.625"]
    assert texts("16:2:16") == ["8:16x16 0.5", "4:16x16 0.75", "16:2:16 0.875"]
    assert texts("16:1:32")[-2:] == ["16:2:32 0.9375", "16:1:32 0.96875"]
    assert texts("block:16x16/2:4", 0.75) == ["block:16x16/2:4 0.5", "block:16x16/2:4 0.75"]


TARGETS = [(text, None) for text in FIXED_PATTERNS] + [(text, sparsity) for text in FREE_PATTERNS for sparsity in SPARSITIES]


@pytest.mark.parametrize(("pattern", "sparsity"), TARGETS)
def test_every_step_prunes_at_most_half_of_the_masks_before_it(pattern, sparsity):
    path = pruning_path(PrunedPattern.of(parse(pattern), sparsity))
    densities = [1.0, *(1 - step.sparsity for step in path)]
    for before, after in pairwise(densities):
        assert before / 2 - 1e-9 <= after < before
    weights, before = np.random.default_rng(0).normal(size=(32, 64)), np.ones((32, 64), bool)
    for step in path:
        (mask,) = choose_masks({"a": weights * before}, step).values()
        if step.sparsity * 8 <= 7:  # 8 blocks of 16 x 16
            assert not (mask & ~before).any()
            assert mask.mean() == 1 - step.sparsity
        before = mask
    assert path[-1].sparsity == (sparsity or 1 - (parse(pattern).density or 0))


@given(st.sampled_from(TARGETS))
def test_the_beginning_of_a_path_is_the_path_of_its_last_step(target):
    path = pruning_path(PrunedPattern.of(parse(target[0]), target[1]))
    for length in range(1, len(path)):
        assert pruning_path(path[length - 1]) == path[:length]
