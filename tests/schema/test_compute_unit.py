"""Laws of compute units."""

import pytest

from dse.base.errors import InputError
from dse.schema.accelerator import read_accelerator

PEAK = "peak: {fp16: 100 TFLOP/s"


def test_the_highest_clock_is_relative_to_that_of_the_peaks_and_defaults_to_it(edited):
    assert read_accelerator(edited("chip.yaml")).units["tensor"].highest_clock == 1
    path = edited("chip.yaml", (PEAK, "clock: 2 GHz\n    max_clock: 2.2 GHz\n    " + PEAK))
    assert read_accelerator(path).units["tensor"].highest_clock == pytest.approx(1.1)


def test_a_highest_clock_below_the_clock_of_the_peaks_is_refused(edited):
    path = edited("chip.yaml", (PEAK, f"clock: 2 GHz\n    max_clock: 1.9 GHz\n    {PEAK}"))
    with pytest.raises(InputError, match="'max_clock' is below the clock of the peaks; write the highest clock that the unit reaches"):
        read_accelerator(path)
