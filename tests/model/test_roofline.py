"""Hand-computed cases and published oracles."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dse
from dse.model.evaluate import evaluate
from dse.model.roofline import four_norm
from dse.networks.layers import LayerArrays, LayerRow
from dse.sparsity.grammar import parse
from dse.workload import Variant
from tests import oracle


def one_layer(m: float, k: float, n: float, pattern: str = "unstructured", density: float = 1.0, **more) -> Variant:
    layers = LayerArrays.from_rows([LayerRow.model_validate({"name": "layer", "kind": "gemm", "m": m, "k": k, "n": n, **more})])
    return Variant("one", layers, "made", parse(pattern), 1 - density, np.array([density]))


def only(dataset, name):
    return dataset[name].item()


@pytest.mark.parametrize(("n", "bound"), [(90, "dram"), (100, "tensor"), (110, "tensor")])
def test_below_at_and_above_the_ridge(chip, n, bound):
    """100 TFLOP/s and 1 TB/s meet at 100 FLOP/B; inputs and outputs are made negligible, so intensity is n FLOP/B."""
    variant = one_layer(1e4, 1e4, n, input_elements=1e-9, output_elements=1e-9)
    layers = evaluate(chip, variant)
    flops, moved = 2 * 1e8 * n, 2e8
    assert only(layers, "latency") == pytest.approx(max(flops / 100e12, moved / 1e12), rel=1e-12)
    assert only(layers, "bytes") == pytest.approx(moved, rel=1e-12)
    assert only(layers, "dense_flops") == flops
    assert only(layers, "bound") == bound


def test_2_4_runs_at_twice_the_peak_and_moves_0_5625_of_the_weights(chip):
    layers = evaluate(chip, one_layer(4096, 4096, 4096, "2:4", 0.5))
    assert only(layers, "execution") == "tensor.sparse_24"
    assert only(layers, "latency") == pytest.approx(2 * 4096**3 / 200e12)
    assert only(layers, "bytes") == pytest.approx(4096**2 * 2 * (0.5625 + 2))


def test_a_sparser_pattern_on_today_s_hardware_keeps_gain_2_and_gets_more_once_listed(chip, edited):
    """1:8 runs as 2:4 until a unit lists it: the question this package is for."""
    variant = one_layer(4096, 4096, 65536, "1:8", 1 / 8)
    today = evaluate(chip, variant)
    assert only(today, "execution") == "tensor.sparse_24"
    path = edited("chip.yaml", ("sparse_24:", "native: {pattern: 1:8, gain: 8}\n      sparse_24:"))
    tomorrow = evaluate(dse.load_accelerator(path), variant)
    assert only(tomorrow, "execution") == "tensor.native"
    assert only(today, "latency") / only(tomorrow, "latency") == pytest.approx(4)


def test_the_gain_is_the_smaller_of_cap_and_reduction(edited):
    """A run of 1:8 capped at gain 3 takes dense / 3, one capped at 20 dense / 8."""
    for cap, gain in ((3, 3), (20, 8)):
        path = edited("chip.yaml", ("sparse_24: {pattern: 2:4, gain: 2}", f"sparse_24: {{pattern: 1:8, gain: {cap}}}"))
        layers = evaluate(dse.load_accelerator(path), one_layer(4096, 4096, 65536, "1:8", 1 / 8))
        assert only(layers, "latency") == pytest.approx(2 * 4096**2 * 65536 / (100e12 * gain))
        edited("chip.yaml", (f"sparse_24: {{pattern: 1:8, gain: {cap}}}", "sparse_24: {pattern: 2:4, gain: 2}"))


def test_without_a_run_for_its_pattern_a_layer_runs_dense(edited):
    path = edited("chip.yaml", ("pattern: unstructured,", "enabled: false, pattern: unstructured,"))
    variant = one_layer(512, 512, 512, "unstructured", 0.1)
    layers = evaluate(dse.load_accelerator(path), variant)
    assert only(layers, "execution") == "tensor.dense"


def test_counts_beyond_2_to_the_31_are_exact(chip):
    """2**47 multiply-adds, which wrap around in 32 and are not even in float32."""
    side = 2**15 + 1
    layers = evaluate(chip, one_layer(side, side, side))
    assert only(layers, "dense_flops") == 2 * side**3
    assert only(layers, "latency") == 2 * side**3 / 100e12


def test_im2col_reads_a_convolution_s_unrolled_matrix(chip):
    variant = one_layer(64, 576, 3136, kind="conv", input_elements=64 * 3136, groups=1)
    read = {way: only(evaluate(chip, variant, activations=way), "bytes") for way in ("implicit", "im2col")}
    assert read["im2col"] - read["implicit"] == 2 * (576 - 64) * 3136


def test_mixed_dtypes_are_counted_each(chip):
    layers = evaluate(
        chip, one_layer(100, 200, 300), dtype={"weights": "int4", "activations": "int8", "outputs": "fp32", "compute": "fp16"}
    )
    assert only(layers, "bytes") == 100 * 200 / 2 + 200 * 300 + 4 * 100 * 300


# --- published figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "unit", "dtype", "ridge"),
    [
        ("a100-sxm4-40gb", "cuda_core", "fp32", 12.5),
        ("a100-sxm4-40gb", "tensor_core", "tf32", 100.3),
        ("a100-sxm4-40gb", "tensor_core", "fp16", 200.6),
        ("h100-sxm5-80gb", "tensor_core", "fp16", 295.2),
    ],
)
def test_ridge_points(device, unit, dtype, ridge):
    """Peak over bandwidth of the data sheets: A100 1.555 TB/s, H100 SXM 3.35 TB/s."""
    accelerator = dse.load_accelerator(device)
    found = accelerator.value(f"units.{unit}.peak.{dtype}") / accelerator.value("memory.dram.bandwidth")
    assert found == pytest.approx(ridge, rel=3e-3)  # printed to three digits


@pytest.mark.parametrize(
    ("side", "dtype", "ceiling"), [(512, "fp16", 1.28), (1024, "fp16", 2.55), (4096, "fp16", 10.2), (512, "fp32", 10.2)]
)
def test_the_speedup_ceiling_does_not_depend_on_sparsity(side, dtype, ceiling):
    """Large n, almost everything pruned: S = 2 m k / (s (m + k) ridge), activations alone are moved, needed or not."""
    accelerator = dse.load_accelerator("a100-sxm4-40gb")
    dense, sparse = one_layer(side, side, 1e9), one_layer(side, side, 1e9, "unstructured", 1e-6)
    times = [only(evaluate(accelerator, v, dtype=dtype, inputs="all"), "latency") for v in (dense, sparse)]
    assert times[0] / times[1] == pytest.approx(ceiling, rel=5e-3)


# ResNet-50, DLMC magnitude masks, A100 at 1.555 TB/s, batch 1 and 256: fp32 on CUDA cores with 32-bit CSR; fp16
# dense on tensor cores against 16-bit CSR on CUDA cores; fp16 tensor cores with 16 x 16 blocks at equal density.
# The figures count a convolution's input as C_in x its output pixels, which under-counts strided layers, and every input, needed
# or not: `inputs: all`.
COLUMNS = {
    0.5: ((1.94, 2.00), (0.85, 0.64), (1.42, 1.25)),
    0.8: ((4.16, 4.35), (1.46, 1.10), (1.86, 1.37)),
    0.9: ((5.92, 6.35), (1.85, 1.30), (2.07, 1.39)),
    0.98: ((7.77, 8.02), (2.21, 1.39), (2.27, 1.39)),
}
# The same with each layer's own input, as shipped.
PROPER = {
    0.5: ((1.94, 2.00), (0.87, 0.65), (1.40, 1.22)),
    0.8: ((4.10, 4.30), (1.45, 1.09), (1.80, 1.31)),
    0.9: ((5.68, 6.15), (1.79, 1.25), (1.99, 1.32)),
    0.98: ((7.23, 7.46), (2.12, 1.32), (2.17, 1.32)),
}


def resnet_speedups(sparsity: float, as_output_pixels: bool, inputs: str = "all") -> list[tuple[float, float]]:
    resnet, a100 = dse.load_workload("resnet50"), dse.load_accelerator("a100-sxm4-40gb")
    narrow = a100.replace({"units.cuda_core.runs.csr.format.index": "16 bit"})
    layers = _counted_as_output_pixels(resnet.layers) if as_output_pixels else resnet.layers
    pruned = dataclasses.replace(resnet.variant("magnitude_pruning", sparsity), layers=layers)
    dense = dataclasses.replace(resnet.dense, layers=layers)
    blocks = dataclasses.replace(pruned, pattern=parse("block:16x16"))
    cases = ((a100, pruned, "fp32"), (narrow, pruned, "fp16"), (a100, blocks, "fp16"))

    def speedup(accelerator, variant, dtype, batch):
        before, after = (float(evaluate(accelerator, v, batch, dtype, inputs=inputs).latency.sum()) for v in (dense, variant))
        return before / after

    return [tuple(speedup(*case, batch) for batch in (1, 256)) for case in cases]


def oracle_speedups(sparsity: float) -> list[tuple[float, ...]]:
    """The three columns by plain loops over the shipped tables, the A100's numbers written out."""
    resnet = dse.load_workload("resnet50")
    columns = zip(*(getattr(resnet.layers, key) for key in ("kind", "m", "k", "n", "count", "groups", "input_elements")), strict=True)
    layers = [dict(zip(("kind", "m", "k", "n", "count", "groups", "inputs"), row, strict=True)) for row in columns]
    tensor = {"peak": {"fp16": 312e12}, "runs": [{"pattern": "block:16x16*"}]}
    cuda = {"peak": {"fp16": 77.97e12, "fp32": 19.49e12}, "runs": [{"pattern": "unstructured"}]}
    narrow = cuda | {"runs": [{"pattern": "unstructured", "index": 16}]}
    found = []
    for units, pattern, dtype in ((cuda, "unstructured", "fp32"), (narrow, "unstructured", "fp16"), (cuda, "block:16x16", "fp16")):
        chip = {"units": {"tensor": tensor, "cuda": units}, "bandwidth": 1555e9}
        densities = list(resnet.variant("magnitude_pruning", sparsity).density)
        times = [[oracle.latency(chip, layers, pattern, d, batch, dtype) for batch in (1, 256)] for d in ([1.0] * 54, densities)]
        found.append(tuple(dense / sparse for dense, sparse in zip(*times, strict=True)))
    return found


def _counted_as_output_pixels(layers: LayerArrays) -> LayerArrays:
    taps = np.where([name.startswith("bottleneck_2") for name in layers.name], 9, np.where(np.array(layers.name) == "initial_conv", 49, 1))
    return dataclasses.replace(layers, input_elements=np.where(layers.kind == "conv", layers.k / taps * layers.n, layers.input_elements))


@pytest.mark.parametrize("sparsity", COLUMNS)
def test_the_three_resnet_columns_within_2_percent(sparsity):
    np.testing.assert_allclose(resnet_speedups(sparsity, as_output_pixels=True), COLUMNS[sparsity], rtol=0.02)


@pytest.mark.parametrize("sparsity", PROPER)
def test_properly_counted_inputs_lower_the_speedup(sparsity):
    """More activations are moved by dense and sparse alike, so the gain shrinks where it came from bytes or FLOPs."""
    found = resnet_speedups(sparsity, as_output_pixels=False)
    np.testing.assert_allclose(resnet_speedups(sparsity, False, "needed"), oracle_speedups(sparsity), rtol=1e-9)
    np.testing.assert_allclose(found, PROPER[sparsity], atol=0.0051)  # printed to two digits
    np.testing.assert_allclose(found, COLUMNS[sparsity], rtol=0.08)


# --- R3 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dense_peak", "sparse_efficiency", "break_even"), [(125.3, 0.212, 0.96), (15.67, 0.24, 0.64)])
def test_r3_breaks_even_where_gale_says(tmp_path, dense_peak, sparse_efficiency, break_even):
    """Gale 2022, V100: compute-bound SpMM passes GEMM at s* = 1 - P_s E_s / (P_d E_d); E_d = 2/3, P_s = 15.67 TFLOP/s."""
    path = tmp_path / "v100.yaml"
    path.write_text(f"""
name: v100
source: Gale 2022
units:
  dense_unit:
    peak: {{fp16: {dense_peak} TFLOP/s}}
    runs: {{dense: {{pattern: dense, efficiency: {2 / 3}}}}}
  sparse_unit:
    peak: {{fp16: 15.67 TFLOP/s}}
    runs: {{dense: {{pattern: dense, efficiency: 0.001}}, csr: {{pattern: unstructured, efficiency: {sparse_efficiency}}}}}
memory: {{dram: {{bandwidth: 900 TB/s}}}}
""")
    v100 = dse.load_accelerator(path)
    predicted = 1 - 15.67 * sparse_efficiency / (dense_peak * 2 / 3)
    assert predicted == pytest.approx(break_even, abs=0.005)
    variants = (one_layer(4096, 4096, 4096), one_layer(4096, 4096, 4096, "unstructured", 1 - predicted))
    dense, sparse = (only(evaluate(v100, v, fidelity="r3"), "latency") for v in variants)
    assert sparse == pytest.approx(dense, rel=1e-9)


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 2e-15), (np.float32, 1e-6)])
def test_the_4_norm_is_exact_at_any_scale(dtype, error):
    """Compared with extended precision; far apart the norm is the larger time, and 2^(1/4) of it where both are equal."""
    random = np.random.default_rng(0)
    a = np.exp(random.uniform(np.log(1e-28), np.log(1e28), 10_000)).astype(dtype)
    b = np.concatenate([a[:5000] * random.uniform(0.1, 10, 5000), random.permutation(a[5000:])]).astype(dtype)
    exact = (a.astype(np.longdouble) ** 4 + b.astype(np.longdouble) ** 4) ** np.longdouble(0.25)
    with jax.enable_x64(True):
        assert np.abs(np.asarray(four_norm(jnp.asarray(a), jnp.asarray(b))) / exact - 1).max() < error
        assert float(four_norm(*jnp.zeros((2, 1), dtype))[0]) == 0
        assert float(four_norm(*jnp.array([[0], [3]], dtype))[0]) == pytest.approx(3, rel=error)
        gradient = jax.grad(lambda x: four_norm(x, jnp.asarray(2.0, dtype)))(jnp.asarray(3.0, dtype))
    assert float(gradient) == pytest.approx((3 / (3**4 + 2**4) ** 0.25) ** 3, rel=error)
