"""The short run of every fuzzer, and the harness itself: what it must notice, it notices."""

import importlib
from pathlib import Path

import pytest

from tests.fuzz import harness


@pytest.mark.parametrize("name", harness.names())
def test_every_input_is_accepted_or_refused_cleanly(name: str) -> None:
    cases = importlib.import_module(f"tests.fuzz.{name}").CASES
    report = harness.run(name, seed=0, numbers=range(cases))
    assert not report.failures, "\n\n".join(map(str, report.failures))
    assert report.labels.total() == cases


def test_failures_of_every_sort_are_noticed_and_the_run_goes_on(tmp_path: Path) -> None:
    """Cases 0, 5, ... of the fuzzer in broken.py succeed; 1 raises, 2 dies, 3 hangs, 4 takes too much memory."""
    report = harness.run("broken", seed=0, numbers=range(6), save=tmp_path, seconds=2, memory=300_000_000)
    assert report.labels == {"accepted": 2}
    assert [failure.number for failure in report.failures] == [1, 2, 3, 4]
    reasons = [failure.reason for failure in report.failures]
    assert reasons[:3] == ["ZeroDivisionError: division by zero", "the process ended with SIGSEGV", "no end within 2 s"]
    assert reasons[3].endswith("GB of memory")
    assert "broken.py" in report.failures[2].detail  # the stack at the end
    assert (tmp_path / "broken-0-1" / "input").read_text() == "1"


def test_a_case_is_the_same_alone() -> None:
    first, again, other = (harness.generator("a", 7, number).random() for number in (3, 3, 4))
    assert first == again != other
