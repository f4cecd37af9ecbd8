"""Laws of compute units."""

import pytest

from dse.base.errors import InputError
from dse.schema.accelerator import read_accelerator

PEAK = "peak: {fp16: 100 TFLOP/s"


def test_the_highest_clock_is_relative_to_the_described_clock_of_the_peaks_and_defaults_to_it(edited):
    unit = read_accelerator(edited("chip.yaml")).units["tensor"]
    assert unit.clock_headroom(unit) == 1
    chip = read_accelerator(edited("chip.yaml", (PEAK, "clock: 2 GHz\n    max_clock: 2.2 GHz\n    " + PEAK)))
    described = chip.units["tensor"]
    assert described.clock_headroom(described) == pytest.approx(1.1)
    varied = chip.replace({"units.tensor.max_clock": "2.4 GHz", "units.tensor.clock": "2.3 GHz"}).units["tensor"]
    assert varied.clock_headroom(described) == pytest.approx(1.2)


def test_a_highest_clock_below_the_clock_of_the_peaks_is_refused(edited):
    path = edited("chip.yaml", (PEAK, f"clock: 2 GHz\n    max_clock: 1.9 GHz\n    {PEAK}"))
    with pytest.raises(InputError, match="'max_clock' is below the clock of the peaks; write the highest clock that the unit reaches"):
        read_accelerator(path)
