import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.base.units import Area, Bandwidth, Capacity, Efficiency, Gain, Length, Power, Rate, Time, Width, parse_quantity


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("312 TFLOP/s", Rate, 312e12),
        ("624 TOP/s", Rate, 624e12),  # an OP is a FLOP
        ("2039 GB/s", Bandwidth, 2039e9),
        ("2 GB", Capacity, 2e9),
        ("2 GiB", Capacity, 2 * 2**30),  # GB is not GiB
        ("32 bit", Width, 32),
        ("4 B", Width, 32),
        ("8 Gbit/s", Bandwidth, 1e9),
        ("826 mm^2", Area, 826e-6),
        ("2.5 us", Time, 2.5e-6),
        ("400 W", Power, 400),
        ("400 J/s", Power, 400),
        ("0.5", Gain, 0.5),
    ],
)
def test_quantities_in_si_units(text, kind, value):
    assert parse_quantity(text, kind) == pytest.approx(value, rel=1e-12)


@given(st.floats(1e-6, 1e18), st.sampled_from([Rate, Bandwidth, Capacity, Width, Time, Area, Length, Power]))
def test_a_number_in_the_si_unit_keeps_its_value(number, kind):
    assert parse_quantity(f"{number!r} {kind.unit}", kind) == pytest.approx(number, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2039", "the number 2039 has no unit; write a quantity in B/s, as in '2039 GB/s'"),
        ("2039 GFLOP/s", "'GFLOP/s' is the wrong unit here; write a quantity in B/s, as in '2039 GB/s'"),
        ("-1 GB/s", "'-1 GB/s' is not positive and finite; write a number above 0, as in '2039 GB/s'"),
        ("0 GB/s", "'0 GB/s' is not positive and finite; write a number above 0, as in '2039 GB/s'"),
        ("nan", "'nan' is not positive and finite; write a number above 0, as in '2039 GB/s'"),
        ("1e999 GB/s", "'1e999 GB/s' is not positive and finite; write a number above 0, as in '2039 GB/s'"),
        ("3 GBps", "unknown unit 'GBps'; write 'GB/s'"),
        ("fast", "'fast' is not a quantity; write a quantity in B/s, as in '2039 GB/s'"),
        ("1 GB/s**9**9**9", "unknown unit 'GB/s**9**9**9'; write a quantity in B/s, as in '2039 GB/s'"),
    ],
)
def test_the_error_of_an_invalid_bandwidth_says_what_to_write(text, message):
    with pytest.raises(InputError) as caught:
        parse_quantity(text, Bandwidth)
    assert str(caught.value) == message


def test_the_error_of_a_vendor_spelling_gives_the_accepted_one():
    with pytest.raises(InputError, match=r"unknown unit 'TFLOPS'; write 'TFLOP/s'"):
        parse_quantity("312 TFLOPS", Rate)


def test_the_error_of_a_dimensionless_quantity_gives_a_plain_number():
    with pytest.raises(InputError, match=r"'high' is not a quantity; write a plain number, as in '0.8'"):
        parse_quantity("high", Efficiency)


def test_a_quantity_keeps_its_text_and_source():
    quantity = Rate.model_validate({"value": "312 TFLOP/s", "source": "data sheet", "kind": "measured", "unverified": True})
    assert (quantity.value, quantity.text, quantity.source, quantity.kind, quantity.unverified) == (
        312e12, "312 TFLOP/s", "data sheet", "measured", True,
    )  # fmt: skip
    assert Bandwidth.model_validate("1 TB/s").value == 1e12


@pytest.mark.parametrize("value", [True, [1], None, math.nan, {"value": 3}])
def test_values_that_are_not_text_are_refused(value):
    with pytest.raises(ValueError, match=r"quantity|finite|no unit"):
        Capacity.model_validate(value)


@pytest.mark.parametrize(
    "text",
    ["1 " + "B/" * 20_000 + "B", "1 " + "B/" * 200 + "B", "1 " + " " * 100_000 + "B", " " * 100_000 + "x", "9" * 100_000 + " B", "1 nan", "1 inf*B", "٣ GB", "3 GB\0",
     "1 PB^9*PB^9*PB^9*PB^9"],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_long_quantities_are_refused_quickly(text):
    began = time.process_time()
    with pytest.raises(InputError):
        parse_quantity(text, Capacity)
    assert time.process_time() - began < 2


def test_numbers_of_thousands_of_digits_are_refused():
    for value in (10**5000, "7" * 100_000, 10**400):
        with pytest.raises(ValueError, match=r"Efficiency"):
            Efficiency.model_validate(value)
