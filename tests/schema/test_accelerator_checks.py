"""What an accelerator may not state: names of other resources, and costs that no device has."""

import pytest

import dse
from dse.base.errors import InputError
from dse.model.cost.clock import sustained_share
from dse.model.cost.design import Design
from dse.model.host_time import HOST_RESOURCE
from dse.model.layer_times import POWER_RESOURCE
from dse.model.terms import OVERHEAD_RESOURCE
from dse.schema.accelerator import Accelerator
from dse.schema.accelerator_checks import RESERVED_NAMES
from dse.searching.saved_design import describe_variation


def description(cost=None, clocks=("1.4 GHz", "1 GHz")):
    units = {name: {"peak": {"fp16": "1 TFLOP/s"}} | ({"clock": clock} if clock else {}) for name, clock in zip("ab", clocks, strict=True)}
    memory = {"dram": {"bandwidth": "1 TB/s", "capacity": "1 GB"}}
    return {"name": "chip", "source": "test", "units": units, "memory": memory, "cost": {"process": "7 nm", **(cost or {})}}


def problems(data):
    with pytest.raises(InputError) as caught:
        Accelerator.from_dict(data)
    return [str(problem) for problem in caught.value.problems]


def test_every_resource_without_a_name_of_the_description_is_reserved():
    assert set(RESERVED_NAMES) == {HOST_RESOURCE, OVERHEAD_RESOURCE, POWER_RESOURCE}


@pytest.mark.parametrize("name", RESERVED_NAMES)
@pytest.mark.parametrize(("section", "ending"), [("units", "unit"), ("memory", "dram")])
def test_names_of_other_resources_are_refused(section, ending, name):
    data = description()
    data[section] = {**data[section], name: next(iter(data[section].values()))}
    fix = f"write another name, as in '{name}_{ending}'"
    assert problems(data) == [f"{section}.{name}: '{name}' is the name of a resource that results report; {fix}"]


@pytest.mark.parametrize("key", ["sustained_clock", "base_clock"])
def test_no_clock_under_load_is_above_the_highest_clock_of_the_peaks(key):
    assert Accelerator.from_dict(description({key: "1.4 GHz"})).value(f"cost.{key}") == 1.4e9
    assert Accelerator.from_dict(description({key: "3 GHz"}, clocks=("1.4 GHz", None))).value(f"cost.{key}") == 3e9  # it may be that of b
    fix = "write at most 1.4 GHz, or the clock at which the peaks are reached under 'units'"
    assert problems(description({key: "1.5 GHz"})) == [f"cost.{key}: 1.5 GHz is above the clock of the peaks, 1.4 GHz; {fix}"]


def test_idle_power_is_below_the_power_at_full_load():
    assert Accelerator.from_dict(description({"idle": "99 W", "power": "100 W"})).value("cost.idle") == 99
    text = "cost.idle: 100 W without work is not below the power at full load, 100 W; write less than 100 W, or another 'power'"
    assert problems(description({"idle": "100 W", "power": "100 W"})) == [text]


def test_the_values_of_an_axis_are_possible_costs(folder, edited):
    edited("chip.yaml", ("memory:", "cost: {power: 100 W, process: 7 nm}\nmemory:"))
    path = edited("small.yaml", ("dtype: fp16", "dtype: fp16\naxes: {cost.idle: [10 W, 100 W]}"))
    with pytest.raises(InputError, match=r"small\.yaml:7: axes\.cost\.idle: 100 W without work is not below the power"):
        dse.sweep(path)


@pytest.mark.parametrize("key", ["sustained_clock", "base_clock"])
def test_a_design_at_a_lower_clock_sustains_it_and_is_read_back(key):
    """Designs of a sweep may have a clock below the base clock of their device."""
    device = Accelerator.from_dict(description({key: "1.2 GHz", "power": "100 W", "idle": "20 W"}))
    slow = {"units.a.clock": "1 GHz"}
    design = Design(device.replace(slow))
    assert sustained_share(Design(device)) == pytest.approx(1.2 / 1.4 if key == "sustained_clock" else (1.2 / 1.4) ** 0.5)
    assert sustained_share(design) == 1
    saved = Accelerator.from_dict(describe_variation(device, slow, "a test"))
    assert saved.value(f"cost.{key}") == 1e9
    assert saved.value("cost.idle") < 20
    assert sustained_share(Design(saved)) == 1
