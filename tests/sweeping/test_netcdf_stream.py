"""A large netCDF file is written chunk by chunk, and is the file that would be written from memory."""

import resource

import pytest
import xarray as xr

import dse
from dse.base.errors import InputError, UnfinishedError
from dse.cli.entry import main
from dse.sweeping import netcdf_stream, run, store
from dse.sweeping.chunk import ChunkGrid, max_chunk_designs
from dse.sweeping.plan_builder import load_plan

SPEC = """
name: several
accelerators: [./chip.yaml]
workloads: {./net: {methods: all}}
batch: [1, 16]
dtype: [fp16, int8]
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 64 TB/s, steps: 5, scale: log}
  units.tensor.runs.sparse_24.enabled: [true, false]
  units.tensor.peak.fp16: [100 TFLOP/s, 300 TFLOP/s, 400 TFLOP/s]
store: {variables: [latency, dense_latency, speedup, bound_share, execution_share, fits, footprint, area, power]}
"""
pytestmark = pytest.mark.filterwarnings("ignore::dse.ModelWarning")


@pytest.fixture
def spec(folder):
    chip = (folder / "chip.yaml").read_text() + "cost: {process: 7 nm, area: 300 mm^2}\n"
    (folder / "chip.yaml").write_text(chip.replace("fp16: 10 TFLOP/s", "fp16: 10 TFLOP/s, int8: 10 TOP/s"))
    (folder / "several.yaml").write_text(SPEC)
    return folder / "several.yaml"


@pytest.fixture
def chunks(spec, monkeypatch):
    """Chunks of a few designs, which are written one by one; their number."""
    monkeypatch.setattr("dse.sweeping.chunk.CHUNK_BYTES", 2000)
    monkeypatch.setattr(store, "MAX_BUFFERED_BYTES", 2000)
    plan = load_plan(spec)
    assert netcdf_stream.is_large(plan)
    return len(ChunkGrid(plan, max_chunk_designs(plan)))


def test_a_file_written_by_chunks_is_one_written_from_memory(spec, chunks, tmp_path):
    assert chunks >= 20
    streamed = dse.sweep(spec, tmp_path / "streamed.nc")
    results = run.run_in_memory(load_plan(spec))
    store.write(results, tmp_path / "whole.nc")
    for read in (store.read_netcdf, lambda path: xr.open_dataset(path, engine="h5netcdf", decode_cf=False)):
        one, other = (read(tmp_path / name).drop_attrs(deep=False) for name in ("streamed.nc", "whole.nc"))
        xr.testing.assert_identical(one, other)
    xr.testing.assert_equal(streamed.load(), results)
    assert streamed.fits.dtype == bool
    assert {*streamed.attrs} == {*results.attrs}


def test_progress_counts_every_design_once(spec, chunks, monkeypatch):
    plan, counts = load_plan(spec), []
    monkeypatch.setattr(netcdf_stream, "_write_chunk", lambda *_: None)
    netcdf_stream._write_chunks(run.compile_sweep(plan), counts.append, spec.with_suffix(".nc"))
    assert len(counts) == chunks
    assert sum(counts) == 5 * 2 * 3 * 2 * 2


def test_the_command_writes_large_results_by_chunks(spec, chunks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", str(spec), "-o", "a.nc"]) == 0
    assert main(["show", "a.nc"]) == 0
    assert store.read_netcdf("a.nc").latency.notnull().all()
    assert main(["sweep", str(spec), "-o", "a.csv"]) == 0


def test_only_results_in_memory_have_to_fit_it(spec, chunks, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dse.sweeping.plan_builder.available_bytes", lambda: 1000)
    monkeypatch.chdir(tmp_path)
    assert dse.sweep(spec, "a.nc").latency.notnull().all()
    assert main(["sweep", str(spec), "-o", "b.nc"]) == 0
    with pytest.raises(InputError, match="and are kept in memory"):
        dse.sweep(spec)
    assert main(["sweep", str(spec), "-o", "a.csv"]) == 2
    spec.write_text(spec.read_text() + "plots: [speedup]\n")
    assert main(["sweep", str(spec), "-o", "c.nc"]) == 2
    assert capsys.readouterr().err.count("and are kept in memory") == 2


def test_reductions_and_small_results_are_written_from_memory(spec, monkeypatch):
    assert not netcdf_stream.is_large(load_plan(spec))
    monkeypatch.setattr(store, "MAX_BUFFERED_BYTES", 2000)
    spec.write_text(spec.read_text() + "keep: summary\n")
    assert not netcdf_stream.is_large(load_plan(spec))


def test_a_full_disk_leaves_no_file(spec, chunks, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, before[1]))
    try:
        with pytest.raises(UnfinishedError, match=r"x\.nc' cannot be written"):
            dse.sweep(spec, tmp_path / "out" / "x.nc")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "out" / "x.nc").exists()
    assert [*(tmp_path / "out").glob("*")] == []
