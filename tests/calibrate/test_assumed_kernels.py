"""Executions that nobody measured: they win by their work and their rates only, never for being idealised, and are labelled."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dse
from dse.calibrate import measured_set, ratios
from dse.model.efficiency import assumed, kernel_selection
from dse.networks.layers import LayerArrays, LayerRow
from dse.sparsity.grammar import parse
from dse.workload import Variant

MORE = Path(__file__).parents[3] / "shared" / "data" / "measured" / "nm_spmm_fp32_a100_rtx3090.csv"
RTX3090 = dse.load_accelerator("rtx3090")
KERNELS = kernel_selection.shipped()


def with_run(tmp_path, run):
    """An RTX 3090 whose tensor cores list one more run."""
    text = RTX3090.document.text.replace("    runs:\n", f"    runs:\n      more: {run}\n", 1)
    (tmp_path / "more.yaml").write_text(text)
    return dse.load_accelerator(tmp_path / "more.yaml")


def layer(m, k, n, pattern, density):
    layers = LayerArrays.from_rows([LayerRow.model_validate({"name": "l", "kind": "gemm", "m": m, "k": k, "n": n})])
    return Variant("made", layers, "made", parse(pattern), 1 - density, np.array([density]))


@pytest.fixture(scope="module")
def listing_more(tmp_path_factory):
    runs = ("{pattern: unstructured, format: {kind: csr}}", "{pattern: 'block:1x4*', format: {kind: bsr}}", "{pattern: 2:8, gain: 2}")
    return [with_run(tmp_path_factory.mktemp("more"), run) for run in runs]


sizes = st.sampled_from([16, 64, 256, 768, 1000, 4096, 12288])


@settings(max_examples=15)
@given(sizes, sizes, sizes, st.integers(0, 2))
def test_listing_a_run_that_nobody_measured_does_not_beat_the_measured_kernel(listing_more, m, k, n, which):
    """2:4 at the same rate: at the speed of light the runs are no faster, so that they would win by being idealised alone.

    Small layers run as CSR, which was measured too.
    """
    state = layer(m, k, n, "2:4", 0.5)
    before, after = (dse.evaluate(device, state, fidelity="calibrated") for device in (RTX3090, listing_more[which]))
    assert after.kernel.item() == before.kernel.item()
    assert after.kernel.item().endswith("(measured)")
    assert after.latency.item() == before.latency.item()


def test_hardware_that_is_faster_still_wins(tmp_path):
    """1:8 by a run of its own with a gain of 8, beside the measured 2:4: an assumed kernel, no better made, of a quarter of the work."""
    device, state = with_run(tmp_path, "{pattern: 1:8, gain: 8}"), layer(4096, 4096, 4096, "1:8", 0.125)
    before, after = (dse.evaluate(one, state, fidelity="calibrated") for one in (RTX3090, device))
    assert after.execution.item() == "tensor_core.more"
    assert after.kernel.item().endswith("(assumed)")
    assert 2 < before.latency.item() / after.latency.item() < 4.5


@pytest.mark.parametrize(
    ("pattern", "density", "told"),
    [
        ("64:2:8", 0.25, "rtx3090 Spatha V=64 *:4 fp16 (measured)"),
        ("128:2:8", 0.25, "rtx3090 Spatha V=128 *:4 fp16 (measured)"),
        ("32:2:8", 0.25, "rtx3090 Spatha V=64 *:4 fp16 (assumed)"),
        ("256:2:8", 0.25, "rtx3090 Spatha V=128 *:4 fp16 (assumed)"),
    ],
)
def test_a_kernel_of_another_height_is_no_measured_one(pattern, density, told):
    found = dse.evaluate(RTX3090, layer(4096, 4096, 4096, pattern, density), fidelity="calibrated")
    assert found.kernel.item() == told
    width = np.log(found.latency_high.item() / found.latency_low.item())
    assert (width > 2 * kernel_selection.BETWEEN_HEIGHTS) == told.endswith("(assumed)")


def test_without_a_kernel_of_its_height_another_devices_2_4_stands_in():
    found = dse.evaluate("a100-sxm4-80gb", layer(4096, 4096, 4096, "64:2:8", 0.25), fidelity="calibrated")
    assert found.kernel.item().endswith("(transferred)")  # Spatha of the RTX 3090


def test_a_stand_in_takes_as_many_times_longer_as_measured_kernels_of_blocks_do():
    device = dse.load_accelerator("a100-sxm4-80gb")
    blocks = dse.evaluate(device, layer(4096, 16384, 4096, "block:32x32", 0.125), fidelity="calibrated")
    dense = dse.evaluate(device, layer(4096, 2048, 4096, "dense", 1.0), fidelity="calibrated")
    assert blocks.latency.item() * assumed.BLOCKS[32] == pytest.approx(dense.latency.item(), rel=0.05)


def test_kernels_of_other_heights_are_as_far_apart_as_stated():
    """Shares of the speed of light, of V:N:M with V of 1 (2:4), 64 and 128, and of vectors of 2, 4 and 8."""
    reached = {(kernel.kernel, max(kernel.heights)): kernel.constant for kernel in KERNELS if kernel.device == "rtx3090" and kernel.heights}
    groups = (
        (("cuSPARSELt", 1), ("Spatha V=64", 64), ("Spatha V=128", 128)),
        (("CLASP", 2), ("CLASP", 4), ("CLASP", 8)),
    )
    off = [np.log(reached[a] / reached[b]) for group in groups for n, a in enumerate(group) for b in group[:n]]
    assert np.sqrt(np.mean(np.square(off))) == pytest.approx(kernel_selection.BETWEEN_HEIGHTS, rel=0.1)


def test_shares_of_blocks_are_those_that_were_measured():
    found = {ratio.kernel.family: ratio.mean for ratio in ratios.shipped()}
    assert [found[f"block:{rows}x1"] for rows in (2, 4, 8)] == [pytest.approx(assumed.BLOCKS[rows], abs=5e-4) for rows in (2, 4, 8)]
    assert np.log(list(assumed.BLOCKS.values())).std(ddof=1) == pytest.approx(assumed.BLOCK_SPREAD, rel=0.05)


@pytest.mark.skipif(not MORE.exists(), reason="these measurements may not be shipped, and are not here")
def test_shares_of_other_kinds_are_those_that_were_measured():
    found = [*ratios.shipped(), *ratios.ratios(measured_set.load(MORE))]
    logs = {kind: [np.log(r.mean) for r in found if r.launches > 1 and kind in r.kernel.family] for kind in ("*:", "unstructured")}
    for kind, known in (("*:", assumed.STRUCTURED), ("unstructured", assumed.SINGLE)):
        assert np.exp(np.mean(logs[kind])) == pytest.approx(known.ratio, rel=0.01)
        assert np.std(logs[kind], ddof=1 if kind == "unstructured" else 0) == pytest.approx(known.spread, rel=0.2)


@pytest.mark.parametrize(
    ("pattern", "height"),
    [("2:4", ("*:4", 1)), ("64:2:8", ("*:4", 64)), ("vector:8", ("vector", 8)), ("block:8x8", None), ("2:8", None), ("dense", None)],
)
def test_heights_of_patterns_by_hand(pattern, height):
    assert assumed.height(parse(pattern)) == height


def test_kernels_of_v_n_m_know_the_heights_that_were_measured():
    """Both were measured with 2:4 too, which is V:2:4 for any V."""
    assert {k.kernel: k.heights for k in KERNELS if k.kernel.startswith("Spatha")} == {"Spatha V=64": (1, 64), "Spatha V=128": (1, 128)}
