"""`dse show` and the summaries of other commands: files, folders, names, selections, exit codes."""

import json

import pytest
import xarray as xr

from dse.cli import entry
from dse.sweeping import store

AXES = "dtype: fp16\naxes: {memory.dram.bandwidth: [0.1 TB/s, 1 TB/s, 4 TB/s]}"


@pytest.fixture
def swept(edited, folder, monkeypatch, capsys):
    edited("small.yaml", ("dtype: fp16", AXES))
    monkeypatch.chdir(folder)
    assert entry.main(["sweep", "small.yaml", "-o", "out"]) == 0
    return capsys.readouterr()


def test_a_sweep_prints_files_to_stdout_and_the_best_designs_to_stderr(swept):
    assert swept.out == "out/results.nc\n"
    assert "best designs by lowest latency" in swept.err
    assert "memory.dram." in swept.err
    assert "bandwidth [TB/s]" in swept.err


@pytest.mark.parametrize("keep", ["all", "summary"])
def test_a_sweep_of_costs_alone_is_complete(keep, edited, folder, monkeypatch, capsys):
    edited("chip.yaml", ("name: chip", "name: chip\ncost: {process: 7 nm}"))
    edited("small.yaml", ("dtype: fp16", f"{AXES}\nkeep: {keep}\nstore: {{variables: [area]}}"))
    monkeypatch.chdir(folder)
    assert entry.main(["sweep", "small.yaml", "-o", "out"]) == 0
    message = "note: no designs are ranked: the dataset has neither 'latency' nor 'speedup'" if keep == "all" else "by lowest area min"
    assert message in capsys.readouterr().err


def test_results_are_shown_by_file_and_by_folder(swept, capsys):
    texts = []
    for what in ("out", "out/results.nc"):
        assert entry.main(["show", what, "--select", "batch=16", "memory.dram.bandwidth=4 TB/s"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert "bandwidth [TB/s]" in texts[0]
    assert entry.main(["show", "out", "--format", "json", "--top", "1"]) == 0
    assert [row["rank"] for row in json.loads(capsys.readouterr().out)[0]["rows"]] == [1, 1]


def test_a_search_is_shown_with_its_best_designs(folder, capsys, monkeypatch):
    text = (folder / "small.yaml").read_text()
    (folder / "search.yaml").write_text(f"{text}axes: {{memory.dram.bandwidth: [1 TB/s, 2 TB/s]}}\nsearch: {{maximize: [performance], sampler: exhaustive}}\n".replace("[1, 16]", "[1]"))  # fmt: skip
    monkeypatch.chdir(folder)
    assert entry.main(["search", "search.yaml", "-o", "found"]) == 0
    assert "memory.dram.bandwidth: 2 TB/s" in capsys.readouterr().out
    assert entry.main(["show", "found"]) == 0
    shown = capsys.readouterr().out
    assert "maximize performance, 2 designs evaluated, 2 feasible; best designs" in shown
    assert "net: " in shown  # what bounds the network
    older = xr.load_dataset(folder / "found" / "front.nc").drop_attrs(deep=False).assign_attrs(objectives='["maximize performance"]')
    store.write(older, folder / "older.nc")
    assert entry.main(["show", "older.nc"]) == 0


def test_a_pareto_front_is_printed_in_units_on_request(swept, capsys):
    command = ["pareto", "out/results.nc", "--minimize", "latency", "memory.dram.bandwidth"]
    assert entry.main([*command, "--format", "table"]) == 0
    assert "bandwidth [TB/s]" in capsys.readouterr().out
    assert entry.main(command) == 0
    assert capsys.readouterr().out.startswith("latency,memory.dram.bandwidth,")  # SI units, as before


def test_names_of_the_catalogue_print_their_file(capsys):
    for name, line in (("t4", "name: t4"), ("resnet50", "name: resnet50"), ("peers", "name: peers")):
        assert entry.main(["show", name]) == 0
        assert line in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a100-sxm4-80g"], "did you mean 'a100-sxm4-80gb'"),
        (["none.nc"], "'none.nc' does not exist"),
        (["."], "the folder '.' has no results"),
        (["small.yaml"], "is not a dataset, or is damaged"),
        (["out", "--select", "batch=3"], "'batch' is never '3'"),
        (["out", "--select", "memory.dram.bandwidth=4 TB"], "'TB' is the wrong unit here"),
        (["out", "--select", "batch"], "is not of the form NAME=VALUE"),
        (["out", "--minimize", "latency", "--maximize", "speedup"], "ranked by one objective"),
        (["out", "--drop", "-1"], "out of range"),
    ],
)
def test_invalid_input_exits_2_without_a_traceback(swept, capsys, arguments, message):
    assert entry.main(["show", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_a_dataset_of_another_program_exits_2(tmp_path, capsys):
    store.write(xr.Dataset({"temperature": ("time", [1.0])}), tmp_path / "weather.nc")
    assert entry.main(["show", str(tmp_path / "weather.nc")]) == 2
    assert "does not hold results of this program" in capsys.readouterr().err
