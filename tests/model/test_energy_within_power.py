"""Under `calibrated` no network takes more than the stated power of its device, and what the power limits is said: in every interface."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.base import catalog
from dse.base.errors import InputError
from dse.explaining.compare import compare_sides
from dse.explaining.side import make_side
from dse.model.cost.coefficients import has_known_process
from dse.model.cost.design import Design
from dse.model.cost.power import network_energy, static_power, supplied_share
from dse.searching.evaluator import Evaluator
from dse.searching.problem import load_problem

LIMITED = ("b200-sxm-180gb", "llama-2-7b", "int8")  # whose modelled energies exceed the stated power
A100 = dse.load_accelerator("a100-sxm4-80gb")
positive = st.floats(1e-6, 1e6)


def average_power(layers) -> float:
    return float(layers.energy.sum() / layers.latency.sum())


def specification(**changes):
    accelerator, network, dtype = LIMITED
    sweep = {
        "name": "limited",
        "accelerators": [accelerator],
        "workloads": {network: {"methods": ["dense"]}},
        "batch": [8],
        "dtype": [dtype],
    }
    return {**sweep, "model": {"fidelity": "calibrated"}, **changes}


@given(positive, positive, positive)
def test_a_device_supplies_its_power_at_most(energy, time, limit):
    design = Design(A100.replace({"cost.power": f"{limit!r} W"}))
    static = static_power(design)
    share, total = supplied_share(design, energy, time, "calibrated"), network_energy(design, energy, time, "calibrated")
    assert 0 <= share <= 1
    assert total <= max(limit, static) * time * (1 + 1e-9)
    if energy / time + static <= limit * (1 - 1e-9):
        assert share == 1
    for fidelity in ("sol", "r3", "capacity"):  # their times are lower bounds
        assert network_energy(design, energy, time, fidelity) == pytest.approx(energy + static * time, rel=1e-12)


def test_by_hand():
    """A design of 400 W, 32.5 W of them leakage, that takes 2 s for 1000 J of work supplies 735 J of them."""
    design = Design(A100)
    static = float(static_power(design))
    assert static == pytest.approx(32.5, abs=0.05)
    assert network_energy(design, 1000.0, 2.0, "calibrated") == pytest.approx(800, rel=1e-12)
    np.testing.assert_allclose(supplied_share(design, np.array([100.0, 1000.0]), 2.0, "calibrated"), [1, (400 - static) * 2 / 1000])


def devices_with_power() -> list[str]:
    """The shipped devices that state a power and a process."""
    devices = {name: dse.load_accelerator(name) for name in catalog.list_names("accel_models")}
    return [name for name, device in devices.items() if device.value("cost.power") and has_known_process(Design(device))]


@pytest.mark.parametrize("name", devices_with_power())
def test_no_shipped_device_takes_more_than_its_power(name):
    """In the two fastest dtypes for which there are kernels."""
    device = dse.load_accelerator(name)
    limit, peaks = device.value("cost.power"), {key: peak.value for unit in device.units.values() for key, peak in unit.peak.items()}
    for dtype in sorted(peaks, key=lambda key: peaks[key])[-2:]:
        try:
            layers = dse.evaluate(device, "llama-2-7b", 8, dtype, fidelity="calibrated")
        except InputError as error:
            if "no kernel was measured" not in str(error):
                raise
            continue
        if "power limits this network" in layers.attrs.get("notes", ""):
            assert average_power(layers) == pytest.approx(limit, rel=1e-9)
        else:
            assert average_power(layers) < limit


@pytest.mark.filterwarnings("ignore:.*(no bandwidth|not measured there):dse.ModelWarning")
def test_evaluations_sweeps_searches_and_explanations_agree():
    name, network, dtype = LIMITED
    limit = dse.load_accelerator(name).value("cost.power")
    layers = dse.evaluate(name, network, 8, dtype, fidelity="calibrated")
    energy = float(layers.energy.sum())
    assert f"counted as the {limit:.4g} W of the design" in layers.attrs["notes"]
    assert energy == pytest.approx(limit * float(layers.latency.sum()), rel=1e-9)
    assert float(layers.power_limited_latency.sum()) >= float(layers.latency.sum())

    store = {"variables": ["latency", "energy", "average_power", "power", "power_limited_latency"], "dtype": "float64"}
    with pytest.warns(dse.ModelWarning, match=f"takes the {limit:.4g} W of the design on average: its modelled energy is larger"):
        results = dse.sweep(specification(store=store))
    assert results.energy.item() == pytest.approx(energy, rel=1e-9)
    assert results.average_power.item() == pytest.approx(results.power.item(), rel=1e-9)
    assert results.power_limited_latency.item() == pytest.approx(results.latency.item(), rel=1e-9)

    axes = {"memory.dram.bandwidth": ["8 TB/s", "16 TB/s"]}
    evaluator = Evaluator(*load_problem(specification(axes=axes, search={"minimize": ["energy"]})))
    searched = evaluator.evaluate(np.array([[0.0]]))
    assert searched["energy"].item() == pytest.approx(energy, rel=1e-6)

    sides = [
        {"accelerator": name, "workload": network, "batch": 8, "dtype": dtype, "fidelity": fidelity} for fidelity in ("sol", "calibrated")
    ]
    comparison = compare_sides(*map(make_side, sides), "energy")
    assert comparison.value_b == pytest.approx(energy, rel=1e-9)
    assert comparison.value_a == pytest.approx(float(dse.evaluate(name, network, 8, dtype, fidelity="sol").energy.sum()), rel=1e-9)
    assert sum(part.value for part in comparison.parts) == pytest.approx(comparison.value_b - comparison.value_a, rel=1e-9)
