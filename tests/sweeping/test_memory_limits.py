"""Sweeps that are too large are refused with an estimate, or evaluated in constant memory; long preparation shows its progress."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import dse
from dse.base import available_memory, progress
from dse.base.errors import InputError
from dse.cli.entry import main
from dse.schema.sweep import RangeAxis
from dse.sweeping import run
from dse.sweeping.axis import parse_axis
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.plan_builder import load_plan
from dse.sweeping.reduce import front, stream
from dse.sweeping.reduce.reducer import Partial
from dse.sweeping.reduce.stream import ReductionStream

STEPS = 10**6
LONG = f"axes:\n  memory.dram.bandwidth: {{from: 1 TB/s, to: 64 TB/s, steps: {STEPS}, scale: log}}\nstore: {{variables: [latency]}}\n"
AXES = """
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 64 TB/s, steps: 40, scale: log}
  units.tensor.peak.fp16: {from: 50 TFLOP/s, to: 900 TFLOP/s, steps: 5, scale: log}
"""


@pytest.fixture
def write_spec(folder) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = folder / "large.yaml"
        path.write_text((folder / "small.yaml").read_text() + text)
        return path

    return write


def peak_bytes(function: Callable[[], object]) -> int:
    """Maximum memory that a function allocates [B]."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_axis_takes_no_more_memory_than_its_values(chip):
    """Texts of the values would take 100 bytes each."""
    axis_range = RangeAxis.model_validate({"from": "1 TB/s", "to": "8 TB/s", "steps": STEPS})
    assert peak_bytes(lambda: parse_axis("memory.dram.bandwidth", axis_range, [chip])) < 40 * STEPS


def test_yaml_values_of_an_axis_are_its_values_with_the_unit(chip):
    axis = parse_axis("memory.dram.bandwidth", RangeAxis.model_validate({"from": "1 TB/s", "to": "2 TB/s", "steps": 3}), [chip])
    assert list(axis.yaml_values) == ["1000000000000.0 B/s", "1500000000000.0 B/s", "2000000000000.0 B/s"]
    assert list(axis[1:].yaml_values) == list(axis.yaml_values)[1:]
    assert len(axis.yaml_values[:2]) == 2


def test_a_compiled_sweep_does_not_grow_with_the_product_of_jobs_and_values(write_spec):
    """Rates of every value for each of the 10 jobs would take 16 numbers per value and more."""
    plan = load_plan(write_spec(LONG))
    assert peak_bytes(lambda: CompiledSweep.of_plan(plan)) < 60 * STEPS


class Sums:
    """Keep the sum of the partials."""

    def merge(self, partials: list[Partial]) -> Partial:
        return {"sum": np.sum([partial["sum"] for partial in partials], axis=0)}

    def to_dataset(self, partial: Partial) -> Partial:
        return partial


def test_partials_are_merged_in_constant_memory():
    size, groups = 10**6, 30

    def partials() -> Iterator[Partial]:
        for number in range(groups):
            yield {"sum": np.full(size, float(number))}

    reduction = ReductionStream(None, None, Sums(), None)  # type: ignore[arg-type]
    assert reduction.to_dataset(partials())["sum"][0] == sum(range(groups))
    assert peak_bytes(lambda: reduction.to_dataset(partials())) < 2 * stream.MERGED_BYTES + 8 * 8 * size


def test_a_front_of_too_many_points_is_refused(write_spec, monkeypatch, capsys):
    monkeypatch.setattr(front, "MAX_POINTS", 30)
    path = write_spec(AXES + "keep: {front: {minimize: [latency, memory.dram.bandwidth]}}\n")
    assert main(["sweep", str(path), "-o", str(path.with_name("x.nc"))]) == 2
    assert "more than 30 points are on the front of latency, memory.dram.bandwidth; leave an objective out" in capsys.readouterr().err


def test_a_summary_of_too_many_values_is_refused(write_spec, monkeypatch):
    monkeypatch.setattr(stream, "MAX_SUMMARY_BYTES", 10_000)
    with pytest.raises(
        InputError, match=r"large\.yaml:\d+: keep: the statistics at each of 40 values of 'memory.dram.bandwidth' would take .* GB"
    ):
        dse.sweep(write_spec(AXES + "keep: summary\n"))


def test_the_size_of_a_summary_is_that_of_its_arrays(write_spec):
    """Four numbers for each result, setting and value of an axis: 40 + 5 values, 2 batches and 4 variants."""
    plan = load_plan(write_spec(AXES + "store: {variables: [latency]}\nkeep: summary\n"))
    sample = run.evaluate(CompiledSweep.of_plan(plan))
    assert stream.summary.count_bytes(plan.dims, sample) == 4 * 8 * (40 + 5) * 2 * 4


def test_more_combinations_than_fit_in_memory_are_refused_before_they_are_compiled(write_spec, monkeypatch):
    monkeypatch.setattr("dse.sweeping.compile.available_bytes", lambda: 100_000)
    with pytest.raises(
        InputError, match=r"combinations of variants and outer-loop axes would take about .* GB to prepare; there are 0\.0001 GB"
    ):
        CompiledSweep.of_plan(load_plan(write_spec("")))


def test_results_larger_than_the_available_memory_are_refused(write_spec, monkeypatch):
    monkeypatch.setattr("dse.sweeping.plan_builder.available_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"kept in memory; write them to a Zarr store"):
        dse.sweep(write_spec(AXES))


def test_available_memory_is_the_least_of_machine_group_and_process(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 50 kB\n")
    monkeypatch.setattr(available_memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(available_memory, "CONTROL_GROUP", tmp_path)
    assert available_memory.available_bytes() == 51_200
    for limit, expected in (("max", 51_200), ("30000", 10_000)):
        (tmp_path / "memory.max").write_text(limit)
        (tmp_path / "memory.current").write_text("20000")
        assert available_memory.available_bytes() == expected


def test_running_out_of_memory_is_reported_in_one_line(write_spec, monkeypatch, capsys):
    def fail(*_, **__):
        raise MemoryError("Unable to allocate 100 GiB")

    monkeypatch.setattr("dse.sweeping.run.evaluate", fail)
    path = write_spec("")
    assert main(["sweep", str(path), "-o", str(path.with_name("x.nc"))]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("out of memory (Unable to allocate 100 GiB); ")


def test_long_preparation_shows_its_progress(write_spec, monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    path = write_spec("")
    assert main(["sweep", str(path), "-o", str(path.with_name("x.nc"))]) == 0
    err = capsys.readouterr().err
    for what in ("reading networks", "selecting variants", "preparing"):
        assert f"{what}: " in err
