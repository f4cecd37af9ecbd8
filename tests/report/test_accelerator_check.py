"""Warnings about descriptions that are valid but unlikely to be meant; derived numbers, whose parts add up to the totals."""

import re

import pytest

import dse
from dse.base import catalog
from dse.cli import entry
from dse.model.cost.area import modelled_area
from dse.model.cost.design import Design
from dse.model.cost.power import modelled_power
from dse.report.accelerator_check import list_derived_numbers, plausibility_warnings

CHIP = """name: odd
source: a test
units:
  matrix: {clock: 1 GHz, processors: 4, macs: {fp16: 1024}}
memory:
  dram: {capacity: 8 GB, bandwidth: 100 GB/s}
  sram: {capacity: 8 MB, bandwidth: 2 TB/s}
cost: {process: 7 nm}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("clock: 1 GHz", "clock: 7 GHz", 4, "units.matrix.clock: a clock of 7 GHz is unusual; check its unit (10 MHz to 6 GHz)"),
        ("clock: 1 GHz", "clock: 1 MHz", 4, "units.matrix.clock: a clock of 1 MHz is unusual"),
        (
            "clock: 1 GHz, processors: 4, macs: {fp16: 1024}",
            "max_clock: 1 GHz, peak: {fp16: 1 TFLOP/s}",
            4,
            "units.matrix.max_clock: has no effect without the clock of the peaks; add 'clock'",
        ),
        ("8 MB", "800 GB", 8, "cost.area: an area of"),
        ("7 nm", "7 nm, area: 90000 mm^2", 8, "cost.area: an area of 90,000 mm^2 (stated) is more than a wafer of 300 mm has"),
        (
            "7 nm",
            "2 nm",
            8,
            "cost.process: no circuit sizes are known for 2 nm, so area, power and energy cannot be computed; write one from",
        ),
        (
            "sram: {capacity: 8 MB,",
            "other: {technology: lpddr5x,",
            7,
            "memory.other: lpddr5x inside 'dram', which is the outermost level as it is listed first; list the levels outermost first",
        ),
    ],
)
def test_unlikely_numbers_are_warned_of_with_their_line_and_are_valid(tmp_path, capsys, old, new, line, message):
    (path := tmp_path / "odd.yaml").write_text(CHIP.replace(old, new))
    assert entry.main(["check", str(path)]) == 0
    assert f"warning: {path}:{line}: {message}" in capsys.readouterr().err


def test_an_outermost_level_that_is_smaller_and_faster_than_an_inner_one_is_warned_of(tmp_path, capsys):
    lines = CHIP.splitlines(keepends=True)
    lines[5], lines[6] = lines[6], lines[5]
    (path := tmp_path / "odd.yaml").write_text("".join(lines))
    assert entry.main(["check", str(path)]) == 0
    expected = (
        "memory.sram: listed as the outermost level, but smaller and faster than 'dram'; list the levels outermost first: 'dram' before"
    )
    assert f"warning: {path}:6: {expected}" in capsys.readouterr().err


@pytest.mark.parametrize("name", catalog.list_names("accel_models"))
def test_shipped_accelerators_have_no_warnings_but_of_processes_outside_the_table(name):
    assert [problem for problem in plausibility_warnings(dse.load_accelerator(name)) if problem.key != "cost.process"] == []


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
