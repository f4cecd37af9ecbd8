"""Expressions: arithmetic, and nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.errors import BadInput
from dse.expression import parse

KNOWN = ("speedup", "area")
numbers = st.floats(0.1, 100)


@given(numbers, numbers)
def test_expressions_compute_what_python_would(speedup, area):
    for text in (
        "speedup / area",
        "-speedup + 2 * area ** 2",
        "(speedup - area) * 3.5",
        "log(speedup) - sqrt(area)",
        "maximum(speedup, area) - 1e-3",
    ):
        expected = eval(text, {"log": np.log, "sqrt": np.sqrt, "maximum": np.maximum}, {"speedup": speedup, "area": area})
        assert parse(text, KNOWN).value({"speedup": speedup, "area": area}) == pytest.approx(expected)


def test_names_are_listed_once():
    assert parse("speedup * speedup / area", KNOWN).names == ["speedup", "area"]


@pytest.mark.parametrize(
    "text",
    ["", "speedup +", "__import__('os').system('x')", "speedup.real", "[speedup]", "speedup if area else 1", "lambda: 1", "speedup < 1", "'a' * 9",
     "True", "log(speedup, area)", "maximum(area)", "eval(area)", "(" * 300 + "1" + ")" * 300, "1 " * 400, "area @ area", "speedup := 1"],
)  # fmt: skip
def test_anything_else_is_refused(text):
    with pytest.raises(BadInput):
        parse(text, KNOWN)


def test_a_misspelt_name_has_a_suggestion():
    with pytest.raises(BadInput, match="did you mean 'speedup'"):
        parse("speedpu / area", KNOWN)
