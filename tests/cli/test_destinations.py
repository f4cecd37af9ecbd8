"""A command that cannot write its output reports it before the work and changes no file."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from dse.calibrate.tables.measurement_set import SHIPPED_MEASUREMENTS
from dse.cli.entry import main
from tests.conftest import described
from tests.searching import search_specs

MASK = np.arange(64).reshape(8, 8) % 2
SPECIFICATIONS = {
    "figures": "plots: [speedup, layers]",
    "front": "keep: {front: {maximize: [speedup, accuracy]}}",
    "top": "keep: {top: 2, maximize: [speedup]}",
}

# By name: a command that writes to OUT, and the function that does the work, which must not be called.
COMMANDS = {
    "sweep": ("sweep figures.yaml -o OUT", "dse.sweeping.run.run_in_memory"),
    "sweep to a file": ("sweep figures.yaml -o OUT/mine.nc", "dse.sweeping.run.run_in_memory"),
    "sweep to a store": ("sweep figures.yaml -o OUT/mine.zarr", "dse.sweeping.run.evaluate"),
    "sweep that keeps a front": ("sweep front.yaml -o OUT", "dse.sweeping.run.evaluate"),
    "sweep that keeps the best": ("sweep top.yaml -o OUT/mine.nc", "dse.sweeping.run.evaluate"),
    "plot": ("plot done/results.nc -o OUT", "dse.plot.speedup.draw_panel"),
    "pareto": ("pareto done/results.nc --maximize speedup accuracy -o OUT", "dse.sweeping.pareto.pareto"),
    "io": ("io masks.npz --memory 20B --moves 50 --write-orders -o OUT", "dse.cli.io.simulate_sizes"),
    "search": ("search wanted/search.yaml -o OUT", "dse.searching.run.run_search"),
    "measure": ("measure --cpu --repeats 1 --shapes 32x32x32 --densities 0.5 -o OUT", "dse.cli.measure.run_jobs"),
    "calibrate": ("calibrate measured/dense_fp16.csv --samples 1 -o OUT/efficiencies.yaml", "dse.calibrate.fit.calibration.fit_alone"),
    "validate": ("validate dense_fp16 --data measured -o OUT", "dse.calibrate.validate.left_out_shapes.FittedSet.fit"),
    "trace": ("trace masks.npz --accuracy 70 -o OUT", "dse.cli.trace.trace_network"),
}
# Outputs of commands that take long (their own tests check them), and whether each is a folder.
SLOW_OUTPUTS = {
    COMMANDS["search"][1]: dict.fromkeys(
        ("study.journal", "front.nc", "front.csv", "best.csv", "best.yaml", "search.png", "search.csv"), False
    )
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Every input of the commands."""
    folder = described(tmp_path_factory.mktemp("inputs"))
    small = (folder / "small.yaml").read_text()
    for name, line in SPECIFICATIONS.items():
        (folder / f"{name}.yaml").write_text(f"{small}{line}\n")
    np.savez(folder / "masks.npz", fc=MASK)
    (folder / "measured").mkdir()
    shutil.copy(SHIPPED_MEASUREMENTS / "dense_fp16.csv", folder / "measured")
    assert main(["sweep", str(folder / "small.yaml"), "-o", str(folder / "done")]) == 0
    search_specs.write(described(folder / "wanted"), search_specs.LIMITED)
    return folder


@pytest.fixture(params=COMMANDS)
def command(request, inputs, monkeypatch):
    """A function that runs a command with output `out`, and the name of the function that does its work."""
    command, work = COMMANDS[request.param]
    monkeypatch.chdir(inputs)

    def run(out: Path) -> int:
        return main(command.replace("OUT", str(out)).split())

    return run, work


def never(*_, **__):
    raise AssertionError("the work was started")


def tree(folder: Path) -> dict[str, str]:
    """The paths below a folder, each a file or a folder."""
    return {str(path.relative_to(folder)): "folder" if path.is_dir() else "file" for path in folder.rglob("*")}


def test_a_path_that_is_taken_is_reported_before_the_work(command, tmp_path, monkeypatch, capsys):
    run, work = command
    if not (written := SLOW_OUTPUTS.get(work, {})):
        assert run(tmp_path / "free") == 0
        written = {path.name: path.is_dir() for path in (tmp_path / "free").iterdir()}
    monkeypatch.setattr(work, never)
    for name, is_folder in written.items():
        (out := tmp_path / "taken").mkdir()
        path = out / name
        path.write_text("something else") if is_folder else path.mkdir()
        before = tree(tmp_path)
        capsys.readouterr()
        assert run(out) == 2, name
        assert name in capsys.readouterr().err
        assert tree(tmp_path) == before, name
        shutil.rmtree(out)


def test_a_folder_that_cannot_be_written_is_reported_before_the_work(command, tmp_path, monkeypatch, capsys):
    run, work = command
    monkeypatch.setattr(work, never)
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file") == 2
    (out := tmp_path / "locked").mkdir()
    monkeypatch.setattr("os.access", lambda path, mode: not (mode & os.W_OK and Path(path) in (out, tmp_path)))
    capsys.readouterr()
    assert run(out) == 2
    assert "can't be written to" in capsys.readouterr().err.replace("cannot", "can't")
    assert tree(tmp_path) == {"file": "file", "locked": "folder"}
