"""Activations whose zeros are detected and left out at run time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.sparsity.expectation import any_of
from tests.model.test_runs import BANDWIDTH, DENSE_FLOPS, PEAK, K, M, N, chip, network, run

SLOW = 1e9  # B/s: bound by memory


@given(st.floats(0, 1), st.integers(1, 6))
def test_the_share_in_any_column_is_that_of_random_masks(density, columns):
    """Enumerated: all masks of a row, each with its probability."""
    nonzeros = [bin(mask).count("1") for mask in range(1, 2**columns)]
    expected = sum(density**count * (1 - density) ** (columns - count) for count in nonzeros)
    assert any_of(np.array([density]), np.array([float(columns)]))[0] == pytest.approx(expected, abs=1e-12)


def test_one_column_keeps_its_density_exactly():
    density = np.array([0.0, 0.3, 1.0])
    np.testing.assert_array_equal(any_of(density, np.ones(3)), density)


@pytest.mark.parametrize(("tokens", "share"), [(1, 0.25), (2, 1 - 0.75**2), (N, 1 - 0.75**N), (10 * N, 1 - 0.75**N)])
def test_tokens_that_are_computed_together_share_what_is_skipped(tokens, share):
    result = run(chip(f"pattern: dense, activations: {{tokens: {tokens}}}"), network("dense", 1.0, 0.25))
    assert result.latency == pytest.approx(share * DENSE_FLOPS / PEAK)
    assert result.bytes == 2 * (M * K + K * N + M * N)


@pytest.mark.parametrize("tokens", [1, 3])
def test_weights_with_no_input_are_not_read(tokens):
    variant = network("dense", 1.0, 0.25, n=tokens, input_elements=K * tokens)
    result = run(chip("pattern: dense, activations: {gathers_weights: true}", SLOW), variant)
    assert result.bytes == pytest.approx(2 * ((1 - 0.75**tokens) * M * K + K * tokens + M * tokens))
    assert result.latency == pytest.approx(result.bytes / SLOW)


def test_the_decoder_that_detects_zeros_is_a_resource():
    slow_decoder = chip("pattern: dense, activations: {detected: true}, decode: 1 GB/s")
    result = run(slow_decoder, network("dense", 1.0, 0.25))
    assert result.latency == pytest.approx(2 * K * N / 1e9)
    assert result.bound == "u.decoder"
    fast = run(chip(f"pattern: dense, activations: {{detected: true}}, decode: {BANDWIDTH} B/s"), network("dense", 1.0, 0.25))
    assert fast.latency == pytest.approx(0.25 * DENSE_FLOPS / PEAK)


def test_the_measured_gain_of_thresholds_is_below_the_limit():
    """TEAL (Liu et al. 2024, arXiv 2408.14690, abstract): up to 1.53x and 1.8x at 40% and 50% zeros, one sequence."""
    device = dse.load_accelerator("a100-sxm4-80gb").to_dict()
    device["units"]["tensor_core"]["runs"]["dense"] = {"weights": "dense", "inputs": {"gathers_weights": True}}
    for zeros, measured in ((0.4, 1.53), (0.5, 1.8)):
        llama = dse.load_workload("llama-2-7b", phase="decode", sequence=128).with_activation_density(1 - zeros)
        gain = dse.evaluate("a100-sxm4-80gb", llama, 1).latency.sum() / dse.evaluate(device, llama, 1).latency.sum()
        assert measured < float(gain) < 1 / (1 - zeros)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pattern: dense, activations: {detected: true}", "zeros that are detected at run time need a rate"),
        ("pattern: dense, activations: {zeros: gated, tokens: 2}", "'tokens' is about zeros that take no time"),
        ("pattern: dense, activations: {zeros: gated, gathers_weights: true}", "'gathers_weights' is about zeros"),
        ("pattern: dense, activations: {tokens: 0}", "tokens"),
    ],
)
def test_contradictions_are_errors(text, message):
    with pytest.raises(dse.InputError, match=message):
        chip(text)
