"""Checkpoints of `dse calibrate`: an interrupted run resumes with what depends on unchanged inputs alone."""

from pathlib import Path

import pytest

from dse.calibrate.fit.checkpoint import Checkpoint
from dse.model.efficiency.efficiency_file import shipped_kernels
from dse.schema.accelerator import read_accelerator

DEVICE = """
name: mine
source: a test
units: {core: {peak: {fp32: 1 TFLOP/s}}}
memory: {dram: {bandwidth: 10 GB/s}}
"""
FILES = {"table.csv": "a table", "mine.yaml": DEVICE, "prior.yaml": "a prior"}


def checkpoint(folder: Path, prior: str | None = None) -> Checkpoint:
    devices = {"mine": read_accelerator(folder / "mine.yaml")}
    return Checkpoint(folder / "out.yaml", [folder / "table.csv"], devices, 10, 0, prior or str(folder / "prior.yaml"))


@pytest.fixture
def folder(tmp_path):
    """A folder with inputs and the checkpoint of an interrupted run, with one kernel."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    interrupted = checkpoint(tmp_path)
    assert interrupted.read() == []
    interrupted.add(shipped_kernels()[0])
    return tmp_path


def test_an_interrupted_run_resumes(folder):
    assert checkpoint(folder).read() == [shipped_kernels()[0]]


@pytest.mark.parametrize("name", FILES)
def test_a_changed_input_discards_the_kernels_fitted_before(folder, name):
    (folder / name).write_text(f"{FILES[name]}# changed")
    assert checkpoint(folder).read() == []


def test_another_prior_discards_the_kernels_fitted_before(folder):
    assert checkpoint(folder, "none").read() == []
