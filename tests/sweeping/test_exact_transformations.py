"""Chunks, precision, stored variables and exact transformations change no result of a sweep."""

import warnings

import numpy as np
import pytest

import dse
from dse.model import axis_dependence, grid, jax_devices, piecewise_linear
from dse.sweeping import job


@pytest.mark.parametrize("chunk", [1, 5, 7, 12, 1000])
def test_one_chunk_is_k_chunks(spec_file, monkeypatch, chunk):
    whole = dse.sweep(spec_file)
    monkeypatch.setattr(jax_devices, "designs_at_once", lambda size: chunk)
    assert dse.sweep(spec_file).drop_attrs().identical(whole.drop_attrs())


def test_a_sweep_is_traced_once(spec_file):
    """Over accelerators, structures, batches, dtypes, networks and chunks. A second run of the same shape needs none."""
    path = spec_file.with_name("two.yaml")
    path.write_text(spec_file.read_text().replace("dtype: fp16", "dtype: [fp16, fp32]").replace("steps: 4", "steps: 5"))
    grid.breakdown_on_grid.clear_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dse.ModelWarning)
        dse.sweep(path)
        assert grid.breakdown_on_grid._cache_size() == 1
        dse.sweep(path)
    assert grid.breakdown_on_grid._cache_size() == 1


def test_float32_is_within_1e_5(spec_file):
    exact = dse.sweep(spec_file)
    spec_file.write_text(spec_file.read_text() + "store: {dtype: float32}\n")
    rough = dse.sweep(spec_file)
    assert rough.latency.dtype == np.float32
    np.testing.assert_allclose(rough.latency, exact.latency, rtol=1e-5)


def test_latency_alone_is_the_same_latency(spec_file):
    everything = dse.sweep(spec_file)
    spec_file.write_text(spec_file.read_text() + "store: {variables: [latency]}\n")
    alone = dse.sweep(spec_file)
    assert list(alone.data_vars) == ["latency"]
    np.testing.assert_allclose(alone.latency, everything.latency, rtol=1e-14)


@pytest.mark.parametrize("overlap", ["full", "none"])
@pytest.mark.parametrize("pays", [0, axis_dependence.BREAK_EVEN])
def test_using_the_axis_dependence_changes_no_latency(spec_file, monkeypatch, overlap, pays):
    """Nor does sorting layers, however few."""
    spec_file.write_text(spec_file.read_text() + f"store: {{variables: [latency, dense_latency]}}\nmodel: {{overlap: {overlap}}}\n")
    plain = dse.sweep(spec_file)
    monkeypatch.setattr(job, "LARGE_GRID", 1)
    monkeypatch.setattr(axis_dependence, "BREAK_EVEN", pays)
    functions = (grid.latency_on_grid, piecewise_linear.evaluate_table)
    for function in functions:
        function.clear_cache()
    results = dse.sweep(spec_file)
    assert [function._cache_size() for function in functions] == [1, overlap == "full" and pays == 0]
    for name in ("latency", "dense_latency"):
        np.testing.assert_allclose(results[name], plain[name], rtol=1e-14)


@pytest.mark.filterwarnings("ignore::dse.ModelWarning")  # of kernels that were measured on other devices
def test_using_the_axis_dependence_changes_no_interval(monkeypatch):
    spec = {
        "name": "intervals",
        "accelerators": ["a100-sxm4-80gb"],
        "workloads": {"bert-base": {"methods": ["dense"], "patterns": [{"list": ["2:4"], "densities": "own"}]}},
        "dtype": "fp16",
        "batch": [8],
        "model": {"fidelity": "calibrated"},
        "axes": {"units.tensor_core.peak.fp16": ["200 TFLOP/s", "300 TFLOP/s"], "units.cuda_core.peak.fp16": ["50 TFLOP/s", "70 TFLOP/s"]},
        "store": {"variables": ["latency", "speedup"]},
    }
    plain = dse.sweep(spec)
    monkeypatch.setattr(job, "LARGE_GRID", 1)
    monkeypatch.setattr(job, "LARGE_SAMPLES", 1)
    grouped = dse.sweep(spec)
    for name in ("latency", "latency_low", "latency_high", "speedup_low", "speedup_high"):
        np.testing.assert_allclose(grouped[name], plain[name], rtol=1e-13)
