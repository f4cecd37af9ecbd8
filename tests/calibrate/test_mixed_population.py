"""Populations by device and library: effects by hand and from many kernels, libraries that were measured elsewhere or never."""

import numpy as np
import pytest
from scipy.special import stdtrit

from dse.calibrate.mixed_population import MixedPopulation
from dse.model.efficiency.interval import Z_SCORE
from dse.model.efficiency.parameters import PARAMETERS, PRIOR

COUNT = len(PARAMETERS)


def same(value):
    return np.full(COUNT, float(value))


def population(devices, libraries, offsets, spreads, deviation=0.0):
    """Kernels at the prior mean plus an offset each, with stated standard deviations of the effects of device, library and kernel."""
    thetas = PRIOR.mean + np.array(offsets)[:, None] * np.ones(COUNT)
    return MixedPopulation(devices, libraries, thetas, np.full_like(thetas, deviation), *map(same, spreads))


def test_many_kernels_say_how_far_devices_and_libraries_differ():
    """60 devices, 12 libraries on each: deviations of 0.75, 0.5 and 0.1 times those of the prior, whose candidates are as far apart."""
    rng = np.random.default_rng(0)
    scale = PRIOR.deviation
    of_device, of_library = rng.standard_normal((60, COUNT)), rng.standard_normal((12, COUNT))
    pairs = [(device, library) for device in range(60) for library in range(12)]
    thetas = np.array([0.75 * of_device[d] + 0.5 * of_library[n] + 0.1 * rng.standard_normal(COUNT) for d, n in pairs]) * scale
    subset = rng.choice(len(pairs), 90, replace=False)
    devices, libraries = ([str(pairs[index][column]) for index in subset] for column in (0, 1))
    of_all = MixedPopulation.of(devices, libraries, PRIOR.mean + thetas[subset], np.zeros((90, COUNT)))
    assert np.median(of_all.between_devices / scale) == pytest.approx(0.75, rel=0.35)
    assert np.median(of_all.between_libraries / scale) == pytest.approx(0.5, rel=0.35)
    assert np.median(of_all.between_kernels / scale) == pytest.approx(0.1, rel=0.5)


def test_a_library_that_was_measured_elsewhere_moves_its_prediction_by_hand():
    """Two libraries on two devices, 1 apart. With independent effects of 0.3 each, a kernel has a variance of 0.27 and shares 0.09 with the
    other kernel of its library and with the other one of its device; the four means are 0.5, so that the deviation of a library of +-0.5 is
    kept to 2 * 0.09 / (0.27 + 0.09 - 0.09) = 2 / 3 of it."""
    of_two = population(["a", "a", "b", "b"], ["x", "y", "x", "y"], [0, 1, 0, 1], (0.3, 0.3, 0.3))
    weight = 2 * 0.09 / (0.27 + 0.09 - 0.09)
    assert of_two.predict("y").theta - PRIOR.mean == pytest.approx(same(0.5 + 0.5 * weight))
    assert of_two.predict("x").theta - PRIOR.mean == pytest.approx(same(0.5 - 0.5 * weight))
    assert of_two.predict("z").theta - PRIOR.mean == pytest.approx(same(0.5))


def test_a_library_without_measurements_has_the_whole_spread_between_libraries():
    """And the uncertainty of the mean: here of two libraries and two devices, 0.09 / 2 for each effect and 0.09 / 4 of the kernels."""
    of_two = population(["a", "a", "b", "b"], ["x", "y", "x", "y"], [0, 1, 0, 1], (0.3, 0.3, 0.3))
    students = stdtrit(2 - 1 + 2, 0.95) / Z_SCORE  # two devices and a prior of weight two
    new, known = of_two.predict("z"), of_two.predict("x")
    assert new.of_device == pytest.approx(same(0.3 * students))
    assert new.of_kernel == pytest.approx(same(students * np.sqrt(0.09 + 0.09 / 2 + 0.09 / 2 + 0.09 / 4 + 0.09)))
    assert np.all(known.of_kernel < new.of_kernel)


def test_a_kernel_that_was_hardly_measured_hardly_counts():
    precise = population(["a", "b"], ["x", "x"], [0, 1], (0.3, 0.3, 0.3))
    assert precise.predict("x").theta - PRIOR.mean == pytest.approx(same(0.5))
    vague = MixedPopulation(
        precise.devices, precise.libraries, precise.thetas, np.array([same(0.01), same(10)]), same(0.3), same(0.3), same(0.3)
    )
    assert vague.predict("x").theta - PRIOR.mean == pytest.approx(same(0), abs=0.01)


def test_few_devices_widen_the_spread():
    """One device has Student's t with the two degrees of freedom of the prior: 2.92 / 1.645."""
    one = MixedPopulation.of(["a"], ["x"], PRIOR.mean[None], np.zeros((1, COUNT)))
    assert one.predict("x").of_device == pytest.approx(one.between_devices * 2.92 / 1.645, rel=1e-3)
    assert np.all(one.predict("new").of_kernel > one.predict("x").of_kernel)
