"""Narrow tables: long names of columns take two lines, and no cell is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.table_format import format_json, format_narrow_table
from dse.base.units import Capacity

words = st.text("abc.[] ", min_size=1, max_size=20).map(str.strip).filter(bool)


def test_a_long_name_by_hand():
    rows = [
        {"rank": "1", "memory.sram.capacity [MB]": "4", "latency [ms]": "1.36"},
        {"rank": "2", "memory.sram.capacity [MB]": "16", "latency [ms]": "2"},
    ]
    assert format_narrow_table(rows).splitlines() == [
        "      memory.sram.   latency",
        "rank  capacity [MB]  [ms]",
        "1     4              1.36",
        "2     16             2",
    ]


def test_short_names_take_one_line():
    assert format_narrow_table([{"a": "1", "b": "22"}]) == "a  b\n1  22"
    assert format_narrow_table([]) == ""


@given(st.lists(words, min_size=1, max_size=4, unique=True), st.integers(1, 3))
def test_every_word_of_a_name_and_every_cell_is_printed_in_order(names, count):
    rows = [{name: f"{row}x{column}" for column, name in enumerate(names)} for row in range(count)]
    lines = format_narrow_table(rows).splitlines()
    assert [line.split() for line in lines[-count:]] == [list(row.values()) for row in rows]
    assert sorted(" ".join(lines[:-count]).replace(" ", "")) == sorted("".join(names).replace(" ", ""))


def test_json_has_no_number_that_is_not_finite_and_names_are_kept():
    quantity = Capacity.model_construct(value=float("inf"), text="unlimited")
    content = {"NaN": [float("nan"), 1.5], "Infinity": (float("-inf"), "NaN", None, True, 7), "of": quantity}
    unlimited = {"value": None, "unit": "B", "text": "unlimited", "unverified": False}
    assert json.loads(format_json(content), parse_constant=pytest.fail) == {
        "NaN": [None, 1.5], "Infinity": [None, "NaN", None, True, 7], "of": unlimited
    }  # fmt: skip
