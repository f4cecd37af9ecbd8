"""Warnings about accelerators: a text stands once, after all that it holds for, and nothing is lost or invented."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from dse.model.device_warning import DeviceWarning, merge_warnings

WARNINGS = st.builds(DeviceWarning, st.sampled_from(["a", "b", "c"]), st.sampled_from(["hot", "late"]), st.sampled_from(["", "x.1", "x.2"]))


def test_one_warning_reads_as_before():
    assert (
        merge_warnings([DeviceWarning("a100", "no bandwidth")]) == ["'a100': no bandwidth"] == [str(DeviceWarning("a100", "no bandwidth"))]
    )


def test_executions_and_accelerators_are_listed_together():
    slow = [DeviceWarning(device, "slow", run) for device, run in product(["a", "b"], ["x.1", "x.2"])]
    assert merge_warnings([*slow, DeviceWarning("c", "slow", "x.1"), DeviceWarning("a", "old")]) == [
        "'a', 'b', x.1, x.2: slow",
        "'c', x.1: slow",
        "'a': old",
    ]


@given(st.lists(WARNINGS, max_size=20))
def test_the_merged_texts_say_what_the_single_ones_say(warnings):
    def statements(text: str) -> set[tuple[str, str, str]]:
        subjects, _, said = text.partition(": ")
        names = subjects.split(", ")
        return {(device, run, said) for device, run in product(names, names) if "'" in device and "'" not in run}

    with_execution = [each for each in warnings if each.execution]
    single = {statement for each in with_execution for statement in statements(str(each))}
    merged = [statement for text in merge_warnings(with_execution) for statement in statements(text)]
    assert sorted(single) == sorted(merged)  # each once
