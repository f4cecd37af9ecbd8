"""Efficiencies of shipped descriptions equal those of the measurements that their sources name."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

import dse
from dse.base import catalog
from dse.calibrate.tables.launches import group_launches
from dse.calibrate.tables.measurement_set import SHIPPED_MEASUREMENTS, load_measurements

SILICON = Path(__file__).parents[3] / "shared" / "data" / "silicon"


def mean_efficiencies(path, kernels, dtypes):
    """Geometric mean efficiency [1] of each kernel on the shapes that are compute-bound with all of them."""
    measured = group_launches(load_measurements(path))
    logs = {kernel: [] for kernel in kernels}
    for dtype in dtypes:
        selected = {
            key.kernel: launches
            for key, launches in measured.items()
            if key.kernel in kernels and key.dtype == dtype and key.release in kernels[key.kernel]
        }
        compute_bound = {
            name: {
                (shape, density if len(kernels) == 1 else None): flops / time
                for shape, density, flops, byte, time in zip(
                    launches.shapes,
                    launches.density,
                    launches.flops / launches.rates.peak,
                    launches.product.compulsory_bytes / launches.rates.bandwidth,
                    launches.time,
                    strict=True,
                )
                if flops >= byte
            }
            for name, launches in selected.items()
        }
        common = set.intersection(*map(set, compute_bound.values()))
        for name in kernels:
            logs[name] += [np.log(compute_bound[name][shape]) for shape in common]
    return [float(np.exp(np.mean(values))) for values in logs.values()]


def stated(device, *runs):
    quantities = [dse.load_accelerator(device).at(f"units.{run}.efficiency") for run in runs]
    assert {quantity.kind for quantity in quantities} == {"measured"}
    return [pytest.approx(quantity.value, rel=0.005) for quantity in quantities]


PR = {"pytorch/pytorch PR #90119"}
DENSE_AND_24 = ("tensor_core.runs.dense", "tensor_core.runs.sparse_24")


@pytest.mark.parametrize(
    ("device", "runs", "file", "kernels"),
    [
        ("a100-sxm4-80gb", DENSE_AND_24, "a100_fp16_2to4", {"dense": PR, "cuSPARSELt": PR}),
        ("rtx3090", DENSE_AND_24, "rtx3090_fp16", {"cuBLAS": {""}, "cuSPARSELt": {""}}),
        ("rtx3090", ("cuda_core.runs.csr",), "rtx3090_fp16", {"Sputnik": {""}}),
    ],
)
def test_efficiencies_of_shipped_measurements(device, runs, file, kernels):
    assert mean_efficiencies(SHIPPED_MEASUREMENTS / f"{file}.csv", kernels, ["fp16"]) == stated(device, *runs)


def test_the_dense_efficiency_of_an_mi210():
    launches = next(
        launches
        for key, launches in group_launches(load_measurements(SHIPPED_MEASUREMENTS / "dense_fp16.csv")).items()
        if key.device == "mi210"
    )
    efficiency = launches.flops / launches.rates.peak / launches.time
    is_compute_bound = launches.flops / launches.rates.peak >= launches.product.compulsory_bytes / launches.rates.bandwidth
    assert [np.exp(np.log(efficiency[is_compute_bound]).mean())] == stated("mi210", "matrix_core.runs.dense")


@pytest.mark.skipif(not SILICON.exists(), reason="these measurements do not ship with the package, and are not available")
@pytest.mark.parametrize("device", ["a100-pcie-80gb", "rtx4090", "rtx5080"])
def test_efficiencies_of_measurements_that_are_not_shipped(device):
    kernels = {"cuBLASLt": {""}, "cuSPARSELt": {""}}
    assert mean_efficiencies(SILICON / f"{device}_2to4.csv", kernels, ["fp16", "bf16"]) == stated(device, *DENSE_AND_24)


@pytest.mark.parametrize("name", catalog.list_names("accel_models"))
def test_a_device_with_a_measured_efficiency_states_all_efficiencies(name):
    """With the default of 1 an idealised run would win over a measured one."""
    device = dse.load_accelerator(name)
    runs = {f"{unit}.{run}": described.efficiency for unit, u in device.units.items() for run, described in u.runs.items()}
    if any(efficiency.kind == "measured" and efficiency.text for efficiency in runs.values()):
        assert [run for run, efficiency in runs.items() if not efficiency.text] == []
        assert all(efficiency.source for efficiency in runs.values())


@pytest.mark.skipif(not SILICON.exists(), reason="published measurements are not available")
@pytest.mark.parametrize("device", ["l40s", "b200-sxm-180gb"])
def test_dense_efficiencies_of_bf16_layers_of_vllm(device):
    """Geometric mean over the products whose FLOPs take longer than their bytes, with 2 bytes an element."""
    chip = dse.load_accelerator(device)
    peak, bandwidth = chip.value("units.tensor_core.peak.bf16"), chip.value("memory.dram.bandwidth")
    efficiencies = []
    with gzip.open(SILICON / "gemm.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if (row["gpu"], row["kernel_source"]) == (device, "torch.nn.functional.linear"):
                m, k, n = (int(row[name]) for name in "mkn")
                unit, memory = 2 * m * k * n / peak, 2 * (m * k + k * n + m * n) / bandwidth
                efficiencies += [unit / (float(row["latency_ms"]) / 1e3)] if unit > memory else []
    assert [np.exp(np.mean(np.log(efficiencies)))] == stated(device, "tensor_core.runs.dense")


@pytest.mark.parametrize("device", ["l40s", "b200-sxm-180gb"])
def test_unmeasured_24_kernels_are_as_much_slower_than_dense_ones_as_measured_ones(device):
    def ratio(name):
        dense, sparse = (dse.load_accelerator(name).value(f"units.{run}.efficiency") for run in DENSE_AND_24)
        return sparse / dense

    assert ratio(device) == pytest.approx(np.exp(np.mean([np.log(ratio(n)) for n in ("a100-pcie-80gb", "rtx4090", "rtx5080")])), rel=0.01)
