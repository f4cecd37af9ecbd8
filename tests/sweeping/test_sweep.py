"""Sweeps: labels, axes, what runs where, specifications as mappings."""

import json

import numpy as np
import pytest
import xarray as xr
import yaml
from yamlcore import CCoreLoader

import dse
from dse.base.errors import InputError
from dse.model.evaluate import evaluate
from dse.plot import draw_figure
from dse.sparsity import parse
from dse.sweeping import store


def test_dims_coordinates_units_and_provenance(spec_file):
    results = dse.sweep(spec_file)
    assert results.speedup.dims == (
        "accelerator", "memory.dram.bandwidth", "units.tensor.runs.sparse_24.pattern", "units.tensor.peak.fp16",
        "batch", "dtype", "variant",
    )  # fmt: skip
    np.testing.assert_allclose(results["memory.dram.bandwidth"], [1e12, 2e12, 4e12, 8e12], rtol=1e-12)
    assert results["memory.dram.bandwidth"].attrs["units"] == "B/s"
    assert list(results["units.tensor.runs.sparse_24.pattern"].values) == ["2:4", "1:2"]
    assert list(results.method.values) == ["pruned", "pruned", "semi", "blocky"]
    assert list(results.accuracy.values[:3]) == [75, 70, 75.5]
    assert np.isnan(results.accuracy.values[3])
    assert {name: results[name].attrs.get("units") for name in ("latency", "dense_latency", "speedup", "bound_share")} == {
        "latency": "s", "dense_latency": "s", "speedup": "1", "bound_share": "1",
    }  # fmt: skip
    assert results.attrs["spec"] == spec_file.read_text()
    assert {"accelerator chip", "workload net layers.csv", "workload net variants/pruned.csv"} <= json.loads(
        results.attrs["description_sha256"]
    ).keys()
    assert json.loads(results.attrs["versions"])["jax"]


def test_every_design_equals_evaluating_it_alone(spec_file, net):
    """Axes of every kind land where their labels say."""
    results = dse.sweep(spec_file)
    chip = dse.load_accelerator(spec_file.parent / "chip.yaml")
    for point in np.ndindex(4, 2, 3, 2):
        bandwidth, pattern, peak = (results[dim].values[n] for dim, n in zip(list(results.speedup.dims)[1:4], point[:3], strict=True))
        design = chip.replace(
            {
                "memory.dram.bandwidth": f"{float(bandwidth)!r} B/s",
                "units.tensor.runs.sparse_24.pattern": str(pattern),
                "units.tensor.peak.fp16": f"{float(peak)!r} FLOP/s",
            }
        )
        batch = int(results.batch.values[point[3]])
        for number, variant in enumerate(net.variants):
            layers, dense = (evaluate(design, v, batch) for v in (variant, net.dense))
            here = results.isel(accelerator=0, dtype=0, variant=number)[dict(zip(list(results.speedup.dims)[1:5], point, strict=True))]
            assert here.latency.item() == pytest.approx(layers.latency.sum().item(), rel=1e-12)
            assert here.dense_latency.item() == pytest.approx(dense.latency.sum().item(), rel=1e-12)
            for resource in results.resource.values:
                expected = layers.latency.values[layers.bound.values == resource].sum() / layers.latency.values.sum()
                assert here.bound_share.sel(resource=resource).item() == pytest.approx(expected, abs=1e-12)
            for execution in results.execution.values:
                expected = layers.latency.values[layers.execution.values == execution].sum() / layers.latency.values.sum()
                assert here.execution_share.sel(execution=execution).item() == pytest.approx(expected, abs=1e-12)


def test_speedup_is_a_ratio_of_sums_and_shares_add_up(spec_file):
    results = dse.sweep(spec_file)
    np.testing.assert_allclose(results.speedup, results.dense_latency / results.latency, rtol=1e-15)
    np.testing.assert_allclose(results.bound_share.sum("resource"), 1, rtol=1e-12)
    np.testing.assert_allclose(results.execution_share.sum("execution"), 1, rtol=1e-12)


def test_the_users_jax_is_left_alone(spec_file):
    import jax

    dse.sweep(spec_file)
    assert not jax.config.jax_enable_x64


def test_two_accelerators_share_their_labels_and_absent_ones_take_no_time(folder, edited):
    (folder / "other.yaml").write_text((folder / "chip.yaml").read_text().replace("chip", "other").replace("vector", "scalar"))
    edited("small.yaml", ("[./chip.yaml]", "[./chip.yaml, ./other.yaml]"))
    results = dse.sweep(folder / "small.yaml")
    assert list(results.accelerator.values) == ["chip", "other"]
    assert set(results.resource.values) == {"tensor", "vector", "scalar", "dram"}
    assert (results.bound_share.sel(accelerator="other", resource="vector") == 0).all()
    np.testing.assert_allclose(results.latency[0], results.latency[1], rtol=1e-14)
    np.testing.assert_allclose(results.bound_share.sum("resource"), 1, rtol=1e-12)


def test_an_axis_without_effect_is_warned_of(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + "axes:\n  memory.l2.capacity: [10 MB, 20 MB]\n")
    with pytest.warns(dse.ModelWarning, match=r"small.yaml:8: axes.memory.l2.capacity: does not change the latency under fidelity 'sol'"):
        results = dse.sweep(path)
    assert (results.latency.isel({"memory.l2.capacity": 0}) == results.latency.isel({"memory.l2.capacity": 1})).all()


def test_an_efficiency_axis_counts_under_r3(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + "model: {fidelity: r3}\naxes:\n  units.vector.runs.csr.efficiency: [0.25, 0.5]\n")
    results = dse.sweep(path).isel(accelerator=0, dtype=0, batch=1, variant=0)
    assert results.latency[0] > results.latency[1]


@pytest.mark.parametrize("order", ["[true, false]", "[false, true]"])
def test_a_rate_of_a_run_that_some_designs_switch_off_still_counts(folder, order):
    path = folder / "small.yaml"
    run = "units.vector.runs.csr"
    path.write_text(path.read_text() + f"model: {{fidelity: r3}}\naxes:\n  {run}.enabled: {order}\n  {run}.efficiency: [0.25, 0.5]\n")
    results = dse.sweep(path).isel(accelerator=0, dtype=0, batch=1, variant=0).latency  # no warning: some designs have the run
    on, off = results.sel({f"{run}.enabled": True}), results.sel({f"{run}.enabled": False})
    assert on[0] > on[1]
    assert off[0] == off[1]


def test_a_gain_that_the_description_leaves_open_can_be_swept(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + "axes:\n  units.tensor.runs.blocks.gain: [1, 2, 100]\n")
    blocky = dse.sweep(path).latency.isel(accelerator=0, dtype=0, batch=1, variant=3)
    assert blocky[0] > blocky[1] > blocky[2]


def test_patterns_without_a_run_are_one_warning_for_each_list_of_dtypes(folder, edited):
    edited("chip.yaml", ("pattern: unstructured,", "enabled: false, pattern: unstructured,"))
    path = edited("small.yaml", ("dtype: fp16", "dtype: [fp16, fp32]"), ("methods: all", 'methods: all, patterns: ["1:16"]'))
    with pytest.warns(dse.ModelWarning) as caught:
        dse.sweep(path)
    assert [str(each.message) for each in caught] == [
        "'chip' has no enabled run for 'unstructured' in fp16, fp32: its layers run dense",
        "'chip' has no enabled run for '2:4', 'block:8x8', '1:16' in fp32: their layers run dense",
    ]


def test_accelerators_without_a_run_share_a_warning(folder, edited):
    edited("chip.yaml", ("pattern: unstructured,", "enabled: false, pattern: unstructured,"))
    (folder / "other.yaml").write_text((folder / "chip.yaml").read_text().replace("name: chip", "name: other"))
    path = edited("small.yaml", ("[./chip.yaml]", "[./chip.yaml, ./other.yaml]"), ("dtype: fp16", "dtype: fp32"))
    with pytest.warns(dse.ModelWarning) as caught:
        dse.sweep(path)
    assert [str(each.message) for each in caught] == [
        "'chip', 'other' have no enabled run for 'unstructured', '2:4', 'block:8x8' in fp32: their layers run dense"
    ]


def test_a_device_without_a_run_for_the_pattern_runs_dense_with_a_warning(folder, edited):
    edited("chip.yaml", ("pattern: unstructured,", "enabled: false, pattern: unstructured,"))
    with pytest.warns(dse.ModelWarning, match="'chip' has no enabled run for 'unstructured' in fp16: its layers run dense"):
        results = dse.sweep(folder / "small.yaml")
    unstructured = results.isel(accelerator=0, dtype=0, variant=0)
    np.testing.assert_allclose(unstructured.speedup, 1, rtol=1e-14)
    assert (unstructured.execution_share.sel(execution="tensor.dense") == 1).all()


def test_netcdf_gives_the_dataset_back(spec_file, tmp_path):
    results = dse.sweep(spec_file, tmp_path / "out" / "results.nc")
    assert store.read(tmp_path / "out" / "results.nc").identical(results)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results.nc"]


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bitmask", "nm_index"])
def test_gathered_patterns_are_stored_in_the_format_of_the_run(kind, folder, edited):
    """A 2:4 run takes V:2:M by gathering columns, whatever format stores its nonzeros: half the columns at twice the rate."""
    edited("chip.yaml", ("{pattern: 2:4, gain: 2}", f"{{pattern: 2:4, gain: 2, format: {{kind: {kind}}}}}"))
    edited("small.yaml", ("{methods: all}", "{methods: [dense], patterns: [{list: ['64:2:8', '2:4'], densities: own}]}"))
    edited("small.yaml", ("[1, 16]", "[1024]"))
    results = dse.sweep(folder / "small.yaml")
    assert results.execution_share.sel(execution="tensor.sparse_24").squeeze()[-2:].min() > 0
    assert results.latency.squeeze()[1] < results.latency.squeeze()[2]


@pytest.mark.parametrize("text", ["2:4/block:32x32/1:8", "1:2/block:4x8/2:4/block:2x2", "block:64x64/1:2/block:4x4/2:4", "1:2/2:2:8"])
def test_nested_patterns_run_where_they_are_listed(text, folder, edited):
    edited("chip.yaml", ('pattern: "block:4x4*"', f'pattern: "{text}"'))
    densities = "[0.1]" if parse(text).density is None else "own"
    edited(
        "small.yaml",
        ("{methods: all}", f"{{methods: [dense], patterns: [{{list: ['{text}'], densities: {densities}}}]}}"),
    )
    results = dse.sweep(folder / "small.yaml").isel(variant=1, batch=1).squeeze()
    assert results.execution_share.sel(execution="tensor.blocks") > 0
    density = parse(text).density or 0.1
    assert results.sparsity.item() == pytest.approx(1 - density, rel=0.05)  # edges are padded


def test_a_mapping_is_a_specification(spec_file, monkeypatch):
    """A mapping gives the same results as a file with its content, and its mistakes are reported at their dotted paths."""
    monkeypatch.chdir(spec_file.parent)
    spec = yaml.load(spec_file.read_text(), Loader=CCoreLoader)
    results = dse.sweep(spec)
    xr.testing.assert_equal(results, dse.sweep(spec_file))
    assert dse.load_accelerator(yaml.load((spec_file.parent / "chip.yaml").read_text(), Loader=CCoreLoader)).name == "chip"
    assert draw_figure("roofline", results)  # which reads the specification again
    with pytest.raises(InputError) as caught:
        dse.sweep({**spec, "batch": [0], "model": {"fidelity": "soll"}})
    assert [str(problem).split("; ")[0] for problem in caught.value.problems] == [
        "batch.0: 0 is out of range",
        "model.fidelity: 'soll' is not known here",
    ]


def test_a_mapping_is_a_search(spec_file, monkeypatch):
    monkeypatch.chdir(spec_file.parent)
    spec = {
        **yaml.load(spec_file.read_text(), Loader=CCoreLoader),
        "batch": 1,
        "search": {"maximize": ["performance"], "sampler": "exhaustive"},
    }
    assert dse.search(spec).performance.notnull().all()
