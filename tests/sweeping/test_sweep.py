"""Sweeps: labels, axes, chunks, precision, what runs where."""

import json
import warnings

import numpy as np
import pytest
import xarray as xr
import yaml
from yamlcore import CCoreLoader

import dse
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.cli import entry
from dse.model import axis_dependence, grid, jax_devices, piecewise_linear
from dse.model.footprint import peak_activation_bytes
from dse.model.layer_results import evaluate
from dse.networks.layers import LayerArrays, LayerRow
from dse.plot import FIGURES, draw_figure
from dse.sparsity import parse
from dse.sweeping import job, store

AXES = """
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s, steps: 4, scale: log}
  units.tensor.runs.sparse_24.pattern: ["2:4", "1:2"]
  units.tensor.peak.fp16: [100 TFLOP/s, 200 TFLOP/s, 400 TFLOP/s]
"""


@pytest.fixture
def spec_file(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + AXES)
    return path


def problems(path) -> list[str]:
    with pytest.raises(InputError) as caught:
        dse.sweep(path)
    return [str(problem) for problem in caught.value.problems]


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


def test_fits_compares_stored_weights_with_the_outermost_memory(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + "axes:\n  memory.dram.capacity: [30 MB, 60 MB, 100 MB]\n")
    results = dse.sweep(path).isel(accelerator=0, dtype=0, batch=0)
    # dense fp16 weights of the unpruned layers, and 2 x 4096 x 4096 pruned ones
    rest = 2 * (64 * 147 + 1000 * 512)
    sizes = {
        "semi": rest + 2 * 4096**2 * 2 * 0.5625,
        "blocky": rest + 2 * (4096**2 * 2 / 4 + 4 * 4096**2 / 4 / 64 + 4 * (512 + 1)),
    }
    for method, size in sizes.items():
        fits = results.fits.isel(variant=list(results.method.values).index(method))
        assert list(fits.values) == [size <= limit for limit in (30e6, 60e6, 100e6)]


def test_activations_at_the_batch_take_memory_besides_the_weights(folder):
    """`wide` has the largest working set: 2 x 4096 x 512 activations of 2 B a sample; its two repeats run one after the other."""
    path = folder / "small.yaml"
    weights = 2 * (64 * 147 + 1000 * 512) + 2 * 4096**2 * 2 * 0.5625
    exact = [weights + batch * 2 * 2 * 4096 * 512 for batch in (1, 16)]
    path.write_text(path.read_text() + f"axes:\n  memory.dram.capacity: [{exact[0]!r} B, {exact[1] - 1!r} B, {exact[1]!r} B]\n")
    results = dse.sweep(path).isel(accelerator=0, dtype=0)
    fits = results.fits.isel(variant=list(results.method.values).index("semi"))
    np.testing.assert_array_equal(fits, [[True, False], [True, False], [True, True]])
    assert "key-value cache and the largest working set" in results.fits.attrs["long_name"]


def test_a_key_value_cache_takes_memory(folder, edited):
    """Of LLaMA-2 7B: 13.5 GB of weights and, for each sample of 4096 tokens, 32 blocks of 4096 keys and values of 2 B: 2.15 GB."""
    edited("small.yaml", ("./net: {methods: all}", "llama-2-7b: {methods: [dense], inputs: {phase: decode, sequence: [1024, 4096]}}"))
    path = edited("small.yaml", ("[1, 16]", "[1, 2, 4]"))
    path.write_text(path.read_text() + "axes:\n  memory.dram.capacity: [16 GB, 24 GB]\n")
    fits = dse.sweep(path).fits.isel(accelerator=0, dtype=0)
    weights, cache = 2 * 6_738_415_616, 2 * 32 * 2 * 4096 * 4096
    assert weights + cache < 16e9 < weights + 2 * cache  # what a token needs besides is below 1 MB
    np.testing.assert_array_equal(fits.isel({"memory.dram.capacity": 0, "variant": 1}), [True, False, False])
    np.testing.assert_array_equal(fits.isel({"memory.dram.capacity": 0, "variant": 0}), [True, True, True])
    assert fits.isel({"memory.dram.capacity": 1}).all()


def test_a_skip_connection_takes_memory_as_long_as_it_is_needed():
    """While `c` runs, the outputs of `a`, `b` and `c` are needed: three tensors, not the two that `c` moves."""
    rows = [{"name": "a", "reads": "input"}, {"name": "b", "reads": "a"}, {"name": "c", "reads": "b", "adds": "a"}]
    rows = [LayerRow.model_validate(row | {"kind": "gemm", "m": 64, "k": 64, "n": 10}) for row in rows]
    dtype, unknown = OperandDtypes.model_validate("fp16"), [row.model_copy(update={"reads": None, "adds": None}) for row in rows]
    assert peak_activation_bytes(LayerArrays.from_rows(rows), 3, dtype) == 3 * 3 * 64 * 10 * 2
    assert peak_activation_bytes(LayerArrays.from_rows(unknown), 3, dtype) == 3 * 2 * 64 * 10 * 2


def test_weights_fit_where_no_capacity_is_given(folder, edited):
    edited("chip.yaml", ("capacity: 1 GB, ", ""))
    assert dse.sweep(folder / "small.yaml").fits.all()


def test_two_of_one_name_are_refused(folder, edited):
    (folder / "other.yaml").write_text((folder / "chip.yaml").read_text())
    path = edited("small.yaml", ("[./chip.yaml]", "[./chip.yaml, ./other.yaml]"))
    assert problems(path) == [f"{path}:2: accelerators: two are named 'chip'; list it once, or change the 'name' in one of the files"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[1, 16]", "[1, 1]"),
        ("fp16", "[fp16, fp16]"),
        ("methods: all", "methods: [pruned, pruned]"),
        ("[./chip.yaml]", "[./chip.yaml, ./chip.yaml]"),
    ],
)
def test_nothing_is_listed_twice(edited, old, new):
    (problem,) = problems(edited("small.yaml", (old, new)))
    assert "is listed twice; list it once" in problem


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
    with pytest.warns(dse.ModelWarning, match="has no enabled run for 'unstructured'"):
        results = dse.sweep(path).isel(accelerator=0, dtype=0, batch=1, variant=0).latency
    on, off = results.sel({f"{run}.enabled": True}), results.sel({f"{run}.enabled": False})
    assert on[0] > on[1]
    assert off[0] == off[1]


def test_a_gain_that_the_description_leaves_open_can_be_swept(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + "axes:\n  units.tensor.runs.blocks.gain: [1, 2, 100]\n")
    blocky = dse.sweep(path).latency.isel(accelerator=0, dtype=0, batch=1, variant=3)
    assert blocky[0] > blocky[1] > blocky[2]


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


# --- bad sweeps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("dtype: fp16", "dtype: fp64", 6, "dtype: 'chip' has no unit that computes in 'fp64'; use one of fp16, fp32, int8, or give a unit a peak for 'fp64'"),
        ("dtype: fp16", "dtype: float16", 6, "dtype: unknown dtype 'float16'; did you mean 'fp16'?"),
        ("batch: [1, 16]", "batch: 0", 5, "batch: 0 is out of range; write a number of at least 1"),
        ("./chip.yaml", "chp.yaml", 2, "accelerators.0: '{folder}/chp.yaml' does not exist; did you mean 'chip.yaml'?"),
        ("./chip.yaml", "a100-sxm4", 2, "accelerators.0: 'a100-sxm4' is not an accelerator of the catalogue; did you mean 'a100-sxm4-40gb' or 'a100-sxm4-80gb'? (a path needs a '/' or an ending)"),
        ("methods: all", "methods: [prune]", 4, "workloads../net.methods.0: 'net' has no method 'prune'; did you mean 'pruned'?"),
        ("methods: all", "sparsities: [0.77]", 4, "workloads../net.sparsities: no selected method of 'net' has sparsity 0.77; write one of 0.5, 0.75, 0.9"),
        ("dtype: fp16", "dtype: fp16\nplots: [roof]", 7, "plots.0: 'roof' is not known here; write one of 'sparsity_roofline', 'speedup', 'axis', 'pareto', 'roofline', 'layers', 'capacity', 'efficiency' or 'inputs'"),
        ("dtype: fp16", "dtype: fp16\nplots: [speedup]\nstore: {variables: [latency]}", 8, "store.variables: the figure 'speedup' needs 'speedup'; add it"),
        ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwith: [1 TB/s]}", 7, "axes.memory.dram.bandwith: 'chip' has no 'memory.dram.bandwith'; did you mean 'memory.dram.bandwidth'?"),
        ("dtype: fp16", "dtype: fp16\naxes: {units.tensor.peak.fp8: [1 TFLOP/s]}", 7, "axes.units.tensor.peak.fp8: 'chip' has no 'units.tensor.peak.fp8'; did you mean 'units.tensor.peak.fp16'?"),
        ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwidth: [1 TB/s, -2 TB/s]}", 7, "axes.memory.dram.bandwidth: '-2 TB/s' is not positive and finite; write a number above 0, as in '2039 GB/s'"),
        ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwidth: {from: 1 TB/s, to: 2 TB/s, steps: 1}}", 7, "axes.memory.dram.bandwidth.steps: 1 is out of range; write a number of at least 2"),
        ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwidth: [1 TB/s, 1000 GB/s]}", 7, "axes.memory.dram.bandwidth: 'memory.dram.bandwidth' takes a value twice; give different values"),
        ("dtype: fp16", "dtype: fp16\naxes: {units.tensor.runs.sparse_24.pattern: {from: 2:4, to: 1:4, steps: 2}}", 7, "axes.units.tensor.runs.sparse_24.pattern: 'units.tensor.runs.sparse_24.pattern' is not a number; write a list of values, as in '[true, false]'"),
        ("dtype: fp16", "dtype: fp16\nstore: {variables: [speed]}", 7, "store.variables.0: 'speed' is not known here; write one of 'latency', 'dense_latency', 'speedup', 'bound_share', 'execution_share', 'fits', 'footprint', 'largest_batch', 'time_to_first_token', 'time_per_output_token', 'tokens_per_s', 'area', 'power', 'energy', 'edp', 'performance_per_area', 'performance_per_watt', 'average_power', 'power_limited_latency', 'cost_usd', 'energy_per_token' or 'tokens_per_s_per_watt'"),
        ("dtype: fp16", "dtype: fp16\nmodel: {fidelity: slow}", 7, "model.fidelity: 'slow' is not known here; write one of 'sol', 'r3', 'capacity' or 'calibrated'"),
    ],
)  # fmt: skip
def test_one_mistake_in_a_sweep(edited, folder, old, new, line, expected):
    path = edited("small.yaml", (old, new))
    assert problems(path) == [f"{path}:{line}: " + expected.replace("{folder}", str(folder))]


def test_problems_of_all_files_of_a_sweep_are_reported_at_once(edited, folder):
    edited("chip.yaml", ("1 TB/s", "1"))
    edited("net/layers.csv", ("wide,gemm,4096", "wide,gem,4096"))
    path = edited("small.yaml", ("[./chip.yaml]", "[./chip.yaml, nothing]"))
    texts = problems(path)
    assert [text.split(":")[0].removeprefix(f"{folder}/") for text in texts] == ["chip.yaml", "net/layers.csv", "small.yaml"]


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


def test_a_figure_that_cannot_be_drawn_ends_none_of_the_others(folder, edited, capsys, monkeypatch):
    """All files are printed, and what was not drawn is named with its reason."""
    edited("small.yaml", ("dtype: fp16", "dtype: fp16\nplots: [speedup, layers, roofline]"))

    def undrawable(*_, **__):
        raise InputError("there is nothing to draw", "draw another")

    monkeypatch.setitem(FIGURES, "layers", undrawable)
    monkeypatch.chdir(folder)
    assert entry.main(["sweep", "small.yaml"]) == 1
    printed = capsys.readouterr()
    assert printed.out.split() == [f"small/{name}" for name in ("results.nc", "speedup.png", "speedup.csv", "roofline.png", "roofline.csv")]
    assert "layers was not drawn: there is nothing to draw; draw another" in printed.err
    assert all((folder / file).exists() for file in printed.out.split())
    assert entry.main(["plot", "small/results.nc"]) == 1
    assert "small/roofline.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "selection", "axes", "message"),
    [
        ("capacity", "{methods: all}", "axes: {memory.l2.capacity: [1 MB, 2 MB], memory.dram.capacity: [1 GB, 2 GB]}", "not 2"),
        ("capacity", "{methods: [dense]}", "axes: {memory.l2.capacity: [1 MB, 2 MB]}", "needs a pruned variant"),
    ],
)
def test_the_needs_of_a_figure_are_checked_before_the_sweep(folder, edited, kind, selection, axes, message):
    edited("small.yaml", ("{methods: all}", selection), ("dtype: fp16", f"dtype: fp16\nplots: [{kind}]\n{axes}"))
    assert any(f"the figure '{kind}'" in problem and message in problem for problem in problems(folder / "small.yaml"))
