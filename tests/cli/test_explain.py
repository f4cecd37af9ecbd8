"""`dse explain`: formats, files and errors."""

import csv
import json

import pytest

import dse
from dse.cli import entry

SIDE = "a100-sxm4-80gb, resnet50, asp, batch=32"


def printed(capsys, *arguments: str) -> str:
    assert entry.main(["explain", *arguments]) == 0
    return capsys.readouterr().out


def test_every_format_has_the_same_parts(capsys):
    parts = dse.explain(SIDE, "h100-sxm5-80gb").parts
    table = printed(capsys, SIDE, "h100-sxm5-80gb")
    assert table.startswith("The latency falls from ")
    rows = list(csv.reader(printed(capsys, SIDE, "h100-sxm5-80gb", "--format", "csv").splitlines()))
    assert [(row[0], float(row[3])) for row in rows[2:-1]] == [(part.key, part.value) for part in parts]
    content = json.loads(printed(capsys, SIDE, "h100-sxm5-80gb", "--format", "json"))
    assert [part["value"] for part in content["parts"]] == [part.value for part in parts]
    assert content["difference"] == pytest.approx(sum(part.value for part in parts))
    assert "| fp16 peak of tensor_core | 312 TFLOP/s |" in printed(capsys, SIDE, "h100-sxm5-80gb", "--format", "markdown")


def test_text_and_figure_are_written(tmp_path, capsys):
    out, figure = tmp_path / "why.md", tmp_path / "why.svg"
    shown = printed(capsys, SIDE, "-o", str(out), "--figure", str(figure), "--format", "markdown", "--reach", "1.5")
    assert shown.splitlines()[0].startswith("2:4 gains 1.33x, not 2x")
    assert shown.splitlines()[1:] == [str(out), str(figure)]
    assert "memory.dram.bandwidth" in out.read_text()
    assert figure.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([SIDE, "--set", "batch"], "--set: 'batch' is not of the form NAME=VALUE; write it as in 'batch=32'"),
        ([SIDE, "--set", "dtype=fp16", "dtype=int8"], "--set: 'dtype' is given twice; keep one"),
        ([SIDE, "--set", "batch=8", "--batch", "4"], "--set: 'batch' is given twice, by --set and by --batch; keep one"),
        ([SIDE, "--set", "quantity=energy"], "--set: 'quantity' is not a setting of the sides; write '--quantity energy'"),
        ([SIDE, "--set", "reach=2"], "--set: 'reach' is not a setting of the sides; write '--reach 2'"),
        ([SIDE, "--set", "a=h100-sxm5-80gb"], "--set: 'a' is not a setting; write the sides in front of the options"),
        ([SIDE, "--figure", "why.txt"], "--figure: 'why.txt' is not a figure that can be written; end it in .png, .svg or .pdf"),
        ([SIDE, "--set", "memory.dram.bandwith=1 TB/s"], "did you mean 'memory.dram.bandwidth'?"),
        (["", "--workload", "resnet50"], "no accelerator is given; name one"),
        ([SIDE, "measured=2 ms", "--quantity", "energy"], "measured: a measured latency does not explain the energy; explain the latency"),
    ],
)
def test_errors_name_what_to_write(capsys, arguments, message):
    assert entry.main(["explain", *arguments]) == 2
    assert message in capsys.readouterr().err
