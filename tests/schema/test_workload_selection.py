"""Accuracy drops that are assumed of hypothetical patterns: forms, texts that are read back, and every error at once."""

import pytest

from dse.base.errors import InputError
from dse.schema.sweep import read_sweep
from dse.schema.workload_selection import HypotheticalPatterns
from dse.sparsity.grammar import parse
from dse.workload.accuracy_drop import AccuracyDrop

SPEC = """
name: assumed
accelerators: [a100-sxm4-80gb]
patterns: {duo: "block:32x32/2:4"}
workloads:
  resnet50:
    patterns:
      list: LIST
      accuracy_drop: DROPS
dtype: fp16
"""


def read_patterns(tmp_path, drops: str, listed: str = '["2:4", "1:4"]') -> HypotheticalPatterns:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC.replace("LIST", listed).replace("DROPS", drops))
    (patterns,) = read_sweep(path)[0].workloads["resnet50"].patterns
    return patterns


def test_one_drop_holds_for_all_patterns_of_the_list(tmp_path):
    patterns = read_patterns(tmp_path, "1 %")
    assert patterns.accuracy_drop == dict.fromkeys(patterns.list, AccuracyDrop(1.0, relative=True))


def test_a_mapping_gives_some_patterns_a_drop(tmp_path):
    patterns = read_patterns(tmp_path, '{"1:4": 2}')
    assert patterns.accuracy_drop == {parse("1:4"): AccuracyDrop(2.0)}
    assert HypotheticalPatterns.model_validate_json(patterns.model_dump_json()) == patterns


def test_every_error_is_reported_with_file_line_and_fix(tmp_path):
    with pytest.raises(InputError) as caught:
        read_patterns(tmp_path, '{"2:4": -1, "1:4": .inf, "2:5": 1, "5:4": one}')
    path = "workloads.resnet50.patterns.accuracy_drop"
    fix = "write a number of at least 0, in points of the metric as in '0.5', or in % of the dense network as in '1 %'"
    assert [str(problem).removeprefix(f"{tmp_path / 'spec.yaml'}:") for problem in caught.value.problems] == [
        f"9: {path}.2:4: an accuracy drop of -1 is out of range; {fix}",
        f"9: {path}.1:4: 'inf' is not a valid accuracy drop; {fix}",
        f"9: {path}.2:5: '2:5' is not in 'list'; did you mean '2:4'?",
        f"9: {path}.5:4: '5:4' keeps 5 of 4, which is impossible; write N:M with N <= M, as in '4:5'",
        f"9: {path}.5:4: 'one' is not a valid accuracy drop; {fix}",
    ]


def test_drops_in_the_place_of_the_list_are_refused():
    with pytest.raises(InputError) as caught:
        read_sweep({
            "name": "short", "accelerators": ["a100-sxm4-80gb"], "workloads": {"resnet50": {"patterns": {"2:4": 0.5, "1:4": 2}}}, "dtype": "fp16",
        })  # fmt: skip
    assert str(caught.value) == (
        "workloads.resnet50.patterns: 'patterns' has neither 'list' nor 'accuracy_drop'; "
        'write \'patterns: {list: ["2:4"], accuracy_drop: {"2:4": 0.5}}\''
    )


def test_a_list_of_drops_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"accuracy_drop: a list does not say which pattern has which drop; write a mapping"):
        read_patterns(tmp_path, "[0.5, 2]")


def test_a_pattern_with_a_name_is_in_the_list_under_either_text(tmp_path):
    free = "[duo]\n      densities: [0.25]"
    duo = parse("block:32x32/2:4")
    assert read_patterns(tmp_path, "{duo: 1}", free).accuracy_drop == {duo: AccuracyDrop(1.0)}
    assert read_patterns(tmp_path, '{"block:32x32/2:4": 1}', free).accuracy_drop == {duo: AccuracyDrop(1.0)}
    with pytest.raises(InputError, match=r"'duo' has an accuracy drop already, under another name; keep one of them"):
        read_patterns(tmp_path, '{"block:32x32/2:4": 1, duo: 2}', free)
