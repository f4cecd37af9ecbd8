"""Patterns at sparsities: parsing is the inverse of writing, and sparsities that no mask has are refused."""

import pytest

from dse.base.errors import InputError
from dse.sparsity.pruned_pattern import PrunedPattern, parse_pruned_patterns


@pytest.mark.parametrize("text", ["2:4", "1:8", "16:2:8", "unstructured@0.9", "block:16x16@0.5", "block:32x32/2:4@0.75", "column@0.5"])
def test_parsing_is_the_inverse_of_writing(text):
    assert PrunedPattern.parse(text).text == text


def test_a_pattern_that_fixes_its_density_needs_no_sparsity():
    assert PrunedPattern.parse("2:8") == PrunedPattern.parse("2:8@0.75")
    assert PrunedPattern.parse("2:8").sparsity == 0.75


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2:4@0.9", "'2:4' is 0.5 sparse and cannot be 0.9 sparse; write 0.5, or leave it out"),
        ("row", "'row' may have any sparsity; give one, as in 'row@0.75' or '--sparsities 0.5 0.75'"),
        ("unstructured@1", "a sparsity of 1 is out of range; write a number above 0 and below 1"),
        ("unstructured@0", "a sparsity of 0 is out of range; write a number above 0 and below 1"),
        ("block:4x4@nan", "a sparsity of nan is out of range; write a number above 0 and below 1"),
        ("block:4x4@half", "'half' is not a sparsity; write a number between 0 and 1, as in '@0.9'"),
        ("block:16x16/2:4@0.25", "'block:16x16/2:4' is at least 0.5 sparse and cannot be 0.25 sparse; write 0.5 or more"),
        ("channel@0.5", "the columns of a channel depend on the kernel of the layer; write 'column', as in 'column@0.5'"),
        ("2:4@nan", "'2:4' is 0.5 sparse and cannot be nan sparse; write 0.5, or leave it out"),
        ("unstructured@nan", "a sparsity of nan is out of range; write a number above 0 and below 1"),
        ("dense", "'dense' prunes nothing; leave it out"),
        ("block:4x4*@0.5", "'block:4x4*' is a family of patterns; name one of its members, as in 'block:16x16'"),
        ("16:2:*", "'16:2:*' is a family of patterns; name one of its members, as in 'block:16x16'"),
    ],
)
def test_sparsities_that_no_mask_has_are_refused(text, message):
    with pytest.raises(InputError) as error:
        PrunedPattern.parse(text)
    assert str(error.value).endswith(message)


def test_every_wrong_pattern_is_reported_at_once():
    with pytest.raises(InputError) as error:
        parse_pruned_patterns(["2:4", "two:four", "row"])
    assert len(error.value.problems) == 2
    assert parse_pruned_patterns(["2:4", "row@0.5", "2:4@0.5"]) == (PrunedPattern.parse("2:4"), PrunedPattern.parse("row@0.5"))
