"""Lines of derived numbers: parts add up to the totals of the cost model."""

import re

import pytest

import dse
from dse.model.cost.area import modelled_area
from dse.model.cost.design import Design
from dse.model.cost.power import modelled_power
from dse.report.derived_numbers import list_derived_numbers


@pytest.mark.parametrize("name", ["a100-sxm4-80gb", "edge-npu", "t4"])
def test_parts_of_area_and_power_add_up(name):
    accelerator = dse.load_accelerator(name)
    lines = {line.split("  ")[1]: line for line in list_derived_numbers(accelerator).splitlines()}
    design = Design(accelerator)
    area = float(modelled_area(design))
    power = float(modelled_power(design, accelerator.value("cost.area") or area))
    for label, total in (("area by model", area * 1e6), ("power by model", power)):
        parts = [float(number.replace(",", "")) for number in re.findall(r" ([\d.,]+)(?= \+|$)", lines[label].split(" = ")[1])]
        assert sum(parts) == pytest.approx(total, rel=0.01)


def test_without_a_known_process_a_line_says_why_there_is_no_area():
    line = "  no area and power by model: 'tpu-v5p' has no process, on which area, power and energy depend; add 'cost: {process: 7 nm}' (3 to 28 nm)\n"
    assert list_derived_numbers(dse.load_accelerator("tpu-v5p")) == line
    assert "a process for which no circuit sizes are known" in list_derived_numbers(
        dse.load_accelerator("a100-sxm4-80gb").replace({"cost.process": "2 nm"})
    )
