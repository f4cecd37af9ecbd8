"""The efficiencies that ship are those of the measurements that their sources name."""

from pathlib import Path

import numpy as np
import pytest

import dse
from dse.base import catalog
from dse.calibrate import measured_set
from dse.calibrate.measured_launches import launches
from dse.calibrate.measured_set import SHIPPED_MEASUREMENTS

SILICON = Path(__file__).parents[3] / "shared" / "data" / "silicon"


def shares(path, kernels, dtypes):
    """Geometric means of the shares of the peak [1] that kernels reach on the shapes that the unit bounds under each of them."""
    found = launches(measured_set.load(path))
    logs = {kernel: [] for kernel in kernels}
    for dtype in dtypes:
        chosen = {
            k.kernel: seen for k, seen in found.items() if k.kernel in kernels and k.dtype == dtype and (k.release in kernels[k.kernel])
        }
        bound = {
            name: {
                (shape, density if len(kernels) == 1 else None): flops / time
                for shape, density, flops, byte, time in zip(
                    seen.shapes,
                    seen.density,
                    seen.flops / seen.rates.peak,
                    seen.product.compulsory / seen.rates.bandwidth,
                    seen.time,
                    strict=True,
                )
                if flops >= byte
            }
            for name, seen in chosen.items()
        }
        common = set.intersection(*map(set, bound.values()))
        for name in kernels:
            logs[name] += [np.log(bound[name][shape]) for shape in common]
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
def test_those_of_kernels_that_ship(device, runs, file, kernels):
    assert shares(SHIPPED_MEASUREMENTS / f"{file}.csv", kernels, ["fp16"]) == stated(device, *runs)


def test_those_of_dense_products_of_an_mi210():
    found = next(
        seen for kernel, seen in launches(measured_set.load(SHIPPED_MEASUREMENTS / "dense_fp16.csv")).items() if kernel.device == "mi210"
    )
    share = found.flops / found.rates.peak / found.time
    bound = found.flops / found.rates.peak >= found.product.compulsory / found.rates.bandwidth
    assert [np.exp(np.log(share[bound]).mean())] == stated("mi210", "matrix_core.runs.dense")


@pytest.mark.skipif(not SILICON.exists(), reason="these measurements do not ship with the package, and are not here")
@pytest.mark.parametrize("device", ["a100-pcie-80gb", "rtx4090"])
def test_those_of_kernels_that_do_not_ship(device):
    kernels = {"cuBLASLt": {""}, "cuSPARSELt": {""}}
    assert shares(SILICON / f"{device}_2to4.csv", kernels, ["fp16", "bf16"]) == stated(device, *DENSE_AND_24)


@pytest.mark.parametrize("name", catalog.list_names("accel_models"))
def test_a_device_with_measured_dense_kernels_leaves_no_sparse_run_at_its_peak(name):
    """An efficiency of 1 beside a measured one would make an idealised run win over a measured one."""
    device = dse.load_accelerator(name)
    runs = {f"{unit}.{run}": found.efficiency for unit, u in device.units.items() for run, found in u.runs.items()}
    if any(efficiency.kind == "measured" and efficiency.text for efficiency in runs.values()):
        assert [run for run, efficiency in runs.items() if not efficiency.text] == []
        assert all(efficiency.source for efficiency in runs.values())
