"""What parameters leave unexplained: a Gaussian process by hand and by conditioning, its fit, its limits, and its record."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import dse
from dse.calibrate.fit.discrepancy import MAX_POINTS, MIN_LAUNCHES, with_discrepancy
from dse.model.efficiency.efficiency_file import shipped_kernels
from dse.model.efficiency.kernels.discrepancy import Discrepancy, correlation, log_sizes
from dse.model.efficiency.kernels.launches import KernelKey
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import PRIOR
from dse.model.efficiency.kernels.record import DiscrepancyRecord
from tests.model.efficiency.kernels.launches import unmeasured_launches

A100 = dse.load_accelerator("a100-sxm4-80gb")
KEY = KernelKey("a100-sxm4-80gb", "tensor_core", "k", "", "dense", "fp16")
MODEL = KernelModel(KEY, PRIOR.mean)
LENGTHS = np.array([2.0, 3.0, 4.0, 5.0])


def launches_of(shapes):
    return unmeasured_launches(KEY, A100, shapes, "dense", 1.0)


def random_shapes(count, seed=0):
    return [tuple(int(size) for size in shape) for shape in np.round(2 ** np.random.default_rng(seed).uniform(5, 14, (count, 3)))]


def measure_with_drawn_deviations(launches, deviation, noise):
    """Launches whose times deviate from `MODEL` by a Gaussian process of length 6 and by noise."""
    rng, sizes = np.random.default_rng(5), log_sizes(launches)
    covariance = deviation**2 * correlation(sizes, sizes, np.full(4, 6.0))
    log_ratios = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(sizes))) @ rng.normal(size=len(sizes)) + rng.normal(0, noise, len(sizes))
    return replace(launches, time=MODEL.predict_times(launches) * np.exp(log_ratios))


def test_a_single_launch_by_hand():
    """One measured deviation y: y s^2 / (s^2 + n^2) there, the 1/e-th of it one length away, nothing far away."""
    here = launches_of([(1024, 1024, 1024)])
    discrepancy = Discrepancy(log_sizes(here), np.array([0.3]), LENGTHS, 0.2, 0.1)
    probes = launches_of([(1024, 1024, 1024), (4096, 1024, 1024), (1024, 8192, 1024), (2**50, 1024, 1024)])
    at_launch = 0.3 * 0.04 / 0.05
    assert discrepancy.log_factor(probes) == pytest.approx([at_launch, at_launch / np.e, at_launch / np.e, 0], abs=1e-5)
    remaining = 0.04 - 0.04**2 / 0.05 + 0.01
    assert discrepancy.relative_deviation(probes)[[0, 3]] == pytest.approx([np.sqrt(remaining / 0.05), 1], abs=1e-4)


@given(st.integers(0, 1000), st.integers(1, 12))
def test_mean_and_deviation_are_those_of_a_conditional_normal_distribution(seed, count):
    rng = np.random.default_rng(seed)
    known, probes = launches_of(random_shapes(count, seed)), launches_of(random_shapes(5, seed + 1))
    discrepancy = Discrepancy(log_sizes(known), rng.normal(0, 0.2, count), LENGTHS, 0.2, 0.05)
    both = np.concatenate([log_sizes(known), log_sizes(probes)])
    covariance = [[0.04 * np.exp(-np.linalg.norm((one - other) / LENGTHS)) for other in both] for one in both]
    covariance = np.array(covariance) + 0.05**2 * np.eye(len(both))
    of_probes = covariance[count:, :count] @ np.linalg.inv(covariance[:count, :count])
    variance = np.diag(covariance[count:, count:] - of_probes @ covariance[:count, count:])
    assert discrepancy.log_factor(probes) == pytest.approx(of_probes @ discrepancy.log_ratios, abs=1e-5)
    assert discrepancy.relative_deviation(probes) == pytest.approx(np.sqrt(variance / (0.04 + 0.05**2)), abs=1e-4)


def test_a_fit_explains_deviations_that_neighbouring_shapes_share():
    """Of deviations of 20% with 1% of noise, shapes that the fit has not seen keep less than 60%, and 90% are in their intervals."""
    measured = measure_with_drawn_deviations(launches_of(random_shapes(900)), 0.2, 0.01)
    fitted, unseen = with_discrepancy(MODEL, measured.take(np.arange(700))), measured.take(np.arange(700, 900))
    assert fitted.discrepancy is not None
    assert len(fitted.discrepancy.sizes) == MAX_POINTS
    before, after = (np.abs(np.log(model.predict_times(unseen) / unseen.time)) for model in (MODEL, fitted))
    assert after.mean() < 0.6 * before.mean()
    half_width = 1.645 * np.hypot(fitted.discrepancy.deviation, fitted.discrepancy.noise) * fitted.relative_deviation(unseen)
    assert (after < half_width).mean() == pytest.approx(0.9, abs=0.06)


def test_noise_alone_is_not_explained():
    measured = replace(
        launches := launches_of(random_shapes(300)), time=MODEL.predict_times(launches) * np.exp(0.1 * np.sin(1e6 * launches.m))
    )
    fitted = with_discrepancy(MODEL, measured)
    unseen = launches_of(random_shapes(200, 3))
    assert np.abs(np.log(fitted.predict_times(unseen) / MODEL.predict_times(unseen))).max() < 0.06


def test_few_launches_have_no_discrepancy():
    launches = launches_of(random_shapes(MIN_LAUNCHES - 1))
    assert with_discrepancy(MODEL, replace(launches, time=MODEL.predict_times(launches))) is MODEL


def test_no_discrepancy_exceeds_the_peak_at_the_highest_clock_or_the_bandwidth():
    launches = launches_of(random_shapes(100))
    fast = replace(MODEL, discrepancy=Discrepancy(log_sizes(launches), np.full(100, -3.0), LENGTHS, 3.0, 0.1))
    at_peak = launches.flops / (launches.rates.peak * launches.rates.max_clock)
    assert (fast.predict_times(launches) >= at_peak).all()
    moved = launches.product.compulsory_bytes
    _, unit, memory = fast.time_components(launches, moved)
    assert (unit >= at_peak * (1 - 1e-12)).all()
    assert (memory >= moved / launches.rates.bandwidth * (1 - 1e-12)).all()


def test_several_products_in_one_launch_are_not_corrected():
    launches = launches_of([(256, 256, 256)] * 2)
    discrepancy = Discrepancy(log_sizes(launches), np.full(2, 0.5), LENGTHS, 0.5, 0.1)
    factors = replace(MODEL, discrepancy=discrepancy).correction(replace(launches, products=np.array([1.0, 12.0])))
    assert factors[0] > 1.4
    assert factors[1] == 1


def test_the_record_keeps_the_discrepancy():
    shapes = random_shapes(30)
    discrepancy = Discrepancy(log_sizes(launches_of(shapes)), np.random.default_rng(0).normal(0, 0.1, 30), LENGTHS, 0.1, 0.02)
    record = DiscrepancyRecord.of(discrepancy, 0.2)
    assert record.launches.splitlines()[0].split()[:3] == [str(size) for size in shapes[0]]
    probes = launches_of(random_shapes(50, 1))
    assert record.discrepancy().log_factor(probes) == pytest.approx(discrepancy.log_factor(probes), abs=3e-4)


@pytest.mark.parametrize("line", ["1024 1024 1024 1", "1024 1024 0 1 0.1", "1024 1024 m 1 0.1", "1024 1024 1024 1 nan"])
def test_a_line_that_is_no_launch_is_an_error(line):
    with pytest.raises(ValidationError, match="is not a launch"):
        DiscrepancyRecord(lengths=(1, 1, 1, 1), deviation=0.1, noise=0.1, half_width=0.2, launches=f"8 8 8 1 0.1\n{line}\n")


def test_intervals_are_narrower_near_measured_launches():
    kernel = next(kernel for kernel in shipped_kernels() if str(kernel) == "a100-pcie-80gb cuBLASLt dense bf16")
    assert kernel.fitted_discrepancy is not None
    assert kernel.half_width is not None
    sizes = np.exp2(kernel.fitted_discrepancy.sizes[:5, :3])
    near = unmeasured_launches(
        kernel.key, dse.load_accelerator("a100-pcie-80gb"), [tuple(map(round, shape)) for shape in sizes], "dense", 1.0
    )
    assert (kernel.interval_half_width(near) < kernel.half_width).all()
