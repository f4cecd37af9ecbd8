"""Executions without a measured kernel: they win by their work and rates only, not because they are idealised, and are labelled."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dse
from dse.calibrate.efficiency_ratios import compute_ratios, shipped_ratios
from dse.calibrate.tables.measurement_set import load_measurements
from dse.model.efficiency.efficiency_file import shipped_kernels
from dse.model.efficiency.kernels import unmeasured_patterns
from dse.model.efficiency.kernels.selection import BETWEEN_HEIGHTS
from dse.networks.layers import LayerArrays, LayerRow
from dse.sparsity.grammar import parse
from dse.workload import Variant

UNSHIPPED = Path(__file__).parents[5] / "shared" / "data" / "measured" / "nm_spmm_fp32_a100_rtx3090.csv"
RTX3090 = dse.load_accelerator("rtx3090")
KERNELS = shipped_kernels()


def with_run(tmp_path, run):
    """An RTX 3090 whose tensor cores list one more run."""
    text = RTX3090.document.text.replace("    runs:\n", f"    runs:\n      more: {run}\n", 1)
    (tmp_path / "more.yaml").write_text(text)
    return dse.load_accelerator(tmp_path / "more.yaml")


def one_layer(m, k, n, pattern, density):
    layers = LayerArrays.from_rows([LayerRow.model_validate({"name": "l", "kind": "gemm", "m": m, "k": k, "n": n})])
    return Variant("network", layers, "method", parse(pattern), 1 - density, np.array([density]))


@pytest.fixture(scope="module")
def devices_with_one_more_run(tmp_path_factory):
    runs = ("{pattern: unstructured, format: {kind: csr}}", "{pattern: 'block:1x4*', format: {kind: bsr}}", "{pattern: 2:8, gain: 2}")
    return [with_run(tmp_path_factory.mktemp("more"), run) for run in runs]


sizes = st.sampled_from([16, 64, 256, 768, 1000, 4096, 12288])


@settings(max_examples=15)
@given(sizes, sizes, sizes, st.integers(0, 2))
def test_an_unmeasured_run_does_not_beat_the_measured_kernel(devices_with_one_more_run, m, k, n, which):
    """2:4 at the same rate: at the speed of light the runs are no faster, so they could only win because they are idealised.

    Small layers run as CSR, which was measured too.
    """
    variant = one_layer(m, k, n, "2:4", 0.5)
    before, after = (dse.evaluate(device, variant, fidelity="calibrated") for device in (RTX3090, devices_with_one_more_run[which]))
    assert after.kernel.item() == before.kernel.item()
    assert after.kernel.item().endswith("(measured)")
    assert after.latency.item() == before.latency.item()


def test_faster_hardware_still_wins(tmp_path):
    """A 1:8 run with a gain of 8 next to the measured 2:4: an assumed kernel, no more efficient, with a quarter of the work."""
    device, variant = with_run(tmp_path, "{pattern: 1:8, gain: 8}"), one_layer(4096, 4096, 4096, "1:8", 0.125)
    before, after = (dse.evaluate(each, variant, fidelity="calibrated") for each in (RTX3090, device))
    assert after.execution.item() == "tensor_core.more"
    assert after.kernel.item().endswith("(assumed)")
    assert 2 < before.latency.item() / after.latency.item() < 4.5


@pytest.mark.parametrize(
    ("pattern", "density", "expected"),
    [
        ("64:2:8", 0.25, "rtx3090 Spatha V=64 *:4 fp16 (measured)"),
        ("128:2:8", 0.25, "rtx3090 Spatha V=128 *:4 fp16 (measured)"),
        ("32:2:8", 0.25, "Spatha V=64 *:4 fp16 of rtx3090 (assumed)"),
        ("256:2:8", 0.25, "Spatha V=128 *:4 fp16 of rtx3090 (assumed)"),
    ],
)
def test_a_kernel_of_another_height_is_assumed(pattern, density, expected):
    result = dse.evaluate(RTX3090, one_layer(4096, 4096, 4096, pattern, density), fidelity="calibrated")
    assert result.kernel.item() == expected
    width = np.log(result.latency_high.item() / result.latency_low.item())
    assert (width > 2 * BETWEEN_HEIGHTS) == expected.endswith("(assumed)")


def test_a_kernel_of_the_same_height_is_transferred():
    result = dse.evaluate("a100-sxm4-80gb", one_layer(4096, 4096, 4096, "64:2:8", 0.25), fidelity="calibrated")
    assert result.kernel.item().endswith("(transferred)")  # Spatha of the RTX 3090


def test_a_dense_substitute_has_the_measured_efficiency_ratio_of_blocks():
    device = dse.load_accelerator("h100-sxm5-80gb")  # without kernels of its own: both are predicted by one population
    blocks = dse.evaluate(device, one_layer(16384, 16384, 4096, "block:32x32", 0.125), fidelity="calibrated")
    dense = dse.evaluate(device, one_layer(16384, 2048, 4096, "dense", 1.0), fidelity="calibrated")
    assert blocks.latency.item() * unmeasured_patterns.BLOCK_RATIOS[32] == pytest.approx(dense.latency.item(), rel=0.05)


def test_kernels_of_other_heights_differ_as_stated():
    """Shares of the speed of light, of V:N:M with V of 1 (2:4), 64 and 128, and of vectors of 2, 4 and 8."""
    efficiencies = {
        (kernel.kernel, max(kernel.heights)): kernel.constant for kernel in KERNELS if kernel.device == "rtx3090" and kernel.heights
    }
    groups = (
        (("cuSPARSELt", 1), ("Spatha V=64", 64), ("Spatha V=128", 128)),
        (("CLASP", 2), ("CLASP", 4), ("CLASP", 8)),
    )
    off = [np.log(efficiencies[a] / efficiencies[b]) for group in groups for n, a in enumerate(group) for b in group[:n]]
    assert np.sqrt(np.mean(np.square(off))) == pytest.approx(BETWEEN_HEIGHTS, rel=0.1)


def test_ratios_of_blocks_are_the_measured_ones():
    result = {ratio.kernel.family: ratio.mean for ratio in shipped_ratios()}
    assert [result[f"block:{rows}x1"] for rows in (2, 4, 8)] == [
        pytest.approx(unmeasured_patterns.BLOCK_RATIOS[rows], abs=5e-4) for rows in (2, 4, 8)
    ]
    assert np.log(list(unmeasured_patterns.BLOCK_RATIOS.values())).std(ddof=1) == pytest.approx(
        unmeasured_patterns.BLOCK_LOG_DEVIATION, rel=0.05
    )


@pytest.mark.skipif(not UNSHIPPED.exists(), reason="these measurements may not be shipped, and are not available")
def test_ratios_of_other_patterns_are_the_measured_ones():
    result = [*shipped_ratios(), *compute_ratios(load_measurements(UNSHIPPED))]
    logs = {kind: [np.log(r.mean) for r in result if r.launches > 1 and kind in r.kernel.family] for kind in ("*:", "unstructured")}
    for kind, known in (("*:", unmeasured_patterns.NM_RATIO), ("unstructured", unmeasured_patterns.CSR_RATIO)):
        assert np.exp(np.mean(logs[kind])) == pytest.approx(known.mean, rel=0.01)
        assert np.std(logs[kind], ddof=1 if kind == "unstructured" else 0) == pytest.approx(known.log_deviation, rel=0.2)


@pytest.mark.parametrize(
    ("pattern", "height"),
    [("2:4", ("*:4", 1)), ("64:2:8", ("*:4", 64)), ("vector:8", ("vector", 8)), ("block:8x8", None), ("2:8", None), ("dense", None)],
)
def test_heights_of_patterns_by_hand(pattern, height):
    assert unmeasured_patterns.shared_height(parse(pattern)) == height


def test_kernels_of_v_n_m_state_their_measured_heights():
    """Both were measured with 2:4 too, which is V:2:4 for any V."""
    assert {k.kernel: k.heights for k in KERNELS if k.kernel.startswith("Spatha")} == {"Spatha V=64": (1, 64), "Spatha V=128": (1, 128)}
