"""Formulas: dimensions, values and error texts."""

import numpy as np
import pytest

from dse.base.errors import InputError
from dse.base.formula import parse_formula
from dse.base.units import Bandwidth, Count, Frequency, Quantity, Rate

KINDS: dict[str, type[Quantity]] = {
    "units.m.peak.int8": Rate,
    "units.m.clock": Frequency,
    "memory.d.channels": Count,
    "memory.d.bandwidth": Bandwidth,
}
VALUES = {"units.m.peak.int8": 8e12, "units.m.clock": 2e9, "memory.d.channels": 8.0, "memory.d.bandwidth": 4e11}


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("units.m.peak.int8 / 2", Rate, 4e12),
        ("memory.d.channels * 64 bit * 8 GT/s", Bandwidth, 8 * 8 * 8e9),
        ("memory.d.channels*64 bit*units.m.clock", Bandwidth, 8 * 8 * 2e9),
        ("2 FLOP * 1024 * units.m.clock", Rate, 2 * 1024 * 2e9),
        ("sqrt(memory.d.bandwidth * 1 TB/s)", Bandwidth, np.sqrt(4e11 * 1e12)),
        ("minimum(memory.d.bandwidth, 100 GB/s) + memory.d.bandwidth ** 2 / (1 TB/s)", Bandwidth, 1e11 + 1.6e11),
        ("memory.d.bandwidth / 1 GB/s", Count, 400),  # a unit binds more strongly than a division
        ("5 TB/s", Bandwidth, 5e12),
    ],
)
def test_values_in_si_units(text, kind, expected):
    assert float(parse_formula(text, kind, KINDS.__getitem__).evaluate(VALUES, np)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory.d.channels * 64 bit", "'memory.d.channels * 64 bit' is in bit, and this number is in bit/s"),
        ("memory.d.bandwidth + memory.d.channels", "'memory.d.bandwidth' is in bit/s, and 'memory.d.channels' is a plain number"),
        ("log(memory.d.bandwidth) * 1 GB/s", "'memory.d.bandwidth' is in bit/s, not a plain number"),
        ("channels * 1 GB/s", "'channels' in 'channels * 1 GB/s' is not a dotted path"),
        ("memory.d.channels * 1 GBps", "unknown unit 'GBps'; write 'GB/s'"),
        ("memory.d.bandwidth *", "'memory.d.bandwidth *' is not a valid expression"),
        ("memory.d.bandwidth if 1 else 2", "is not a valid expression"),
        ("memory.d.bandwidth * (1 / 0)", "'1 / 0' is not a finite, real number"),
    ],
)
def test_errors_quote_the_part(text, message):
    with pytest.raises(InputError) as caught:
        parse_formula(text, Bandwidth, KINDS.__getitem__)
    assert message in str(caught.value)
