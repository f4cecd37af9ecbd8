"""Populations by device, library and memory: effects by hand and from many kernels, libraries that were measured elsewhere or never."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import stdtrit

import dse
from dse.model.efficiency.device_rates import memory_kind
from dse.model.efficiency.efficiency_file import shipped_kernels
from dse.model.efficiency.interval import Z_SCORE
from dse.model.efficiency.kernels.parameters import PARAMETERS, PRIOR
from dse.model.efficiency.kernels.population import OF_DEVICE, MixedPopulation

COUNT = len(PARAMETERS)


def same(value):
    return np.full(COUNT, float(value))


def population(devices, libraries, offsets, spreads, memories=None, deviation=0.0):
    """Kernels at the prior mean plus an offset each, with stated deviations of the effects of device, library and kernel.

    That of the memory is the first one too, 0 without `memories`.
    """
    thetas = PRIOR.mean + np.array(offsets)[:, None] * np.ones(COUNT)
    of_device, of_library, of_kernel = map(same, spreads)
    of_memory = of_device * (memories is not None)
    kinds = memories or ["?"] * len(devices)
    return MixedPopulation(devices, libraries, kinds, thetas, np.full_like(thetas, deviation), of_device, of_library, of_memory, of_kernel)


def test_many_kernels_say_how_far_devices_and_libraries_differ():
    """60 devices, 12 libraries on each: deviations of 0.75, 0.5 and 0.1 times those of the prior, whose candidates are as far apart."""
    rng = np.random.default_rng(0)
    scale = PRIOR.deviation
    of_device, of_library = rng.standard_normal((60, COUNT)), rng.standard_normal((12, COUNT))
    pairs = [(device, library) for device in range(60) for library in range(12)]
    thetas = np.array([0.75 * of_device[d] + 0.5 * of_library[n] + 0.1 * rng.standard_normal(COUNT) for d, n in pairs]) * scale
    subset = rng.choice(len(pairs), 90, replace=False)
    devices, libraries = ([str(pairs[index][column]) for index in subset] for column in (0, 1))
    of_all = MixedPopulation.of(devices, libraries, devices, PRIOR.mean + thetas[subset], np.zeros((90, COUNT)))
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
    assert new.device_deviation == pytest.approx(same(0.3 * students))
    assert new.kernel_deviation == pytest.approx(same(students * np.sqrt(0.09 + 0.09 / 2 + 0.09 / 2 + 0.09 / 4 + 0.09)))
    assert np.all(known.kernel_deviation < new.kernel_deviation)


def test_a_kernel_that_was_hardly_measured_hardly_counts():
    precise = population(["a", "b"], ["x", "x"], [0, 1], (0.3, 0.3, 0.3))
    assert precise.predict("x").theta - PRIOR.mean == pytest.approx(same(0.5))
    vague = replace(precise, deviations=np.array([same(0.01), same(10)]))
    assert vague.predict("x").theta - PRIOR.mean == pytest.approx(same(0), abs=0.01)


def test_few_devices_widen_the_spread():
    """One device has Student's t with the two degrees of freedom of the prior: 2.92 / 1.645."""
    one = MixedPopulation.of(["a"], ["x"], ["m"], PRIOR.mean[None], np.zeros((1, COUNT)))
    of_device = np.hypot(one.between_devices, one.between_memories)
    assert one.predict("x").device_deviation == pytest.approx(of_device * 2.92 / 1.645, rel=1e-3)
    assert np.all(one.predict("new").kernel_deviation > one.predict("x").kernel_deviation)


def test_kernels_of_a_device_move_their_own_device_by_hand():
    """One kernel on each of two devices, 0 and 1, of libraries of their own, with effects of 0.3 each: a kernel has a variance of 0.27. The
    device of the second is expected 0.09 / 0.27 of its deviation of 0.5 above the mean."""
    of_two = population(["a", "b"], ["x", "y"], [0, 1], (0.3, 0.3, 0.3))
    assert of_two.predict("z", "b").theta - PRIOR.mean == pytest.approx(same(0.5 + 0.5 / 3))
    assert of_two.predict("z", "c").theta - PRIOR.mean == pytest.approx(same(0.5))
    students = stdtrit(2 - 1 + 2, 0.95) / Z_SCORE
    assert of_two.predict("z", "b").device_deviation == pytest.approx(same(students * np.sqrt(0.09 - 0.09**2 / 0.27)))
    assert of_two.predict("z", "c").device_deviation == pytest.approx(same(students * 0.3))


def test_kernels_of_other_families_move_the_parameters_of_the_device_by_hand():
    """Two kernels that are 0.9 above their predictions: with effects of device and kernel of 0.3, two thirds of it belong to the device."""
    of_two = population(["a", "b"], ["x", "x"], [0, 1], (0.3, 0.3, 0.3))
    alone, together = of_two.predict("x"), of_two.predict("x", "c", None, np.full((2, COUNT), 0.9))
    assert together.theta - alone.theta == pytest.approx(np.where(OF_DEVICE, 0.6, 0.0))
    assert together.device_deviation == pytest.approx(alone.device_deviation * np.where(OF_DEVICE, np.sqrt(1 / 3), 1.0))
    assert together.kernel_deviation == pytest.approx(alone.kernel_deviation)


def test_devices_with_the_same_kind_of_memory_move_a_prediction_by_hand():
    """Two devices with each kind of memory, 1 apart, and effects of 0.3: a kernel has a variance of 0.36, and shares 0.18 with the other one
    of its memory and its library, 0.09 with the two others. The covariance has the eigenvalue 0.36 + 0.18 - 2 * 0.09 for the difference of
    the memories, of which a new device shares 2 * 0.09 with each of two kernels."""
    of_four = population(["a", "b", "c", "d"], ["x"] * 4, [0, 0, 1, 1], (0.3, 0.3, 0.3), ["hbm", "hbm", "gddr", "gddr"])
    weight = 2 * 0.09 / (0.36 + 0.18 - 2 * 0.09)
    assert of_four.predict("x", "e", "gddr").theta - PRIOR.mean == pytest.approx(same(0.5 + 0.5 * weight))
    assert of_four.predict("x", "e", "hbm").theta - PRIOR.mean == pytest.approx(same(0.5 - 0.5 * weight))
    assert of_four.predict("x", "e", "lpddr").theta - PRIOR.mean == pytest.approx(same(0.5))
    assert np.all(of_four.predict("x", "e", "hbm").device_deviation < of_four.predict("x", "e", "lpddr").device_deviation)


@pytest.mark.parametrize(
    ("name", "kind"), [("rtx5080", "gddr"), ("rtx3090", "gddr"), ("h100-sxm5-80gb", "hbm"), ("b300", "hbm"), ("jetson-agx-orin", "lpddr")]
)
def test_the_kind_of_memory_is_its_technology_without_the_generation(name, kind):
    assert memory_kind(dse.load_accelerator(name)) == kind


def test_shipped_kernels_state_the_memory_of_their_device():
    assert {k.device: k.rates.memory for k in shipped_kernels()} == {
        k.device: memory_kind(dse.load_accelerator(k.device)) for k in shipped_kernels()
    }
