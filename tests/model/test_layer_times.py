"""Speedups of layers over a baseline, and the probability that they exceed one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.base.errors import InputError
from dse.model.efficiency.interval import Z_SCORE
from dse.model.efficiency.probability import probability_above_one
from dse.model.layer_times import speedup_over_baseline

logarithms = st.floats(-3, 3)
widths = st.floats(1e-3, 3)


@given(logarithms, widths, widths)
def test_probability_of_the_inverse_is_the_complement(log_estimate, below, above):
    values = np.exp([log_estimate, log_estimate - below, log_estimate + above])
    estimate, low, high = values
    assert probability_above_one(estimate, low, high) + probability_above_one(1 / estimate, 1 / high, 1 / low) == pytest.approx(1)


@given(widths, widths)
def test_probability_at_the_ends_and_at_the_estimate(below, above):
    assert probability_above_one(np.exp(below), 1.0, np.exp(below + above)) == pytest.approx(0.95)
    assert probability_above_one(np.exp(-above), np.exp(-above - below), 1.0) == pytest.approx(0.05)
    assert probability_above_one(1.0, np.exp(-below), np.exp(above)) == 0.5


@given(logarithms, widths, widths, st.floats(1.0, 2.0))
def test_probability_grows_with_the_speedup(log_estimate, below, above, factor):
    values = np.exp([log_estimate, log_estimate - below, log_estimate + above])
    assert probability_above_one(*(factor * values)) >= probability_above_one(*values) - 1e-12


def test_an_interval_without_width_leaves_no_doubt():
    np.testing.assert_array_equal(probability_above_one(*[np.array([0.5, 1.0, 2.0])] * 3), [0, 0.5, 1])


def test_probability_is_the_share_of_normal_samples():
    """Independent: 100,000 samples of a normal logarithm with the interval of the speedup."""
    samples = np.exp(np.random.default_rng(0).normal(0.1, 0.2, 100_000))
    ends = np.exp(0.1 + 0.2 * Z_SCORE * np.array([-1, 1]))
    assert probability_above_one(np.exp(0.1), *ends) == pytest.approx((samples > 1).mean(), abs=0.005)


def test_a_network_is_as_fast_as_itself():
    net = dse.load_workload("deit-s")
    layers = dse.evaluate("a100-sxm4-80gb", net, batch=8, fidelity="calibrated", baseline=net)
    for name in ("speedup", "speedup_low", "speedup_high"):
        np.testing.assert_allclose(layers[name], 1)
    np.testing.assert_array_equal(layers.faster_probability, 0.5)


def test_speedup_of_each_layer_is_that_of_two_evaluations(chip, net):
    pruned = net.variant("pruned", 0.9)
    layers = dse.evaluate(chip, pruned, batch=4, baseline=net.dense)
    dense = dse.evaluate(chip, net.dense, batch=4)
    np.testing.assert_allclose(layers.baseline_latency, dense.latency)
    takes_time = dense.latency.values > 0
    np.testing.assert_allclose(layers.speedup[takes_time], (dense.latency / layers.latency)[takes_time])
    assert "faster_probability" not in layers


def test_a_layer_that_takes_no_time_is_as_fast():
    assert speedup_over_baseline(np.zeros((1, 1)), np.zeros((1, 1)))["speedup"].item() == 1


def test_baselines_with_other_layers(chip, net):
    with pytest.raises(InputError, match="the baseline has other layers; give a variant of the same workload"):
        dse.evaluate(chip, net, baseline=dse.load_workload("resnet50"))
