"""The text of a table of results."""

import pandas as pd

from dse.report.result_table import ResultTable, render


def test_columns_of_long_texts_stand_below_the_table_with_their_first_row():
    long = ["bert-base: " + "latency 3 ms, " * 8, "gpt2: " + "latency 4 ms, " * 8]
    table = ResultTable("designs", pd.DataFrame({"rank": [1, 2], "networks": long, "note": ["a", "b"]}))
    lines = render([table], "table").splitlines()
    assert lines[1].split() == ["rank", "note"]
    assert lines[4].startswith("networks of the first row: bert-base")
    assert max(map(len, lines)) <= 120
    assert "gpt2" not in "".join(lines)
    assert "gpt2" in render([table], "json")


def test_a_bound_that_equals_its_result_is_left_out_of_the_text():
    rows = pd.DataFrame({"rank": [1, 2], "latency": [1e-3, 2e-3], "latency_bound": [1e-3, 2e-3]})
    assert "bound" not in render([ResultTable("designs", rows)], "table")
    assert "latency_bound" in render([ResultTable("designs", rows)], "json")
    assert "bound" in render([ResultTable("designs", rows.assign(latency_bound=[1e-3, 1.5e-3]))], "table")
