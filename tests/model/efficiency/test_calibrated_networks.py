"""The fidelity `calibrated` of single networks: kernels of executions, order of fidelities, launches, intervals of a kernel."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dse
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.model.efficiency.efficiency_file import SHIPPED, load_efficiency_file
from dse.model.efficiency.fitted import select_for_variant
from dse.model.efficiency.kernels.selection import BETWEEN_UNITS
from dse.model.efficiency.kernels.unmeasured_patterns import BLOCK_LOG_DEVIATION, assumed_ratio
from dse.model.network_terms import efficiency_of, network_terms
from dse.sparsity.grammar import parse
from tests.model.efficiency.calibrated_networks import A100, CALIBRATED, H100, KERNELS, RTX3090, gemm, latency, variant
from tests.model.efficiency.kernels.launches import predict_cold_time, unmeasured_launches

ROUNDING = 1 + 1e-9

sizes = st.integers(1, 3000)
gemms = st.fixed_dictionaries({"kind": st.just("gemm"), "m": sizes, "k": sizes, "n": sizes, "count": st.integers(1, 3)})
matmuls = st.fixed_dictionaries({"kind": st.just("matmul"), "m": sizes, "k": sizes, "n": sizes, "count": st.integers(1, 16)})
norms = st.fixed_dictionaries({"kind": st.just("elementwise"), "input_elements": sizes, "output_elements": sizes})
convs = st.fixed_dictionaries(
    {"kind": st.just("conv"), "m": sizes.map(lambda m: 4 * m), "k": sizes, "n": sizes, "groups": st.sampled_from([1, 2, 4]), "input_elements": sizes}
)  # fmt: skip
networks = st.lists(st.one_of(gemms, matmuls, norms, convs), min_size=1, max_size=4)
patterns = st.sampled_from(
    [("dense", 1.0), ("unstructured", 0.1), ("unstructured", 0.6), ("2:4", 0.5), ("1:8", 0.125), ("block:16x16", 0.2)]
)


@pytest.mark.parametrize("device", [A100, RTX3090], ids=lambda device: device.name)
@pytest.mark.parametrize(("pattern", "density"), [("dense", 1.0), ("2:4", 0.5)])
@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (768, 3072, 197), (64, 256, 3136), (4096, 4096, 16)])
def test_one_product_takes_the_predicted_time_of_its_kernel(device, pattern, density, shape):
    result = dse.evaluate(device, variant([gemm(*shape)], pattern, density), fidelity="calibrated")
    (kernel,) = (k for k in KERNELS if f"{k} (measured)" == result.kernel.item())
    assert result.latency.item() == pytest.approx(predict_cold_time(device, kernel.model, shape, pattern, density), rel=1e-6)


def test_row_statistics_set_the_load_imbalance():
    state = replace(variant([gemm(2048, 2048, 256)], "unstructured", 0.1), row_spread=np.array([0.9]))
    result = dse.evaluate(RTX3090, state, fidelity="calibrated")
    (kernel,) = (k for k in KERNELS if k.kernel == "Sputnik")
    expected = predict_cold_time(RTX3090, kernel.model, (2048, 2048, 256), "unstructured", 0.1, row_spread=0.9)
    assert result.latency.item() == pytest.approx(expected, rel=0.01)  # the CSR of the description has wider indices than the default
    assert result.latency.item() > 1.003 * latency(RTX3090, replace(state, row_spread=np.array([0.0]))).item()


def test_traced_networks_have_row_statistics():
    """ResNet-50's first layer, half pruned: 29.775 of 73.5 nonzeros in a row (Deep Learning Matrix Collection)."""
    spread = dse.load_workload("resnet50").variant("magnitude_pruning", 0.5).row_spread
    assert spread is not None
    assert spread[0] == pytest.approx(29.775 / 73.5)


@settings(max_examples=30)
@given(networks, patterns, st.integers(1, 8), st.sampled_from([A100, RTX3090, H100]), st.sampled_from(["full", "none"]))
def test_calibrated_is_never_faster_than_capacity_nor_that_than_sol(rows, pruned, batch, device, overlap):
    state = variant(rows, *pruned)
    sol, capacity, calibrated = (latency(device, state, fidelity, batch, overlap=overlap) for fidelity in ("sol", "capacity", "calibrated"))
    assert np.all(sol <= capacity * ROUNDING)
    assert np.all(capacity <= calibrated * ROUNDING)
    assert np.all(calibrated > 0)


@given(
    networks,
    patterns,
    st.sampled_from(["units.tensor_core.peak.fp16", "units.cuda_core.peak.fp16", "memory.dram.bandwidth"]),
    st.floats(1.01, 10),
)
def test_faster_hardware_is_never_slower(rows, pruned, path, factor):
    """Except for processors: with more of them at the same peak each is slower, and waves may fit worse."""
    state, unit = variant(rows, *pruned), "B/s" if "bandwidth" in path else "FLOP/s"
    faster = A100.replace({path: f"{A100.value(path) * factor} {unit}"})
    assert np.all(latency(faster, state) <= latency(A100, state) * ROUNDING)


def test_repeated_layers_are_launches_and_heads_are_not():
    """Twelve layers take twelve launches; twelve heads of an attention take one."""
    own = next(k for k in KERNELS if k.device == A100.name and k.family == "dense" and k.release)
    row = {"m": 16, "k": 16, "n": 16, "count": 12}
    layers, heads = (latency(A100, variant([{"kind": kind, **row}])).item() for kind in ("gemm", "matmul"))
    assert layers == pytest.approx(12 * own.parameters["launch"].value, rel=0.2)
    assert heads == pytest.approx(own.parameters["launch"].value, rel=0.2)


def test_a_stated_launch_overhead_replaces_the_fitted_one():
    stated = A100.replace({"overhead.launch": "50 us"})
    increase = latency(stated, variant([gemm(64, 64, 64)])).item() - latency(A100, variant([gemm(64, 64, 64)])).item()
    own = next(k for k in KERNELS if k.device == A100.name and k.family == "dense" and k.release)
    assert increase == pytest.approx(50e-6 - own.parameters["launch"].value, rel=1e-6)
    assert predict_cold_time(stated, own.model, (64, 64, 64), "dense", 1.0) == pytest.approx(
        latency(stated, variant([gemm(64, 64, 64)])).item()
    )


@pytest.mark.parametrize(
    ("device", "pruned", "expected"),
    [
        (A100, ("2:4", 0.5), "a100-sxm4-80gb cuSPARSELt pytorch/pytorch PR #90119 *:4 fp16 (measured)"),
        (H100, ("2:4", 0.5), "cuSPARSELt *:4 fp16 of 5 devices (transferred)"),
        (RTX3090, ("128:2:16", 0.125), "rtx3090 Spatha V=128 *:4 fp16 (measured)"),
        (RTX3090, ("2:4", 0.5), "rtx3090 cuSPARSELt *:4 fp16 (measured)"),
        (A100, ("unstructured", 0.1), "Sputnik unstructured fp16 of rtx3090 (transferred)"),
        (A100, ("block:16x16", 0.1), "cuBLASLt dense fp16 of 7 devices (assumed)"),
    ],
)  # fmt: skip
def test_results_name_the_kernel_of_an_execution(device, pruned, expected):
    assert dse.evaluate(device, variant([gemm(1024, 1024, 1024)], *pruned), fidelity="calibrated").kernel.item() == expected


def test_a_dtype_is_predicted_by_its_width_or_by_its_unit_and_refused_without_either(tmp_path):
    """By kernels in fp16 of tensor cores alone: bf16 has the same kernels, int8 the same unit; a TPU in int8 has neither."""
    fp16 = [kernel for kernel in KERNELS if kernel.dtype == "fp16" and kernel.unit == "tensor_core"]
    content = {"command": "", "version": "", "measurements": {}, "kernels": [k.model_dump(mode="json", exclude_none=True) for k in fp16]}
    (tmp_path / "fp16.yaml").write_text(json.dumps(content))
    options = {"fidelity": "calibrated", "efficiencies": str(tmp_path / "fp16.yaml")}
    one = variant([gemm(64, 64, 64)])
    assert dse.evaluate(A100, one, dtype="bf16", **options).kernel.item().endswith("dense fp16 (transferred)")
    assert dse.evaluate(A100, one, dtype="int8", **options).kernel.item().endswith("dense int8 of 5 devices (transferred)")
    with pytest.raises(InputError, match=r"no kernel was measured for 'mxu\.dense' of 'tpu-v6e'.*'int8'; give 'efficiencies: FILE'"):
        dse.evaluate("tpu-v6e", one, dtype="int8", **options)


def test_a_dense_substitute_is_a_narrower_dense_product():
    """Blocks without a measured kernel: an eighth of the columns, slower by the measured ratio of blocks. On a device without kernels of its
    own, both are predicted by the same population."""
    h100 = dse.load_accelerator("h100-sxm5-80gb")
    blocks = latency(h100, variant([gemm(16384, 16384, 4096)], "block:32x32", 0.125)).item()  # the rows of B hardly count
    dense = latency(h100, variant([gemm(16384, 2048, 4096)])).item()
    assert blocks * assumed_ratio(parse("block:32x32")).mean == pytest.approx(dense, rel=0.05)


def test_files_of_earlier_versions_have_intervals(tmp_path):
    """From the error of the fit: 1.645 standard deviations of a normal variable with this mean absolute value."""
    (tmp_path / "old.yaml").write_text(json.dumps({
        "command": "", "version": "", "measurements": {},
        "kernels": [k.model_dump(mode="json", exclude_none=True, exclude={"half_width", "sizes"}) for k in KERNELS],
    }))  # fmt: skip
    (old, *_), new = load_efficiency_file(tmp_path / "old.yaml").kernels, KERNELS[0]
    launches = unmeasured_launches(new.key, A100, [(4096, 4096, 4096), (1, 1, 1)], "2:4", 0.5)
    assert old.interval_half_width(launches) == pytest.approx([1.645 * 1.2533 * new.error] * 2, rel=1e-3)
    assert new.interval_half_width(launches)[0] < new.interval_half_width(launches)[1]


def test_quantiles_of_the_samples_are_the_ends_of_the_interval():
    """Exactly, for each kernel."""
    for kernel in KERNELS:
        launches = unmeasured_launches(
            replace(kernel.key, kernel=""), dse.load_accelerator(kernel.device), [(4096, 4096, 4096)], "dense", 1.0
        )
        log_factors, (half_width,) = np.log(kernel.sample_time_factors(launches)), kernel.interval_half_width(launches)
        assert log_factors[0] == 0
        assert np.quantile(log_factors[1:], [0.05, 0.95], axis=0)[:, 0] == pytest.approx([-half_width, half_width])


def test_intervals_widen_with_the_distance_from_the_measurements():
    kernel = next(k for k in KERNELS if k.kernel == "Sputnik").model_copy(update={"discrepancy": None})
    inside, *outside = (
        kernel.interval_half_width(unmeasured_launches(kernel.key, RTX3090, [shape], "unstructured", density)).item()
        for shape, density in (((1024, 1024, 4096), 0.1), ((1024, 1024, 4096), 0.02), ((1024, 1024, 4096), 0.005), ((64, 1024, 4096), 0.1))
    )
    assert inside == pytest.approx(kernel.half_width)
    assert inside < outside[0] < outside[1]
    assert outside[0] == pytest.approx(inside * (1 + 0.5 * np.log(5)) + 0.1 * np.log(5), rel=0.02)
    assert outside[2] > inside


def test_a_description_references_its_own_measurements(tmp_path):
    text = (Path(dse.__file__).parents[1] / "accel_models" / "rtx3090.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text + "efficiencies: missing.yaml\n")
    with pytest.raises(InputError, match=r"missing\.yaml"):
        dse.evaluate(dse.load_accelerator(tmp_path / "mine.yaml"), variant([gemm(64, 64, 64)]), fidelity="calibrated")
    (tmp_path / "missing.yaml").write_text(SHIPPED.read_text())
    mine = dse.load_accelerator(tmp_path / "mine.yaml")
    assert latency(mine, variant([gemm(64, 64, 64)])) == latency(RTX3090, variant([gemm(64, 64, 64)]))


@pytest.mark.parametrize(
    ("device", "variant_of", "kind", "deviation"),
    [
        (A100, ("dense", 1.0, "fp16"), "measured", 0.0),
        (H100, ("2:4", 0.5, "fp16"), "transferred", 0.0),
        (A100, ("block:16x16", 0.1, "fp16"), "assumed", BLOCK_LOG_DEVIATION),
        (dse.load_accelerator("tpu-v4"), ("dense", 1.0, "bf16"), "transferred", BETWEEN_UNITS),
    ],
    ids=["same device", "other device", "unmeasured", "other unit"],
)
def test_the_deviation_grows_with_the_difference_of_the_kernel(device, variant_of, kind, deviation):
    pattern, density, name = variant_of
    state, width = variant([gemm(2048, 2048, 2048)], pattern, density), OperandDtypes.model_validate(name)
    terms = network_terms(device, state, 1, width, CALIBRATED, efficiency_of(CALIBRATED, KERNELS))
    run = next(e for e in terms.executions if e.pattern == parse(pattern) or e.name.endswith(".blocks" if "block" in pattern else ".dense"))
    selection = select_for_variant(run, state, device, width, KERNELS)
    assert (selection.kind, selection.unit_deviation + selection.pattern_deviation) == (kind, pytest.approx(deviation))
    assert (selection.predictions == ()) == (kind == "measured")


def test_an_unmeasured_device_has_wider_intervals_than_a_measured_one():
    """Its speedups less so, since what is not known of the device acts on dense and sparse kernels alike."""

    def relative_width(device, name):
        layers = [evaluate(device, variant([gemm(4096, 4096, 4096)], *which), name) for which in (("dense", 1.0), ("2:4", 0.5))]
        return [float(each.latency_high.sum() / each.latency_low.sum()) for each in layers]

    def evaluate(device, of, name):
        return dse.evaluate(device, of, dtype=name, fidelity="calibrated")

    measured, unmeasured = relative_width(dse.load_accelerator("rtx4090"), "fp16"), relative_width(H100, "fp16")
    assert unmeasured[0] > measured[0]
    assert unmeasured[1] > measured[1]


def test_another_power_limit_changes_times_as_in_a_description_with_that_limit():
    """The clock under load follows from the power of an operation."""
    device, network = dse.load_accelerator("h100-sxm5-80gb"), variant([gemm(8192, 8192, 8192)])
    varied = device.replace({"cost.power": "100 W"})
    described = dse.Accelerator.from_dict(varied.to_dict())
    assert latency(varied, network).item() == pytest.approx(latency(described, network).item(), rel=1e-9)
    assert latency(varied, network).item() > 1.2 * latency(device, network).item()
