"""Macro-parameters of units and levels with names that no formula can have."""

import pytest

from dse.base.errors import InputError
from dse.schema.accelerator import Accelerator

MACROS = {"macs": {"fp16": 1024}, "processors": 10, "clock": "1 GHz"}
CHANNELS = {"channels": 4, "width": "32 bit", "rate": "4 GT/s"}


@pytest.mark.parametrize("name", ["my-unit", "hbm 0", "a+b", "a.b", "A"])
@pytest.mark.parametrize(
    ("section", "part"),
    [
        ("units", MACROS),
        ("units", MACROS | {"peak": {"fp16": "1 TFLOP/s"}}),
        ("memory", CHANNELS),
        ("memory", CHANNELS | {"bandwidth": "1 GB/s"}),
    ],
)
def test_a_name_that_no_formula_can_have_is_the_only_problem(section, part, name):
    data = {"name": "c", "source": "t", "units": {"unit": MACROS}, "memory": {"dram": CHANNELS}}
    with pytest.raises(InputError) as caught:
        Accelerator.from_dict(data | {section: {name: part}})
    (problem,) = caught.value.problems
    assert f"'{name}' is not valid here" in problem.message
