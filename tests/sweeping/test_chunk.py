"""Chunks of a sweep cover it once, on a regular grid, and have the results of their region, bit for bit."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.sweeping import run
from dse.sweeping.chunk import ChunkGrid, chunk_lengths, max_chunk_designs
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.plan_builder import load_plan

SPEC = """
name: small
accelerators: [./chip.yaml, ./other.yaml]
workloads: {./net: {methods: all}}
batch: [1, 16]
dtype: [fp16, int8]
axes:
  memory.dram.capacity: [1 MB, 1 GB]
  memory.l2.capacity: [10 MB, 100 MB]
  memory.dram.bandwidth: {from: 1 TB/s, to: 64 TB/s, steps: 5, scale: log}
  units.tensor.runs.sparse_24.enabled: [true, false]
  cost.process: [7 nm, 5 nm]
  units.tensor.peak.fp16: [100 TFLOP/s, 300 TFLOP/s, 400 TFLOP/s]
"""
VARIABLES = "latency, dense_latency, speedup, bound_share, execution_share, fits, area, power, energy, edp"


@pytest.fixture
def spec(folder):
    chip = (folder / "chip.yaml").read_text() + "cost: {process: 7 nm, area: 300 mm^2}\n"
    (folder / "chip.yaml").write_text(chip.replace("fp16: 10 TFLOP/s", "fp16: 10 TFLOP/s, int8: 10 TOP/s"))
    other = (folder / "chip.yaml").read_text().replace("name: chip", "name: other").replace("  vector:", "  scalar:")
    (folder / "other.yaml").write_text(other.replace("csr:", "loop:"))
    (folder / "small.yaml").write_text(SPEC)
    return folder / "small.yaml"


@pytest.fixture
def plan(spec):
    return load_plan(spec)


def evaluate_by_chunks(plan, max_designs) -> xr.Dataset:
    """All results, assembled from those of the chunks."""
    compiled = CompiledSweep.of_plan(plan)
    results = xr.full_like(run.evaluate(compiled), 0)
    for chunk in ChunkGrid(plan, max_designs):
        part = run.evaluate(compiled.restrict(chunk))
        for name, variable in results.data_vars.items():
            variable[{dim: covered for dim, covered in chunk.region.items() if dim in variable.dims}] = part[name].values
    return results


@pytest.mark.parametrize("max_designs", [20, 1000])
@pytest.mark.parametrize("fidelity", ["sol", "capacity"])
@pytest.mark.filterwarnings("ignore::dse.ModelWarning")
def test_the_results_of_a_chunk_are_its_region_of_all_results(spec, fidelity, max_designs):
    variables = VARIABLES if fidelity == "sol" else "latency, speedup, fits, area"
    spec.write_text(spec.read_text() + f"model: {{fidelity: {fidelity}}}\nstore: {{variables: [{variables}]}}\n")
    plan = load_plan(spec)
    xr.testing.assert_equal(evaluate_by_chunks(plan, max_designs), run.run_in_memory(plan))


def test_the_labels_of_a_chunk_are_those_of_its_region(plan):
    compiled = CompiledSweep.of_plan(plan)
    whole = run.evaluate(compiled)
    for chunk in list(ChunkGrid(plan, 7))[::17]:
        part, region = run.evaluate(compiled.restrict(chunk)), whole.isel(dict(chunk.region))
        xr.testing.assert_equal(part, region)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(st.integers(1, 6), min_size=6, max_size=6), st.integers(1, 300))
def test_chunks_cover_a_sweep_once_on_a_regular_grid(plan, sizes, max_designs):
    axes = [replace(axis, values=np.arange(2 if axis.is_outer_loop else size)) for axis, size in zip(plan.axes, sizes, strict=True)]
    plan = replace(plan, axes=tuple(axes))
    lengths, covered = chunk_lengths(plan, max_designs), np.zeros([n for dim, n in plan.dims.items() if dim != "variant"], int)
    seen = []
    for chunk in ChunkGrid(plan, max_designs):
        covered[tuple(chunk.region.values())] += 1
        assert chunk.design_count <= max_designs
        for dim, part in chunk.region.items():
            assert part.start % lengths[dim] == 0
            assert part.stop == min(part.start + lengths[dim], plan.dims[dim])
        if chunk.setting not in seen[-1:]:
            assert chunk.setting not in seen
            seen.append(chunk.setting)
    assert (covered == 1).all()


def test_the_results_of_a_chunk_take_at_most_the_chunk_size(plan, monkeypatch):
    monkeypatch.setattr("dse.sweeping.chunk.CHUNK_BYTES", 10_000)
    with warnings.catch_warnings(action="ignore"):
        whole = run.run_in_memory(plan)
    largest = max(whole.isel(dict(chunk.region)).nbytes for chunk in ChunkGrid(plan, max_chunk_designs(plan)))
    assert 1_000 < largest < 12_000


@pytest.mark.parametrize("size", [3_000, 100_000])
def test_a_call_evaluates_no_more_designs_than_a_chunk_has(plan, monkeypatch, size):
    monkeypatch.setattr("dse.sweeping.chunk.CHUNK_BYTES", size)
    shapes = CompiledSweep.of_plan(plan).shapes
    assert shapes.rows_at_once * shapes.columns_at_once <= max(1, max_chunk_designs(plan))
