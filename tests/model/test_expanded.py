"""Expanded executions: their FLOPs and bytes by hand, when they are chosen, and what was measured of them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.base.errors import InputError
from dse.base.input_file import read_rows
from dse.calibrate.tables.measurement import Measurement
from dse.networks.layers import LayerArrays, LayerRow
from dse.schema.accelerator import Accelerator
from dse.sparsity.grammar import parse
from dse.workload import Variant

SILICON = Path(__file__).parents[3] / "shared" / "data" / "silicon"
M, K, N = 256, 384, 128
PEAK, BANDWIDTH = 1e12, 1e15  # bound by compute, unless a test says otherwise
EXPANDED = "u.sparse_24_expanded"


def chip(
    expanded: str = "in_memory", pattern: str = "2:4", gain: float | None = 2, bandwidth: float = BANDWIDTH, **more: Any
) -> dict[str, Any]:
    run = {"pattern": pattern, "expanded": expanded} | ({} if gain is None else {"gain": gain})
    memory = {"dram": {"capacity": "1 GB", "bandwidth": f"{bandwidth} B/s"}}
    units: dict[str, Any] = {"u": {"peak": {"fp16": f"{PEAK} FLOP/s"}, "runs": {"sparse_24": run}}}
    return {"name": "chip", "source": "a test", "units": units, "memory": memory} | more


def network(pattern: str, m: int = M, k: int = K, n: int = N, density: float | None = None) -> Variant:
    layers = LayerArrays.from_rows([LayerRow(name="fc", kind="gemm", m=m, k=k, n=n)])
    density = parse(pattern).density if density is None else density
    assert density is not None
    return Variant("net", layers, "test", parse(pattern), 1 - density, np.array([density]))


def run(accelerator: Mapping[str, Any] | Accelerator, variant: Variant, **options: Any):
    return dse.evaluate(accelerator, variant, dtype="fp16", **options).isel(layer=0)


def test_work_of_4_6_as_expanded_2_4_by_hand():
    """K' = 4/3 K columns, half of them stored with 2 bits each; the pass reads B and writes B', the kernel reads B'."""
    in_memory, on_chip = (run(chip(expanded), network("4:6")) for expanded in ("in_memory", "on_chip"))
    wide = K * 4 // 3
    weights, metadata = M * wide // 2, 2 * M * wide // 2
    assert in_memory.execution == on_chip.execution == EXPANDED
    assert in_memory.flops == on_chip.flops == 2 * M * wide * N / 2
    assert in_memory.latency == on_chip.latency == pytest.approx(2 * M * K * N / 1.5 / PEAK)
    assert in_memory.bytes == pytest.approx(2 * weights + metadata / 8 + 2 * (K * N + wide * N + wide * N) + 2 * M * N)
    assert on_chip.bytes == pytest.approx(2 * weights + metadata / 8 + 2 * K * N + 2 * M * N)


@pytest.mark.parametrize(("pattern", "speedup"), [("4:6", 3 / 2), ("6:8", 4 / 3), ("8:10", 5 / 4), ("14:16", 8 / 7), ("5:8", 4 / 3)])
def test_speedup_where_compute_bound_is_two_over_the_expansion(pattern, speedup):
    k = 3 * 5 * 16  # a multiple of every group
    result = run(chip(), network(pattern, k=k))
    assert 2 * M * k * N / PEAK / result.latency == pytest.approx(speedup)


@pytest.mark.parametrize(
    ("unit", "gain", "pattern", "speedup"), [("1:4", 4, "2:5", 5 / 2), ("1:4", None, "3:6", 2), ("2:8", 3, "4:10", 15 / 8)]
)
def test_other_units(unit, gain, pattern, speedup):
    """The gain of a unit counts from the expanded k: 4:10 at a gain of 3 on 8/5 k."""
    result = run(chip(pattern=unit, gain=gain), network(pattern, k=480))
    assert 2 * M * 480 * N / PEAK / result.latency == pytest.approx(speedup)


@given(st.integers(1, 4000), st.floats(9, 13), st.sampled_from(["4:6", "6:8", "8:10", "12:14"]), st.sampled_from(["in_memory", "on_chip"]))
def test_the_expanded_execution_runs_exactly_when_it_is_the_fastest(n, log_bandwidth, pattern, expanded):
    bandwidth, half = 10**log_bandwidth, int(pattern.split(":")[1]) // 2
    k = 840  # a multiple of every group
    accelerator = chip(expanded, bandwidth=bandwidth)
    result, dense = (run(accelerator, network(p, k=k, n=n)) for p in (pattern, "dense"))
    wide = k * (2 - 2 / half)
    inputs = n * (k + 2 * wide if expanded == "in_memory" else k)
    moved = 2 * (M * wide / 2 + inputs + M * n) + M * wide / 2 / 4
    time = max(M * wide * n / PEAK, moved / bandwidth)
    assert result.latency == pytest.approx(min(time, float(dense.latency)))
    if abs(time / dense.latency - 1) > 1e-9:
        assert (result.execution == EXPANDED) == (time < dense.latency)


def test_it_is_off_unless_the_description_says_so_and_changes_nothing_that_units_run_today():
    assert run(chip("none"), network("6:8")).execution == "u.dense"
    for pattern in ("2:4", "1:4", "2:8", "unstructured", "row"):
        variant = network(pattern, density=0.25 if pattern in ("unstructured", "row") else None)
        with_windows, without = (run(chip(expanded), variant) for expanded in ("on_chip", "none"))
        assert with_windows.drop_vars("rivals").equals(without.drop_vars("rivals"))


def test_the_alternatives_say_why_it_was_not_chosen():
    slow = chip(bandwidth=1e9)
    assert run(slow, network("6:8", n=1)).execution == EXPANDED
    bound_by_inputs = run(slow, network("6:8", m=16, n=4096))
    assert bound_by_inputs.execution == "u.dense"
    assert f"{EXPANDED} " in str(bound_by_inputs.rivals.item())
    assert f"{EXPANDED}: '2:4' fits '2:4' without windows" in str(run(slow, network("2:4")).rivals.item())
    unstructured = run(slow, network("unstructured", density=0.5))
    assert f"{EXPANDED}: windows of '2:4' store no less than all of 'unstructured'" in str(unstructured.rivals.item())


def test_a_mask_that_happens_to_be_6_8_may_run_by_windows():
    variant = network("unstructured", density=0.7)
    assert run(chip(), variant).execution == "u.dense"
    counted = replace(variant, stored_elements={parse("6:8"): np.array([0.75 * M * K])})
    assert run(chip(), counted).latency == pytest.approx(0.75 * 2 * M * K * N / PEAK)


def test_matrices_narrower_than_a_group_run_dense():
    """A group of 8 columns has 6 places: more than 5 columns."""
    assert run(chip(), network("6:8", k=5)).execution == "u.dense"
    assert run(chip(), network("6:8", k=13)).flops == 2 * M * 12 * N


@pytest.mark.parametrize("expanded", ["in_memory", "on_chip"])
@pytest.mark.parametrize("capacity", ["30 kB", "200 kB", "2 MB"])
def test_bounds_and_attainable_figures_keep_their_order(expanded, capacity):
    memory = {"dram": {"bandwidth": "1 GB/s"}, "l2": {"capacity": capacity}}
    accelerator = chip(expanded) | {"memory": memory}
    variant = network("6:8", m=512, k=768, n=512)
    result = run(accelerator, variant, fidelity="capacity")
    assert result.execution == EXPANDED or expanded == "in_memory"
    assert run(accelerator, variant).latency * (1 - 1e-12) <= result.latency_bound <= result.latency


def test_a_pass_adds_its_bytes_to_those_of_a_kernel_on_the_wide_matrix():
    """Whatever the capacity: 6:8 over k moves what 2:4 over 3/2 k does, and what the pass reads and writes."""
    m, k, n = 512, 768, 64
    for capacity in ("3 kB", "30 kB", "300 kB", "3 MB"):
        memory = {"dram": {"bandwidth": "1 PB/s"}, "l2": {"capacity": capacity}}
        accelerator = chip("in_memory") | {"memory": memory}
        expanded, kernel = (run(accelerator, network(p, m, c, n), fidelity="capacity") for p, c in (("6:8", k), ("2:4", k * 3 // 2)))
        assert (expanded.execution, kernel.execution) == (EXPANDED, "u.sparse_24")
        assert expanded.bytes - kernel.bytes == pytest.approx(2 * n * (k + k * 3 // 2))
        assert expanded.bytes_bound - kernel.bytes_bound == pytest.approx(2 * n * (k + k * 3 // 2))


def test_layers_are_not_fused_across_a_pass():
    memory = {"memory": {"dram": {"bandwidth": "1 PB/s"}, "l2": {"capacity": "1 MB"}}}
    in_memory, on_chip = (chip(expanded) | memory for expanded in ("in_memory", "on_chip"))
    assert run(in_memory, network("6:8"), fidelity="capacity").execution == EXPANDED
    assert run(in_memory, network("6:8"), fidelity="capacity", fusion="fitting").execution == "u.dense"
    assert run(on_chip, network("6:8"), fidelity="capacity", fusion="fitting").execution == EXPANDED


@pytest.fixture
def workload(tmp_path):
    """A network of one linear layer."""
    (tmp_path / "net").mkdir()
    description = "name: net\ntask: a test\nmetric: {name: accuracy, direction: higher}\nsources: [a test]\n"
    (tmp_path / "net" / "workload.yaml").write_text(description)
    (tmp_path / "net" / "layers.csv").write_text(f"name,kind,m,k,n\nfc,gemm,{M},{K},{N}\n")
    return str(tmp_path / "net")


def sweep_6_8(workload: str, accelerator: Mapping[str, Any] | str, axes: Mapping[str, Any], batch: int = 1):
    selection = {workload: {"patterns": {"list": ["6:8"], "densities": "own"}}}
    spec = {"name": "s", "accelerators": [accelerator], "workloads": selection, "batch": [batch], "dtype": "fp16"}
    results = dse.sweep(spec | {"axes": axes, "model": {"dense_fallback": True}})
    return results.isel(variant=results.method.values == "hypothetical").squeeze()


@pytest.mark.parametrize("expanded", ["on_chip", "in_memory"])
def test_the_footprint_is_that_of_the_execution_that_needs_least(workload, expanded):
    """The weights are as small as 2:4 stores them. Dense is legal too, so that the expanded activations need not fit."""
    needed = 0.75 * M * K * (2 + 2 / 8) + 2 * (K * N + M * N)
    axis = {"memory.dram.capacity": [f"{needed - 1} B", f"{needed} B"]}
    assert list(sweep_6_8(workload, chip(expanded), axis).fits.values) == [False, True]


def test_a_sweep_of_a_network_pruned_to_6_8(workload):
    """BERT-base pruned to 6:8 on an A100: dense without windows; with them at most 4/3 times as fast, most so on chip."""
    axis = {"units.tensor_core.runs.sparse_24.expanded": ["none", "in_memory", "on_chip"]}
    results = sweep_6_8("bert-base", "a100-sxm4-80gb", axis, batch=32)
    none, in_memory, on_chip = results.speedup.values
    assert none == pytest.approx(1)
    assert 1 < in_memory <= on_chip < 4 / 3
    share = results.execution_share.sel(execution="tensor_core.sparse_24_expanded")
    assert share[0] == 0
    assert np.all(share[1:] > 0.5)


def test_a_sweep_equals_evaluating_each_design_alone():
    axes = {
        "units.tensor_core.runs.sparse_24.expanded": ["none", "in_memory", "on_chip"],
        "units.tensor_core.runs.sparse_24.gain": {"from": 1.2, "to": 2, "steps": 3},
        "memory.dram.bandwidth": ["0.5 TB/s", "4 TB/s"],
    }
    results = sweep_6_8("bert-base", "a100-sxm4-80gb", axes, batch=4)
    device, layers = dse.load_accelerator("a100-sxm4-80gb"), dse.load_workload("bert-base").dense.layers
    density = np.where(layers.prunable & (layers.k > 1), 0.75, 1.0)
    variant = Variant("bert-base", layers, "test", parse("6:8"), 0.25, density)
    for expanded in axes["units.tensor_core.runs.sparse_24.expanded"]:
        for bandwidth in (0.5e12, 4e12):
            for gain in (1.2, 1.6, 2.0):
                numbers = {"units.tensor_core.runs.sparse_24.gain": gain, "memory.dram.bandwidth": f"{bandwidth} B/s"}
                design = device.replace({"units.tensor_core.runs.sparse_24.expanded": expanded} | numbers)
                alone = dse.evaluate(design, variant, 4, "fp16", dense_fallback=True).latency.sum()
                at = {"units.tensor_core.runs.sparse_24.expanded": expanded, "memory.dram.bandwidth": bandwidth}
                swept = results.latency.sel(at).sel({"units.tensor_core.runs.sparse_24.gain": gain}, method="nearest")
                assert float(swept) == pytest.approx(float(alone), rel=1e-9)


def test_fitted_kernels_of_the_run_are_assumed_after_a_pass_with_a_launch_of_its_own():
    device = dse.load_accelerator("a100-pcie-80gb")
    on_chip, in_memory = (device.replace({"units.tensor_core.runs.sparse_24.expanded": e}) for e in ("on_chip", "in_memory"))
    variant, kernel = network("6:8", 4096, 4096, 8192), network("2:4", 4096, 6144, 8192)
    alone, result, fused = (run(d, v, fidelity="calibrated") for d, v in ((device, kernel), (in_memory, variant), (on_chip, variant)))
    assert str(result.kernel.item()).endswith("(assumed)")
    assert str(result.kernel.item()).split("(")[0] == str(alone.kernel.item()).split("(")[0]
    assert alone.latency < result.latency < 1.1 * alone.latency
    assert fused.latency == pytest.approx(float(alone.latency), rel=0.01)


@pytest.mark.parametrize(
    ("run_", "problem"),
    [
        ({"pattern": "block:16x16", "expanded": "on_chip"}, "'expanded' covers patterns by windows of an N:M, not of 'block:16x16'"),
        ({"pattern": "2:4", "expanded": "on_chip", "zeros": "gated"}, "a run that gates zero weights saves no time by windows"),
        ({"pattern": "2:4", "expanded": "on_chip", "tile": "4x4"}, "a run that skips whole tiles saves no time by windows"),
        ({"pattern": "2:4", "expanded": "yes"}, "'none', 'in_memory' or 'on_chip'"),
    ],
)
def test_runs_that_cannot_be_expanded_are_refused(run_, problem):
    accelerator = chip() | {"units": {"u": {"peak": {"fp16": "1 TFLOP/s"}, "runs": {"r": run_}}}}
    with pytest.raises(InputError, match=problem):
        dse.load_accelerator(accelerator)


def test_a_run_with_the_name_of_an_expanded_execution_is_refused():
    runs = {"r": {"pattern": "2:4", "expanded": "on_chip"}, "r_expanded": {"pattern": "1:4"}}
    with pytest.raises(InputError, match="'r_expanded' names the expanded execution of 'r'"):
        dse.load_accelerator(chip() | {"units": {"u": {"peak": {"fp16": "1 TFLOP/s"}, "runs": runs}}})


@pytest.mark.skipif(not SILICON.exists(), reason="published measurements are not available")
@pytest.mark.parametrize(("pattern", "ideal"), [("2:4", 2.0), ("4:6", 3 / 2), ("6:8", 4 / 3), ("8:10", 5 / 4)])
def test_calibrated_speedups_of_expanded_kernels_are_those_measured(pattern, ideal):
    """Large fp16 GEMMs on an A100 PCIe: dense at k over 2:4 at the expanded k, without the pass (SlideSparse, arXiv 2603.05232)."""
    rows = {(r.m, r.k, r.n): r for _, r in read_rows(SILICON / "a100-pcie-80gb_2to4.csv", Measurement) if str(r.dtype) == "fp16"}
    device = dse.load_accelerator("a100-pcie-80gb").replace({"units.tensor_core.runs.sparse_24.expanded": "on_chip"})
    group = int(pattern.split(":")[1])
    wide_k = {k: k if pattern == "2:4" else -(-k // group) * (group - 2) * 2 for _, k, _ in rows}
    pairs = [(row, rows.get((m, wide_k[k], n))) for (m, k, n), row in rows.items() if n >= 8192 and m * k >= 2**22]
    pairs = [(row, wide) for row, wide in pairs if row.dense_ms is not None and wide is not None]
    layers = LayerArrays.from_rows([LayerRow(name=str(i), kind="gemm", m=r.m, k=r.k, n=r.n) for i, (r, _) in enumerate(pairs)])
    dense, sparse = (
        dse.evaluate(device, Variant("net", layers, "test", parse(p), 0.5, np.full(len(pairs), parse(p).density)), fidelity="calibrated")
        for p in ("dense", pattern)
    )
    measured = np.array([row.dense_ms / wide.time_ms for row, wide in pairs])
    predicted = (dense.latency / sparse.latency).to_numpy()
    assert len(measured) >= 18
    assert np.median(measured) < ideal
    assert np.median(predicted) == pytest.approx(np.median(measured), rel=0.06)
