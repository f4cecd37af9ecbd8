"""`dse pattern`: storage in each format, and the devices that run a pattern."""

import json

import pytest

from dse.cli.entry import main
from dse.report.pattern import device_rows, format_rows
from dse.sparsity.grammar import parse


def json_report(capsys, *arguments: str) -> dict:
    assert main(["pattern", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_2_4_in_fp16_takes_0_5625_of_dense(capsys):
    sizes = {row["format"]: row["size"] for row in json_report(capsys, "2:4")["formats"]}
    assert sizes["nm_index"] == 0.5625
    assert min(sizes, key=sizes.get) == "combinatorial"


def test_1_8_is_stored_as_2_4_with_a_gain_of_2_on_hardware_that_lists_no_more():
    h100 = [row for row in device_rows(parse("1:8")) if "h100-sxm5-80gb" in row["devices"] and row["run"].startswith("tensor")]
    assert [(row["run"], row["as"], row["gain"]) for row in h100 if row["as"] == "2:4"] == [("tensor_core.sparse_24", "2:4", 2.0)]
    assert {row["gain"] for row in h100} == {2.0}  # the 1:2 of tf32 has no higher gain either
    native = [row for row in device_rows(parse("1:8")) if row["devices"] == ["a100-native-1m"]]
    assert [(row["as"], row["gain"]) for row in native if row["run"].endswith("native_18")] == [("1:8", 8.0)]


def test_gathered_columns_gain_half_of_m():
    assert {row["gain"] for row in device_rows(parse("64:2:16")) if row["as"] == "64:2:16"} == {8.0}


def test_pruned_rows_run_on_every_unit():
    assert {row["as"] for row in device_rows(parse("row")) if row["run"].endswith(".dense")} == {"a smaller matrix"}
    assert any("tpu-v4" in row["devices"] for row in device_rows(parse("row")))


def test_formats_are_sorted_by_size_and_none_is_below_the_combinatorial_bound():
    rows = format_rows(parse("unstructured"), 0.1, (1024, 2048), 8)
    assert [row["size"] for row in rows] == sorted(row["size"] for row in rows)
    assert rows[0]["format"] == "combinatorial"


def test_the_table_names_every_column(capsys):
    assert main(["pattern", "block:32x32/2:4", "--density", "0.2"]) == 0
    text = capsys.readouterr().out
    assert "metadata bits for each nonzero" in text
    assert "gain at most" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["5:4"], "'5:4' keeps 5 of 4, which is impossible"),
        (["row"], "'row' has no density of its own; add one"),
        (["row", "--density", "2"], "a density of 2 is out of range"),
        (["2:4", "--density", "2"], "a density of 2 is out of range"),
        (["64:2:*"], "'64:2:*' is a family"),
        (["block:64x64", "--density", "0.5", "--shape", "32x32"], "is larger than the 32x32 matrix"),
        (["2:4", "--shape", "32"], "'32' is not a valid matrix shape"),
        (["2:4", "--value", "0"], "weights of 0 bit are out of range"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message, capsys):
    assert main(["pattern", *arguments]) == 2
    captured = capsys.readouterr()
    assert (message in captured.err, captured.out) == (True, "")


def test_the_windows_of_shipped_units_that_cover_a_pattern(capsys):
    windows = {row["of"]: row for row in json_report(capsys, "6:8")["windows"]}
    assert windows["2:4"] == {"of": "2:4", "windows": 3, "group": 8, "expansion": 1.5, "stored": 0.75}
    assert "4:8" not in windows  # two windows would store all 8
    assert main(["pattern", "6:8"]) == 0
    assert "2:4         3 for 8         1.5         0.75" in capsys.readouterr().out
    assert json_report(capsys, "unstructured", "--density", "0.1")["windows"] == []
