"""Reports of small results."""

import warnings
from pathlib import Path

import pytest

import dse
from dse.cli.entry import main
from dse.sweeping import store
from tests.conftest import described

AXES = """
axes:
  memory.dram.bandwidth: [0.5 TB/s, 1 TB/s, 2 TB/s]
  units.tensor.peak.fp16: [50 TFLOP/s, 100 TFLOP/s]
"""


def write_results(folder: Path) -> Path:
    """The results of the small sweep over two axes."""
    described(folder)
    spec = folder / "small.yaml"
    spec.write_text(spec.read_text() + AXES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store.write(dse.sweep(spec), folder / "results.nc")
    return folder / "results.nc"


def write_report(*arguments: str | Path) -> Path:
    """The report at the last argument, of all others."""
    *results, out = arguments
    assert main(["report", *map(str, results), "-o", str(out)]) == 0
    return Path(out)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def report(results: Path) -> Path:
    return write_report(results, results.with_name("report.html"))
