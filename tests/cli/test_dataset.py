"""Commands about the dataset of a sweep: selected values, files of Pareto fronts, exit codes."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import dse
from dse.base.errors import InputError
from dse.cli import entry
from dse.cli.dataset import parse_numbers
from dse.sweeping import store
from dse.sweeping.select_values import select_values

AXES = "dtype: fp16\naxes: {memory.dram.bandwidth: [0.1 TB/s, 1 TB/s, 4 TB/s], memory.dram.capacity: [1 GB, 2 GB]}"


@pytest.fixture
def results(edited):
    return dse.sweep(edited("small.yaml", ("dtype: fp16", AXES)))


def test_a_selection_keeps_the_dims_and_errors_suggest_names(results):
    part = select_values(results, {"batch": "16", "memory.dram.bandwidth": "1e12", "method": "semi"})
    assert (part.sizes["batch"], part.sizes["memory.dram.bandwidth"], part.sizes["variant"]) == (1, 1, 1)
    for chosen, messages in (
        ({"bach": "1"}, "did you mean 'batch'"),
        ({"batch": "2"}, "'batch' is never '2'"),
        ({"method": "sem"}, "did you mean 'semi'"),
    ):
        with pytest.raises(InputError, match=messages):
            select_values(results, chosen)


def test_a_reference_has_the_unit_of_its_objective_or_none(results):
    assert parse_numbers({"latency": "2 ms", "speedup": "1.5"}, results) == {"latency": pytest.approx(2e-3), "speedup": 1.5}
    assert parse_numbers({"latency": "2e-3"}, results) == {"latency": 2e-3}
    with pytest.raises(InputError) as error:
        parse_numbers({"speedup": "x", "latency": "2 W"}, results)
    messages = str(error.value)
    assert "--reference speedup: 'speedup=x' has no number; write a number" in messages
    assert "--reference latency: 'W' is the wrong unit here; write a quantity in s" in messages


def test_the_command_writes_a_dataset_a_table_and_a_figure(results, tmp_path, capsys):
    store.write(results, tmp_path / "mine.nc")
    command = ["pareto", str(tmp_path / "mine.nc"), "--maximize", "speedup", "accuracy", "--at", "batch=1", "--unique"]
    assert entry.main([*command, "-o", str(tmp_path / "front.nc")]) == 0
    printed = capsys.readouterr()
    assert {path.name for path in tmp_path.glob("front.*")} == {"front.nc", "front.csv", "front.png"}
    assert printed.out == (tmp_path / "front.csv").read_text()
    rows, front = pd.read_csv(tmp_path / "front.csv"), store.read(tmp_path / "front.nc")
    np.testing.assert_allclose(rows.speedup, front.speedup)
    assert (rows.batch == 1).all()
    assert rows.knee.sum() == 1
    assert rows.knee[front.attrs["knee"]]
    assert entry.main(command) == 0
    assert (tmp_path / "mine.pareto.png").exists()


def test_an_unknown_objective_exits_2_and_writes_nothing(results, tmp_path):
    store.write(results, tmp_path / "mine.nc")
    command = [sys.executable, "-m", "dse.cli", "pareto", "mine.nc", "--maximize", "speedupp", "--reference", "speedup=1", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "the dataset has no 'speedupp'; did you mean 'speedup'?" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_input_dataset_is_not_overwritten(results, tmp_path, capsys):
    store.write(results, tmp_path / "mine.nc")
    path = str(tmp_path / "mine.nc")
    assert entry.main(["pareto", path, "--maximize", "speedup", "-o", path]) == 2
    assert "is also the input; give another output file" in capsys.readouterr().err


def test_the_command_lists_its_fronts(results, folder, capsys):
    store.write(results, folder / "results.nc")
    assert entry.main(["pareto", str(folder / "results.nc"), "--maximize", "speedup", "--minimize", "latency"]) == 0
    messages = capsys.readouterr().err
    assert "  net, batch 1: " in messages
    assert "  net, batch 16: " in messages
    assert entry.main(["pareto", str(folder / "results.nc"), "--maximize", "speedup", "--minimize", "latency", "--pool"]) == 0
    assert "batch 1: " not in capsys.readouterr().err
