"""`dse pattern`: what a pattern takes, and who runs it."""

import json

import pytest

from dse.cli.entry import main
from dse.report.pattern import devices, formats
from dse.sparsity.grammar import parse


def told(capsys, *words: str) -> dict:
    assert main(["pattern", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_2_4_in_fp16_takes_0_5625_of_dense(capsys):
    found = told(capsys, "2:4")
    sizes = {row["format"]: row["size"] for row in found["formats"]}
    assert sizes["nm_index"] == 0.5625
    assert min(sizes, key=sizes.get) == "combinatorial"


def test_1_8_is_stored_as_2_4_with_a_gain_of_2_on_hardware_that_lists_no_more():
    today = [row for row in devices(parse("1:8")) if "h100-sxm5-80gb" in row["devices"] and row["run"].startswith("tensor")]
    assert [(row["run"], row["as"], row["gain"]) for row in today if row["as"] == "2:4"] == [("tensor_core.sparse_24", "2:4", 2.0)]
    assert {row["gain"] for row in today} == {2.0}  # 1:2, of tf32, is no way around it
    native = [row for row in devices(parse("1:8")) if row["devices"] == ["a100-native-1m"]]
    assert [(row["as"], row["gain"]) for row in native if row["run"].endswith("native_18")] == [("1:8", 8.0)]


def test_gathered_columns_gain_half_of_m():
    assert {row["gain"] for row in devices(parse("64:2:16")) if row["as"] == "64:2:16"} == {8.0}


def test_whole_rows_run_on_every_unit():
    assert {row["as"] for row in devices(parse("row")) if row["run"].endswith(".dense")} == {"a smaller matrix"}
    assert any("tpu-v4" in row["devices"] for row in devices(parse("row")))


def test_formats_are_listed_by_size_and_none_is_below_the_floor():
    rows = formats(parse("unstructured"), 0.1, (1024, 2048), 8)
    assert [row["size"] for row in rows] == sorted(row["size"] for row in rows)
    assert rows[0]["format"] == "combinatorial"


def test_the_table_names_every_column(capsys):
    assert main(["pattern", "block:32x32/2:4", "--density", "0.2"]) == 0
    shown = capsys.readouterr().out
    assert "bits for each weight kept" in shown
    assert "gain at most" in shown


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["5:4"], "'5:4' keeps 5 of 4, which is impossible"),
        (["row"], "'row' may keep any fraction; say which"),
        (["row", "--density", "2"], "a density of 2 is out of range"),
        (["64:2:*"], "'64:2:*' is a family"),
        (["block:64x64", "--density", "0.5", "--shape", "32x32"], "is larger than the 32x32 matrix"),
        (["2:4", "--shape", "32"], "'32' is no shape of a matrix"),
        (["2:4", "--value", "0"], "weights of 0 bit are out of range"),
    ],
)
def test_what_makes_no_sense_is_refused(words, what, capsys):
    assert main(["pattern", *words]) == 2
    captured = capsys.readouterr()
    assert (what in captured.err, captured.out) == (True, "")
