"""Units for display: sizes, the choice of a prefix, and numbers without exponents."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.display_units import SCALES, format_number, format_quantity, select_unit


@pytest.mark.parametrize(
    ("value", "si_unit", "text"),
    [
        (4e-4, "m^2", "400 mm^2"), (2.039e12, "B/s", "2.039 TB/s"), (900e9, "B/s", "900 GB/s"), (312e12, "FLOP/s", "312 TFLOP/s"),
        (2.5e15, "FLOP/s", "2.5 PFLOP/s"), (7.1e-4, "s", "710 us"), (0.0125, "s", "12.5 ms"), (400.0, "W", "400 W"), (40e6, "B", "40 MB"),
        (2.0**20, "B", "1 MiB"), (1024.0, "B", "1 KiB"), (4096.0, "B", "4 KiB"), (48 * 2.0**20, "B", "48 MiB"), (512.0, "B", "512 B"), (80e9, "B", "80 GB"), (1e-3, "J", "1 mJ"), (48e-12, "J/B", "48 pJ/B"), (7e-9, "m", "7 nm"), (2.0, "1", "2"),
        (1.0, "furlong", "1 furlong"),
    ],
)  # fmt: skip
def test_a_quantity_is_shown_in_the_unit_that_people_use(value, si_unit, text):
    assert format_quantity(value, si_unit) == text


@given(st.sampled_from(sorted(SCALES)), st.lists(st.floats(1e-15, 1e18), min_size=1, max_size=9))
def test_a_column_in_its_unit_times_the_size_of_the_unit_is_the_column(si_unit, values):
    unit = select_unit(si_unit, values)
    np.testing.assert_allclose(unit.convert(np.array(values)) * unit.size, values, rtol=1e-12)


@given(st.floats(1e-9, 1e9))
def test_the_median_is_at_least_one_of_its_unit_unless_that_is_the_smallest(value):
    unit = select_unit("s", [value / 1000, value, value * 1000])
    assert unit.convert(value) >= 1 - 1e-9 or unit.text == "ns"


@given(st.floats(1e-3, 1e14), st.integers(2, 6))
def test_a_number_is_rounded_to_its_digits_and_has_no_exponent(value, digits):
    text = format_number(value, digits)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@pytest.mark.parametrize(("value", "text"), [(9999.4, "9999"), (9999.6, "10,000"), (-99_996.0, "-100,000"), (9.9996e14, "1" + 5 * ",000")])
def test_a_number_is_rounded_before_its_size_decides_its_form(value, text):
    assert format_number(value) == text


def test_a_missing_number_is_blank_and_decides_no_unit():
    assert format_number(float("nan")) == ""
    assert select_unit("s", [float("nan"), float("inf"), 0.0, 0.002]).text == "ms"
    assert select_unit("s", []).text == "s"
