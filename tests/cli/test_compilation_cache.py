"""Compiled functions are kept from one command to the next, and never change what it prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dse.cli import compilation_cache
from dse.cli.compilation_cache import FOLDER, SWITCH, keep_compiled_functions

SWEEP = """
name: bandwidths
accelerators: [a100-sxm4-80gb]
workloads: {resnet50: {methods: [magnitude_pruning], sparsities: [0.9]}}
batch: 32
dtype: fp16
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s, steps: 3, scale: log}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for caches, with no setting in the environment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    for name in (FOLDER, SWITCH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return tmp_path / "caches"


def run_sweep(folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "sweep.yaml").write_text(SWEEP)
    command = [sys.executable, "-m", "dse", "sweep", "sweep.yaml", "-o", "results.csv", "--force"]
    return subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=True)


def test_a_command_finds_what_another_compiled_and_ignores_what_is_damaged(home: Path, tmp_path: Path):
    first, results = run_sweep(tmp_path), (tmp_path / "results.csv").read_bytes()
    kept = {file: file.stat().st_mtime_ns for file in home.rglob("*-cache")}
    assert kept
    second = run_sweep(tmp_path)
    assert (second.stdout, second.stderr, (tmp_path / "results.csv").read_bytes()) == (first.stdout, first.stderr, results)
    assert {file: file.stat().st_mtime_ns for file in home.rglob("*-cache")} == kept
    for file in kept:
        file.write_bytes(file.read_bytes()[:-100])
    third = run_sweep(tmp_path)
    assert "warning: Error reading persistent compilation cache entry" in third.stderr
    assert (third.stdout, (tmp_path / "results.csv").read_bytes()) == (first.stdout, results)


@pytest.mark.parametrize("name", [FOLDER, SWITCH])
def test_settings_of_the_user_win(home: Path, name: str):
    os.environ[name] = "false"
    before = dict(os.environ)
    keep_compiled_functions()
    assert os.environ == before
    assert not home.exists()


def test_nothing_is_kept_where_nothing_can_be_written(home: Path):
    home.write_text("a file in the place of the folder")
    keep_compiled_functions()
    assert FOLDER not in os.environ


def test_the_oldest_functions_are_removed_from_a_full_folder(home: Path, monkeypatch: pytest.MonkeyPatch):
    keep_compiled_functions()
    folder = Path(os.environ.pop(FOLDER))
    for age in range(4):
        (folder / f"{age}-cache").write_bytes(bytes(100))
        os.utime(folder / f"{age}-cache", (1000 - age, 1000 - age))
    monkeypatch.setattr(compilation_cache, "MAX_BYTES", 250)
    keep_compiled_functions()
    assert sorted(file.name for file in folder.iterdir()) == ["0-cache", "1-cache"]
