"""Pairs NAME=VALUE."""

import pytest

from dse.base.errors import InputError
from dse.base.name_value import parse_pairs


def test_a_value_may_have_an_equals_sign():
    assert parse_pairs(["batch=32", "pattern=a=b"]) == {"batch": "32", "pattern": "a=b"}


@pytest.mark.parametrize("wrong", ["batch", "=1", "batch="])
def test_a_text_of_another_form_is_refused(wrong):
    with pytest.raises(InputError, match="is not of the form NAME=VALUE; write it as in 'phase=decode'"):
        parse_pairs([wrong], "phase=decode")


def test_a_name_that_is_given_twice_is_refused():
    with pytest.raises(InputError, match="'batch' is given twice; keep one"):
        parse_pairs(["batch=32", "dtype=fp16", "batch=16"])
