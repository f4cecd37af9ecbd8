"""Warnings about descriptions that are valid but unlikely to be meant."""

import pytest

import dse
from dse.base import catalog
from dse.cli import entry
from dse.report.plausibility import plausibility_warnings

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
