"""One process at a time writes an output; shards share it; what killed processes leave behind is removed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dse
from dse.base import output_file
from dse.base.errors import InputError
from dse.cli.entry import main
from tests.searching import search_specs

HOLD = """
import sys, time
from pathlib import Path
from dse.base import output_file
with output_file.hold_write_lock(Path(sys.argv[1])), output_file.temporary_path(Path(sys.argv[1])) as fresh:
    fresh.write_text("half")
    print("held", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def kept(folder):
    path = folder / "kept.yaml"
    path.write_text((folder / "small.yaml").read_text() + "keep: summary\n")
    return path


@pytest.mark.parametrize(
    ("spec", "out"), [("small.yaml", "x.nc"), ("small.yaml", "x.zarr"), ("kept.yaml", "x.nc"), ("small.yaml", "new/x.nc")]
)
@pytest.mark.filterwarnings("ignore::dse.ModelWarning")
def test_a_second_sweep_into_one_output_is_refused(folder, kept, capsys, spec, out):
    before = sorted(folder.rglob("*"))
    with output_file.hold_write_lock(folder / out):
        assert main(["sweep", str(folder / spec), "-o", str(folder / out)]) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"'{folder / out}' is being written by process {os.getpid()} on ")
        assert told.endswith("; wait until that is done, or give another path\n")
        with pytest.raises(InputError, match="is being written by"):
            dse.sweep(folder / spec, folder / out)
    assert sorted(folder.rglob("*")) == before
    assert main(["sweep", str(folder / spec), "-o", str(folder / out)]) == 0
    assert not [*folder.rglob(".*")]


@pytest.mark.filterwarnings("ignore::dse.ModelWarning")
def test_shards_share_an_output_with_each_other_only(folder):
    out = folder / "x.zarr"
    with output_file.hold_write_lock(out, shared=True):
        dse.sweep(folder / "small.yaml", out, shard=(1, 2))
        with pytest.raises(InputError, match="is being written by"):
            dse.sweep(folder / "small.yaml", out, resume=True)
        dse.sweep(folder / "small.yaml", out, shard=(2, 2))
    dse.sweep(folder / "small.yaml", out, resume=True)
    assert not [*folder.glob(".*")]


@pytest.mark.parametrize("arguments", [[], ["--resume"]])
def test_a_second_search_in_one_folder_is_refused(folder, capsys, arguments):
    path = search_specs.write(folder, search_specs.LIMITED)
    with output_file.hold_write_lock(folder / "out" / "study.journal"):
        assert main(["search", str(path), "-o", str(folder / "out"), *arguments]) == 2
    assert "study.journal' is being written by process" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_a_machine_is_measured_into_one_folder_by_one_process(tmp_path, capsys):
    command = ["measure", "--cpu", "--repeats", "1", "--shapes", "32x32x32", "-o", str(tmp_path / "out")]
    with output_file.hold_write_lock(tmp_path / "out" / "measurements.csv"):
        assert main(command) == 2
    assert "measurements.csv' is being written by process" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::dse.ModelWarning")
def test_locks_and_temporary_files_of_killed_processes_are_removed_by_the_next_one(folder):
    out = folder / "x.nc"
    process = subprocess.Popen([sys.executable, "-c", HOLD, out], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=rf"x\.nc' is being written by process {process.pid} on "):
        dse.sweep(folder / "small.yaml", out)
    output_file.remove_abandoned_folders(out)
    assert len([*folder.glob(".x.nc.*")]) == 2, "what a living process writes is left alone"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len([*folder.glob(".x.nc.*")]) == 2
    dse.sweep(folder / "small.yaml", out)
    assert not [*folder.glob(".*")]


def test_a_file_system_without_locks_is_written_to_after_a_warning(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        pytest.warns(UserWarning, match="has no file locks"),
        output_file.hold_write_lock(tmp_path / "x.nc"),
        output_file.temporary_path(tmp_path / "x.nc") as fresh,
    ):
        assert fresh.parent.exists()
    assert not [*Path(tmp_path).iterdir()] or [path.name for path in tmp_path.iterdir()] == [".x.nc.lock"]
