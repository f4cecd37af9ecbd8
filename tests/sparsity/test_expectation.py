"""Expectations against the mean over all masks, and laws for sizes too large to enumerate."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.sparsity import expectation

SMALL = [(3, 4, 5), (2, 6, 3), (4, 4, 8), (5, 3, 2), (1, 9, 3), (2, 8, 15), (3, 3, 0), (2, 4, 8)]


def every_mask(fibres: int, size: int, kept: int) -> np.ndarray:
    """All masks [mask, fibre, place] with `kept` places."""
    chosen = list(combinations(range(fibres * size), kept))
    masks = np.zeros((len(chosen), fibres * size), bool)
    for mask, places in zip(masks, chosen, strict=True):
        mask[list(places)] = True
    return masks.reshape(-1, fibres, size)


def padding(fibre: np.ndarray, step: int) -> int:
    """Count added places along a fibre: after `step` - 1 dropped places one is added, if a kept one follows."""
    kept, gap = 0, 0
    for place, there in enumerate(fibre):
        gap = 0 if there else gap + 1
        if gap == step and fibre[place:].any():
            kept, gap = kept + 1, 0
    return kept


@pytest.mark.parametrize("case", SMALL)
def test_expectations_are_means_over_all_masks(case):
    masks, numbers = every_mask(*case), tuple(map(float, case))
    lengths = masks.sum(axis=2)
    assert expectation.longest_fibre(*numbers) == pytest.approx(lengths.max(axis=1).mean(), rel=1e-10)
    assert expectation.occupied_fibres(*numbers) == pytest.approx((lengths > 0).sum(axis=1).mean(), rel=1e-9)
    assert expectation.kept_deviation(*numbers) == pytest.approx(lengths[:, 0].std(), abs=1e-9)
    for step in (1, 2, 4):
        found = np.mean([sum(padding(fibre, step) for fibre in mask) for mask in masks])
        assert expectation.gap_padding(*numbers, float(step)) == pytest.approx(found, rel=1e-9, abs=1e-12)
    for width, align in ((3.0, 8.0), (1.0, 2.0)):
        found = (np.ceil(lengths * width / align) * align).sum(axis=1).mean()
        assert expectation.aligned_bits(*numbers, width, align) == pytest.approx(found, rel=1e-9)


@given(st.integers(2, 5000), st.integers(2, 20000), st.floats(0.001, 0.999))
def test_the_longest_row_is_between_the_mean_and_the_width_of_the_matrix(fibres, size, density):
    kept = float(round(fibres * size * density))
    longest = float(expectation.longest_fibre(float(fibres), float(size), kept))
    assert kept / fibres - 1e-9 <= longest <= min(size, kept) + 1e-9
    assert float(expectation.longest_fibre(float(fibres), float(size), min(kept + fibres, fibres * size))) >= longest - 1e-6


def test_the_longest_row_of_a_large_matrix_agrees_with_samples():
    """4096 x 11008 with density 0.1: 200 samples of the multivariate hypergeometric distribution."""
    fibres, size, kept = 4096, 11008, 4508877
    draw = np.random.default_rng(0).multivariate_hypergeometric
    found = np.array([draw([size] * fibres, kept, method="marginals").max() for _ in range(200)])
    assert abs(found.mean() - expectation.longest_fibre(float(fibres), float(size), float(kept))) < 3 * found.std() / np.sqrt(200)
