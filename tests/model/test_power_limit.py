"""Stated energies and idle power, and the time that a power limit leaves: laws, and cases by hand."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.base.errors import InputError
from dse.model.cost.action_energy import energy_per_byte, energy_per_operation
from dse.model.cost.coefficients import fitted_coefficients
from dse.model.cost.design import Design
from dse.model.cost.fit import load_published_devices
from dse.model.cost.power import (
    leakage_power,
    memory_power,
    modelled_power,
    peak_share_at_power,
    power,
    power_drivers,
    power_limited_time,
    static_power,
)
from dse.sweeping.axis import parse_axis

A100 = dse.load_accelerator("a100-sxm4-80gb")

positive = st.floats(1e-6, 1e6)


def a100_with_energies(dtype="fp16", energy="2 pJ/FLOP"):
    """An A100 that states an energy per operation and per byte of DRAM, and an idle power."""
    description = copy.deepcopy(A100.document.data)
    description["units"]["tensor_core"]["energy"] = {dtype: energy}
    description["memory"]["dram"]["energy"] = "10 pJ/bit"
    description["cost"]["idle"] = "90 W"
    return dse.Accelerator.from_dict(description)


@given(positive, positive, positive, positive)
def test_the_average_power_never_exceeds_the_limit(time, energy, limit, static):
    limited = float(power_limited_time(time, energy, limit, static))
    assert limited >= time
    if static >= limit:
        assert limited == np.inf
    else:
        assert energy / limited + static <= limit * (1 + 1e-9)
        assert limited == time or energy / limited + static == pytest.approx(limit, rel=1e-9)  # no longer than necessary


def test_power_limited_time_by_hand():
    np.testing.assert_allclose(power_limited_time(np.array([1.0, 3.0]), np.array([100.0, 100.0]), 60.0, 10.0), [2.0, 3.0])


def test_stated_energies_replace_those_of_the_model():
    """By hand: 2 pJ/FLOP at any precision that states it, 10 pJ/bit of DRAM, 90 W idle."""
    chip = a100_with_energies()
    design, before = Design(chip), Design(A100)
    assert energy_per_operation(design, "tensor_core", "fp16") == pytest.approx(2e-12, rel=1e-12)
    assert energy_per_operation(design, "tensor_core", "int8") == energy_per_operation(before, "tensor_core", "int8")
    assert energy_per_byte(design, "dram") == pytest.approx(80e-12, rel=1e-12)
    assert energy_per_byte(design, "l2") == energy_per_byte(before, "l2")
    assert static_power(design) == pytest.approx(90, rel=1e-12)
    chip = chip.replace({"cost.fixed": "50 mm^2"})  # which otherwise grows with the cache
    more = static_power(Design(chip.replace({"memory.l2.capacity": "80 MB"}), base=chip)) - 90
    added_area = fitted_coefficients().area.gpu.sram.value * 40e6  # at 7 nm
    assert more == pytest.approx(leakage_power(design, added_area), rel=1e-9)


def test_energy_and_power_agree_at_full_load():
    """A second at the sustained clock of the tensor cores and the bandwidth of every memory takes the modelled power."""
    chip = a100_with_energies()
    design = Design(chip)
    rates = {
        dtype: peak.value * energy_per_operation(design, "tensor_core", dtype) for dtype, peak in chip.units["tensor_core"].peak.items()
    }
    leakage, sustained = leakage_power(design, 826e-6), (1.275 / 1.41) ** 0.5
    moved = 2039e9 * 80e-12 + chip.value("memory.l2.bandwidth") * energy_per_byte(design, "l2")
    assert memory_power(design) == pytest.approx(moved, rel=1e-9)
    assert modelled_power(design, 826e-6) == pytest.approx(leakage + moved + sustained * max(rates.values()), rel=1e-9)
    assert max(rates.values()) == pytest.approx(312e12 * 2e-12, rel=1e-9)
    assert power(design) == pytest.approx(400, rel=1e-12)  # as published


def test_without_stated_energies_the_power_is_a_sum_of_fitted_coefficients_and_drivers():
    for device in load_published_devices():
        fitted = fitted_coefficients().power.of(device.family)
        leakage, *units = (getattr(fitted, name).value * driver for name, driver in power_drivers(device.design, device.area).items())
        assert modelled_power(device.design, device.area) == pytest.approx(memory_power(device.design) + leakage + max(units), rel=1e-9)


def test_a_board_of_70_w_holds_a_third_of_its_peak():
    """A T4 multiplies fp16 matrices of 4096 at 24 of 65 TFLOP/s, limited by its power: forums.developer.nvidia.com/t/264462 (2023)."""
    t4 = next(device for device in load_published_devices() if device.device == "T4")
    share = float(peak_share_at_power(t4.design, 70, t4.area))
    assert 24 / 65 <= share < 0.75
    assert peak_share_at_power(t4.design, 7000, t4.area) == 1


@pytest.mark.parametrize("fidelity", ["sol", "capacity"])
def test_layers_have_an_energy_and_a_power_limited_latency(fidelity):
    dense = dse.load_workload("resnet50").dense
    free = A100.replace({"cost.power": "10 MW"})
    layers = dse.evaluate(free, dense, 32, "fp16", fidelity=fidelity)
    assert (layers.power_limited_latency == layers.latency).all()
    assert "on average" not in layers.attrs.get("notes", "")
    static = static_power(Design(free))
    dynamic = layers.energy - static * layers.latency
    moved = layers.traffic.sel(memory="dram") if fidelity == "capacity" else layers.bytes
    least = moved * energy_per_byte(Design(free), "dram") + layers.dense_flops * energy_per_operation(Design(free), "tensor_core", "fp16")
    assert (dynamic >= least * (1 - 1e-9)).all()
    limited = dse.evaluate(A100.replace({"cost.power": "150 W"}), dense, 32, "fp16", fidelity=fidelity)
    assert (limited.latency == layers.latency).all()  # the latency itself is that of the roofline
    assert (limited.energy == layers.energy).all()
    available = 150 - static
    np.testing.assert_allclose(limited.power_limited_latency, np.maximum(layers.latency, dynamic / available), rtol=1e-9)
    assert "above the 150 W of the design: at this, its layers take" in limited.attrs["notes"]


def test_an_accelerator_without_a_process_has_no_energy():
    layers = dse.evaluate("tpu-v5p", "resnet50", 1, "bf16")
    assert not {"energy", "power_limited_latency"} & set(layers)


def test_an_energy_belongs_to_a_dtype_of_the_unit():
    with pytest.raises(InputError, match=r"energy\.fp15: the unit has no peak for 'fp15'"):
        a100_with_energies("fp15")
    with pytest.raises(InputError, match="'pJ/B' is the wrong unit here"):
        a100_with_energies("fp16", "1 pJ/B")


def test_energies_are_not_varied():
    with pytest.raises(InputError, match="is an energy, which is not varied; write an accelerator for each value"):
        parse_axis("memory.dram.energy", ["40 pJ/B", "80 pJ/B"], [a100_with_energies()])


@pytest.mark.parametrize("fidelity", ["sol", "capacity", "calibrated"])
def test_power_limited_layers_stay_below_the_stated_power(fidelity):
    """Each execution takes at least its energy over the power left; the fastest one runs, so that less energy may win."""
    variant = dse.load_workload("resnet50").variant("magnitude_pruning", sparsity=0.9)
    choice = {"fidelity": fidelity, "dense_fallback": True}
    free = dse.evaluate(A100, variant, 64, "fp16", **choice)
    limit = 1.01 * float((free.energy / free.latency).median())
    chip = A100.replace({"cost.power": f"{limit!r} W"})
    free = dse.evaluate(chip, variant, 64, "fp16", **choice)
    limited = dse.evaluate(chip, variant, 64, "fp16", power_limited=True, **choice)
    assert (limited.energy <= limit * limited.latency * (1 + 1e-6)).all()
    assert (free.latency <= limited.latency).all()
    assert (limited.latency <= free.power_limited_latency * (1 + 1e-9)).all()
    assert "on average" not in limited.attrs.get("notes", "")
    is_limited = limited.bound.values == "power"
    assert 0 < is_limited.sum() < len(is_limited)
    np.testing.assert_allclose((limited.energy / limited.latency).values[is_limited], limit, rtol=1e-9)
    assert (limited.bound == free.bound).values[~is_limited].all()
    assert (limited.latency == free.latency).values[~is_limited].all()
    if fidelity == "calibrated":
        assert (free.latency_low <= limited.latency_low).all()
        assert (limited.latency_low <= limited.latency_high).all()
    if fidelity == "capacity":
        assert (limited.latency_bound <= limited.latency * (1 + 1e-9)).all()
    plenty = A100.replace({"cost.power": "10 MW"})
    unlimited, limited = (dse.evaluate(plenty, variant, 64, "fp16", power_limited=each, **choice) for each in (False, True))
    assert (unlimited.latency == limited.latency).all()


def test_a_power_limit_needs_a_process_and_power_above_idle():
    with pytest.raises(InputError, match=r"'a100-sxm4-80gb' takes 32\.5 W idle, but has 30 W"):
        dse.evaluate(A100.replace({"cost.power": "30 W"}), "resnet50", 1, "fp16", power_limited=True)
    with pytest.raises(InputError, match="'tpu-v5p' has no process"):
        dse.evaluate("tpu-v5p", "resnet50", 1, "bf16", power_limited=True)
