"""Reasons of rows left out: shared ones with their number, others one by one up to a limit."""

from dse.calibrate.tables.exclusions import MAX_LISTED, summarize_reasons


def test_shared_reasons_are_counted_and_others_listed():
    reasons = ["P100: no description", "t.csv:3: too fast", "V100: no description", *["no time"] * 1200]
    assert summarize_reasons(reasons) == ["t.csv:3: too fast", "2 rows: no description", "1,200 rows: no time"]
    assert summarize_reasons([]) == []


def test_of_many_rows_with_reasons_of_their_own_the_first_are_listed():
    lines = summarize_reasons(f"t.csv:{n}: {n} ms is too fast" for n in range(MAX_LISTED + 5))
    assert len(lines) == MAX_LISTED + 1
    assert lines[-1] == "5 more rows, each for a reason of its own"
