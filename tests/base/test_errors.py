import pickle
from pathlib import Path

import pytest

from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean, errors_in_file
from dse.base.strict_model import validate_mapping
from dse.schema.sweep import SweepSpec


def test_messages_fit_one_short_line():
    problem = Problem("'a\x1b[31m\nb\u202e\x00'" + "x" * 100_000, "write text")
    assert str(problem).startswith("'a\\x1b[31m\\nb\\u202e\\x00'xxx")
    assert len(str(problem)) < 2000
    assert str(Problem("é µ 中文", "ok")) == "é µ 中文; ok"
    assert str(InputError.from_problems(Problem(str(n), "y") for n in range(1000))).endswith("\n... and 800 more problems")
    long = str(InputError.from_problems(Problem(f"{n}" * 300, "y" * 900) for n in range(150)))
    assert 45_000 < len(long) < 51_000
    assert long.count("\n") + int(long.rpartition("and ")[2].split()[0]) == 150


def test_whole_numbers_that_python_cannot_write_are_refused():
    with pytest.raises(InputError, match="a number of too many digits"):
        validate_mapping(SweepSpec, {"name": 10**5000})


def test_problems_are_sorted_by_file_and_line_and_listed_once():
    first, second = Problem("x", "y", Path("a"), 1), Problem("x", "y", Path("a"), 2, "key")
    error = InputError.from_problems([second, first, second])
    assert error.problems == (first, second)
    assert str(error) == "a:1: x; y\na:2: key: x; y"


def test_an_error_survives_the_way_between_processes():
    error = InputError("x", "y", Path("a"), 3, "key")
    assert pickle.loads(pickle.dumps(error)).problems == error.problems
    assert str(pickle.loads(pickle.dumps(error))) == "a:3: key: x; y"


def test_a_collector_adds_the_place_to_problems_without_one():
    problems = ProblemCollector()
    problems.raise_if_any()
    with problems.collect(Path("a"), 2, "key"):
        raise InputError("x", "y")
    with problems.collect(Path("a"), 3):
        raise InputError("x", "y", Path("b"), 1)
    with pytest.raises(InputError) as caught:
        problems.raise_if_any()
    assert str(caught.value) == "a:2: key: x; y\nb:1: x; y"


@pytest.mark.parametrize(
    ("word", "options", "expected"),
    [
        ("bandwith", ["bandwidth", "capacity"], "did you mean 'bandwidth'?"),
        ("mem", ["memory.dram", "memory.l2"], "did you mean 'memory.dram' or 'memory.l2'?"),
        ("zzz", ["a", "b"], "known: 'a', 'b'"),
        ("a", [], "no value is allowed here"),
    ],
)
def test_suggestions(word, options, expected):
    assert did_you_mean(word, options) == expected


def test_names_are_suggested_without_regard_to_case_and_listed_once():
    assert did_you_mean("LPDDR5X", ["lpddr5", "lpddr5x", "hbm3"]) == "did you mean 'lpddr5x'?"
    assert did_you_mean("resnet50", ["ResNet50"]) == "did you mean 'ResNet50'?"
    assert did_you_mean("zzz", ["b", "a", "b"]) == "known: 'a', 'b'"


def test_errors_in_a_file_name_it_and_keep_their_keys():
    problems = [Problem("x", "y", key="weights"), Problem("z", "y", Path("other"), 3)]
    with pytest.raises(InputError) as caught, errors_in_file(Path("net")):
        raise InputError.from_problems(problems)
    assert list(map(str, caught.value.problems)) == ["net: weights: x; y", "other:3: z; y"]
