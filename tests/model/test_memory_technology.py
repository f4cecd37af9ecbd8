"""Memory technologies: what a description gets from one, area and energy by hand, technologies as an axis, sources."""

from typing import Any

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.base.units import Quantity
from dse.model.cost.area import area_by_part
from dse.model.cost.design import Design
from dse.model.cost.power import memory_power
from dse.report.catalog_tables import list_technologies
from dse.schema.accelerator import Accelerator
from dse.schema.memory_technology import memory_technologies
from tests.conftest import described

REQUIRED = ["hbm2e", "hbm3", "hbm3e", "hbm4", "gddr6", "gddr6x", "gddr7", "lpddr5", "lpddr5x", "lpddr6", "ddr5"]


def chip(memory: dict[str, Any]) -> dict[str, Any]:
    units = {"matrix": {"processors": 16, "clock": "1 GHz", "macs": {"fp16": 1024}}}
    return {"name": "chip", "source": "a test", "units": units, "memory": memory, "cost": {"process": "7 nm", "fixed": "5 mm^2"}}


def parts(memory: dict[str, Any]) -> dict[str, float]:
    """Area of each part [mm^2]."""
    return {name: float(area) * 1e6 for name, area in area_by_part(Design(Accelerator.from_dict(chip(memory)))).items()}


def test_every_number_has_a_source_and_the_required_technologies_are_there():
    assert memory_technologies().keys() >= set(REQUIRED)
    for technology in memory_technologies().values():
        numbers: list[Quantity] = [technology.width, technology.rate, technology.energy, technology.interface, *technology.capacities]
        assert all(number.source for number in numbers)


@pytest.mark.parametrize(
    ("name", "bandwidth"),  # of a stack, device or channel, as published
    [("hbm2e", 461e9), ("hbm3", 819e9), ("hbm4", 2.048e12), ("gddr6", 64e9), ("gddr6x", 84e9), ("lpddr5x", 17.07e9), ("lpddr6", 38.4e9)],
)
def test_bandwidths_are_the_published_ones(name, bandwidth):
    assert memory_technologies()[name].bandwidth.value == pytest.approx(bandwidth, rel=1e-3)


def test_a_technology_gives_the_numbers_of_its_channels():
    accelerator = Accelerator.from_dict(chip({"dram": {"technology": "lpddr5x", "channels": 8}}))
    assert accelerator.value("memory.dram.bandwidth") == pytest.approx(8 * 2 * 8.533e9)
    assert accelerator.value("memory.dram.capacity") == 16e9
    assert accelerator.value("memory.dram.energy") == pytest.approx(4.5e-12 * 8)
    assert parts({"dram": {"technology": "lpddr5x", "channels": 8}})["interface"] == pytest.approx(8 * 1.2)
    assert float(memory_power(Design(accelerator))) == pytest.approx(8 * 2 * 8.533e9 * 36e-12)


def test_each_number_of_a_technology_can_be_stated():
    stated = {"technology": "lpddr5x", "channels": 8, "rate": "6.4 GT/s", "energy": "3 pJ/bit", "interface": "2 mm^2", "capacity": "12 GB"}
    accelerator = Accelerator.from_dict(chip({"dram": stated}))
    assert accelerator.value("memory.dram.bandwidth") == pytest.approx(8 * 2 * 6.4e9)
    assert accelerator.value("memory.dram.capacity") == 12e9
    assert accelerator.value("memory.dram.energy") == pytest.approx(24e-12)
    assert parts({"dram": stated})["interface"] == pytest.approx(16)
    twice = accelerator.replace({"memory.dram.bandwidth": f"{2 * 8 * 2 * 6.4e9!r} B/s"})  # as many channels as the bandwidth takes
    assert float(area_by_part(Design(twice))["interface"]) == pytest.approx(32e-6)


def test_memory_on_the_die_has_no_interface_and_counts_as_sram():
    outermost = parts({"sram": {"technology": "sram", "capacity": "40 MB", "bandwidth": "2 TB/s"}})
    inner = parts({"dram": {"bandwidth": "1 TB/s"}, "sram": {"capacity": "40 MB", "bandwidth": "2 TB/s"}})
    assert outermost["interface"] == 0
    assert outermost["sram"] == pytest.approx(inner["sram"])


def test_a_level_outside_the_die_without_a_technology_takes_the_interface_of_the_cost_model():
    one, two = (parts({"dram": {"bandwidth": f"{count} TB/s"}})["interface"] for count in (1, 2))
    assert two == pytest.approx(2 * one)


def test_technologies_are_an_axis(tmp_path):
    folder = described(tmp_path)
    names = ["lpddr5x", "gddr6", "hbm3"]
    spec = {
        "name": "technologies", "accelerators": [chip({"dram": {"technology": "lpddr5", "channels": 4}})], "dtype": "fp16",
        "workloads": {str(folder / "net"): {"methods": ["dense"]}}, "axes": {"memory.dram.technology": names, "memory.dram.channels": [2, 4]},
        "store": {"variables": ["latency", "area", "power", "energy", "fits"]},
    }  # fmt: skip
    results = dse.sweep(spec)
    for name in names:
        for channels in (2, 4):
            alone = dse.sweep({**spec, "axes": {}, "accelerators": [chip({"dram": {"technology": name, "channels": channels}})]})
            at = results.sel({"memory.dram.technology": name, "memory.dram.channels": channels})
            for variable in ("latency", "area", "power", "energy", "fits"):
                np.testing.assert_allclose(at[variable].values, alone[variable].values, rtol=1e-12)


def test_an_unknown_technology_is_reported_with_all_other_problems():
    memory = {"dram": {"technology": "lpddr7", "channels": 0}, "sram": {"technology": "hbm3"}}
    with pytest.raises(InputError) as caught:
        Accelerator.from_dict(chip(memory))
    assert [str(problem) for problem in caught.value.problems] == [
        "memory.sram.technology: the bandwidth follows from channels x width x rate, of which 'channels' is missing; add 'channels: 8', or 'bandwidth'",
        "memory.dram.technology: unknown memory technology 'lpddr7'; did you mean 'lpddr6'?",
        "memory.dram.channels: '0' is not positive and finite; write a number above 0, as in '108'",
    ]


def test_the_table_has_every_technology_and_sram_by_process():
    rows = list_technologies()
    outside = {row["technology"]: row for row in rows if row["process"] is None}
    assert outside.keys() == memory_technologies().keys()
    assert outside["lpddr6"]["bandwidth"].text == "38.4 GB/s"
    assert outside["lpddr6"]["assumed"] == "energy, interface"
    assert "rate: JESD209-6" in outside["lpddr6"]["source"]
    sram = [row for row in rows if row["technology"] == "sram"]
    assert [row["process"].text for row in sram][-1] == "3 nm"
    energies = [row["energy"].value for row in sram]
    assert energies == sorted(energies, reverse=True)  # smaller circuits take less
