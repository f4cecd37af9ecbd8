"""Kernels that were not measured on a device, next to those that were: libraries that nobody compared do not make sparsity look faster."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dse
from dse.base.dtype import OperandDtypes
from dse.model.efficiency import interval
from dse.model.efficiency.device_rates import memory_kind
from dse.model.efficiency.efficiency_file import shipped_kernels
from dse.model.efficiency.kernels.launches import KernelKey
from dse.model.efficiency.kernels.transfer import predict_kernel
from dse.model.network_terms import efficiency_of, network_terms
from dse.model.rates import STORED_FLOPS
from dse.networks.layers import LayerArrays, LayerRow
from dse.schema.model_options import ModelOptions
from dse.sparsity.grammar import parse
from dse.workload import Variant

CALIBRATED = ModelOptions(fidelity="calibrated", dense_fallback=True)
KERNELS = shipped_kernels()
DEVICES = {name: dse.load_accelerator(name) for name in ("l40s", "b200-sxm-180gb")}
EFFICIENCIES = {name: efficiency_of(CALIBRATED, KERNELS, device, with_samples=False) for name, device in DEVICES.items()}
sizes = st.sampled_from([64, 512, 1000, 4096, 13824])


def product(pattern, density, m=4096, k=4096, n=4096):
    """A network of a single product."""
    layers = LayerArrays.from_rows([LayerRow.model_validate({"name": "l", "kind": "gemm", "m": m, "k": k, "n": n})])
    return Variant("network", layers, "method", parse(pattern), 1 - density, np.array([density]))


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([("l40s", "fp8"), ("b200-sxm-180gb", "fp8"), ("b200-sxm-180gb", "bf16")]), sizes, sizes, sizes)
def test_a_transferred_sparse_kernel_uses_its_unit_no_better_than_the_measured_dense_one(device_and_dtype, m, k, n):
    """2:4 of cuSPARSELt, from other devices, next to dense products of vLLM's libraries on the device itself."""
    name, dtype = device_and_dtype
    variant = product("2:4", 0.5, m, k, n)
    terms = network_terms(DEVICES[name], variant, 1, OperandDtypes.model_validate(dtype), CALIBRATED, EFFICIENCIES[name])
    slowdown = dict(zip((e.name for e in terms.executions), terms.slowdown[0, 0, :, STORED_FLOPS], strict=True))
    assert slowdown["tensor_core.sparse_24"] >= slowdown["tensor_core.dense"] * (1 - 1e-12)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([("l40s", "fp8"), ("b200-sxm-180gb", "fp8"), ("b200-sxm-180gb", "bf16")]), *[st.sampled_from([1, 64, 1024, 4096])] * 3
)
def test_it_is_at_most_twice_as_fast(device_and_dtype, m, k, n):
    """Neither its launch nor its memory is better than that of the measured dense kernel."""
    name, dtype = device_and_dtype
    dense, sparse = (
        dse.evaluate(DEVICES[name], product(pattern, density, 64 * m, 64 * k, n), dtype=dtype, fidelity="calibrated").latency.item()
        for pattern, density in (("dense", 1.0), ("2:4", 0.5))
    )
    assert dense / sparse <= 2 * (1 + 1e-9)


@pytest.mark.parametrize("name", ["mi300x", "mi355x"])
def test_launches_of_a_unit_that_one_device_has_are_those_of_all_dense_kernels(name):
    """AMD's matrix cores were timed from the host (33 us a launch on an MI210): not their launches carry over, but their tiles."""
    device, of_unit = dse.load_accelerator(name), [kernel for kernel in KERNELS if kernel.unit == "matrix_core"]
    assert {kernel.device for kernel in of_unit} == {"mi210"}
    key = KernelKey(name, "matrix_core", "dense", "", "dense", "fp16")
    record, _ = predict_kernel(of_unit, key, memory_kind(device), KERNELS)
    measured = of_unit[0].parameters["launch"].value
    launches = [kernel.parameters["launch"].value for kernel in KERNELS if kernel.family == "dense" and not kernel.has_scales]
    assert np.quantile(launches, 0.1) < record.parameters["launch"].value < np.quantile(launches, 0.9) < measured
    assert record.model.tile == of_unit[0].model.tile


@pytest.mark.parametrize(("name", "dtype"), [("h100-pcie-80gb", "bf16"), ("mi300x", "int8")])
def test_intervals_do_not_depend_on_the_name_of_the_device(tmp_path, name, dtype):
    """A copy of a device under other names has the same interval of its speedup, and so the same probability to gain."""
    device = dse.load_accelerator(name)
    for other in ("x", "y"):
        (tmp_path / f"{other}.yaml").write_text(device.document.text.replace(f"name: {name}\n", f"name: {other}\n"))
    copies = [device, *(dse.load_accelerator(tmp_path / f"{other}.yaml") for other in ("x", "y"))]
    sparse, dense = product("2:4", 0.5), product("dense", 1.0)
    results = [dse.evaluate(copy, sparse, baseline=dense, dtype=dtype, fidelity="calibrated") for copy in copies]
    for key in ("latency_low", "latency_high", "speedup", "faster_probability"):
        assert len({result[key].item() for result in results}) == 1, key


@given(st.lists(st.tuples(st.text("abc", min_size=1), st.floats(-0.5, 0.5)), min_size=1, max_size=20, unique_by=lambda error: error[0]))
def test_combined_errors_spread_as_their_sum(errors):
    """The samples have the 90% interval of the sum of independent normal errors, whatever their names."""
    samples = interval.combine_errors([(name, np.array([deviation])) for name, deviation in errors])
    expected = interval.Z_SCORE * np.linalg.norm([deviation for _, deviation in errors])
    assert np.quantile(samples, [0.05, 0.95]) == pytest.approx([-expected, expected], abs=1e-12)


def test_launches_err_together_as_their_errors_say():
    """Two launches with the same errors have equal samples, with opposite ones opposite, with different ones others."""
    errors = [("clock", np.array([0.2, 0.2, -0.2, 0.0])), ("launch", np.array([0.1, 0.1, -0.1, 0.3]))]
    first, same, opposite, other = interval.combine_errors(errors).T
    assert np.array_equal(first, same)
    assert first == pytest.approx(-opposite)
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.9
