"""Zeros that tokens share: as a trace counted them, and as independent where nothing was counted."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.model.activation_zeros import union_density
from dse.sparsity.expectation import any_of
from tests.model.test_runs import DENSE_FLOPS, PEAK, K, M, N, chip, network, run

SLOW = 1e9  # B/s: bound by memory
COUNTED = {1: np.array([0.25]), 2: np.array([0.3]), 4: np.array([0.4])}


def counted_network(**sizes):
    return replace(network("dense", 1.0, 0.25, **sizes), union_densities=COUNTED)


@pytest.mark.parametrize(("tokens", "share"), [(1, 0.25), (2, 0.3), (3, 0.35), (4, 0.4), (8, 1 - 0.6**2), (10, 1 - 0.6**2.5)])
def test_a_unit_skips_what_its_tokens_share(tokens, share):
    """By hand: 0.35 is between 0.3 of 2 and 0.4 of 4 tokens; 8 tokens are two independent groups of 4."""
    result = run(chip(f"pattern: dense, activations: {{tokens: {tokens}}}"), counted_network())
    assert result.latency == pytest.approx(share * DENSE_FLOPS / PEAK)


def test_weights_are_read_whose_input_any_token_needs():
    variant = counted_network(n=2, input_elements=K * 2)
    result = run(chip("pattern: dense, activations: {gathers_weights: true}", SLOW), variant)
    assert result.bytes == pytest.approx(2 * (0.3 * M * K + K * 2 + M * 2))


def test_slots_of_nm_activations_are_independent():
    """A unit that prunes activations to 2:4 has two of four inputs of every token, at places that no trace counted."""
    result = run(chip("pattern: dense, activations: {patterns: ['2:4'], tokens: 2}"), counted_network())
    assert result.latency == pytest.approx((1 - 0.5**2) * DENSE_FLOPS / PEAK)


@given(st.floats(0, 1), st.floats(1, 1000), st.lists(st.floats(0, 1), min_size=0, max_size=4))
def test_more_columns_need_no_fewer_inputs(density, columns, counts):
    """Between the density and 1, and rising with the columns, for any counts; without counts, zeros are independent."""
    unions = {2 ** (level + 1): np.array([share]) for level, share in enumerate(counts)}
    variant = replace(network("dense", 1.0, density), union_densities=unions)
    fewer, more = (union_density(variant, np.array([number]))[0] for number in (columns, columns * 1.5))
    assert density - 1e-12 <= fewer <= more + 1e-12 <= 1 + 2e-12
    if not counts:
        assert fewer == any_of(np.array([density]), np.array([columns]))[0]


def test_a_layer_without_counts_has_independent_zeros():
    variant = replace(network("dense", 1.0, 0.25), union_densities={2: np.array([np.nan])})
    assert union_density(variant, np.array([2.0]))[0] == pytest.approx(1 - 0.75**2)


def test_the_counts_reach_only_to_the_columns_of_the_layer():
    result = run(chip(f"pattern: dense, activations: {{tokens: {10 * N}}}"), counted_network())
    assert result.latency == pytest.approx((1 - 0.6 ** (N / 4)) * DENSE_FLOPS / PEAK)
