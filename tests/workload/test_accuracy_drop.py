"""Stated accuracy drops: units, conversion, texts that are read back, and invalid ones."""

import math

import pytest

from dse.base.errors import InputError
from dse.workload.accuracy_drop import AccuracyDrop, parse_accuracy_drop


@pytest.mark.parametrize(
    ("text", "drop"),
    [
        (0.5, AccuracyDrop(0.5)),
        ("0.5", AccuracyDrop(0.5)),
        (0, AccuracyDrop(0.0)),
        ("0.5 points", AccuracyDrop(0.5)),
        ("1 point", AccuracyDrop(1.0)),
        ("1 %", AccuracyDrop(1.0, relative=True)),
        ("2.5%", AccuracyDrop(2.5, relative=True)),
    ],
)
def test_drops_are_in_points_or_in_percent_and_their_texts_are_read_back(text, drop):
    assert parse_accuracy_drop(text) == drop
    assert parse_accuracy_drop(drop.exact_text) == drop
    assert str(parse_accuracy_drop(str(drop))) == str(drop)


def test_texts_have_four_digits_and_exact_texts_all():
    drop = parse_accuracy_drop("0.123456789 %")
    assert (str(drop), drop.exact_text) == ("0.1235 %", "0.123456789 %")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (-1, "an accuracy drop of -1 is out of range"),
        ("2e6", "an accuracy drop of 2e6 is out of range"),
        (math.inf, "'inf' is not a valid accuracy drop"),
        ("nan %", "'nan %' is not a valid accuracy drop"),
        (True, "'True' is not a valid accuracy drop"),
        (None, "'None' is not a valid accuracy drop"),
        ("small", "'small' is not a valid accuracy drop"),
        ("1 dB", "'1 dB' is not a valid accuracy drop"),
    ],
)
def test_invalid_drops_are_refused(value, problem):
    with pytest.raises(InputError) as caught:
        parse_accuracy_drop(value)
    assert caught.value.problems[0].message == problem


def test_a_drop_in_percent_is_of_the_dense_accuracy():
    """1% of 76 points is 0.76 points, by hand."""
    assert parse_accuracy_drop("1 %").in_unit(False, 76.0) == pytest.approx(0.76)
    assert AccuracyDrop(0.76).in_unit(True, 76.0) == pytest.approx(1.0)
    assert AccuracyDrop(0.5).in_unit(False, math.nan) == 0.5
    assert math.isnan(AccuracyDrop(0.5).in_unit(True, math.nan))


def test_a_drop_is_worse_whichever_way_the_metric_points():
    assert AccuracyDrop(0.5).accuracy(76.0, "higher") == 75.5
    assert AccuracyDrop(0.5).accuracy(5.0, "lower") == 5.5
    assert math.isnan(AccuracyDrop(0.5).accuracy(math.nan, "higher"))
