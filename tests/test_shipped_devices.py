"""Shipped devices that exist: peaks, sparse peaks and bandwidths agree with clocks, bus widths and sparse peaks that vendors publish."""

import numpy as np
import pytest

import dse
from dse.base import catalog

REAL_DEVICES = [name for name in catalog.list_names("accel_models") if not dse.load_accelerator(name).hypothetical]
TENSOR, MATRIX = "units.tensor_core", "units.matrix_core"

# Published clock [GHz], and FLOP a cycle of one processor by dtype. NVIDIA: Ada and RTX Blackwell whitepapers (fp16 with fp32 accumulation:
# 512 FLOP on GeForce, 1024 on workstation cards); Jetson: torring.dev/blog/2026/rtx-spark-throttling; AMD: CDNA 3 and 4 whitepapers, ISSCC 2026
# (8192 FLOP of fp8); AWS: NKI guide (128 x 128 places, a bf16 or two fp8 products a cycle of 2.4 GHz).
GEFORCE = {"fp16": 512, "bf16": 512, "fp16_acc16": 1024, "tf32": 256, "fp8": 1024, "fp8_acc16": 2048, "int8": 2048}
WORKSTATION = {"fp16": 1024, "bf16": 1024, "tf32": 512, "fp8": 2048, "int8": 2048}
CDNA3 = {"fp16": 2048, "bf16": 2048, "tf32": 1024, "fp8": 4096, "int8": 4096}
CDNA4 = {"fp16": 4096, "bf16": 4096, "fp8": 8192, "int8": 8192, "fp6": 16384, "fp4": 16384}
CLOCKS = {
    "rtx4080": 2.505, "rtx4090": 2.520, "rtx5080": 2.617, "rtx5090": 2.407, "rtx6000-ada": 2.505, "rtx-pro-6000": 2.617, "l20": 2.520,
    "jetson-agx-orin": 1.3, "jetson-agx-thor": 1.57, "mi300x": 2.1, "mi325x": 2.1, "mi350x": 2.2, "mi355x": 2.4, "trainium2": 2.4,
}  # fmt: skip
MATRIX_RATES = {
    "rtx4080": (TENSOR, GEFORCE), "rtx4090": (TENSOR, GEFORCE),
    "rtx5080": (TENSOR, GEFORCE | {"fp4": 4096}), "rtx5090": (TENSOR, GEFORCE | {"fp4": 4096}),
    "rtx6000-ada": (TENSOR, WORKSTATION), "rtx-pro-6000": (TENSOR, WORKSTATION | {"fp4": 4096}),
    "l20": (TENSOR, {"fp16": 512, "bf16": 512, "tf32": 256, "fp8": 1024, "int8": 1024}),
    "jetson-agx-orin": (TENSOR, {"fp16": 2048, "bf16": 2048, "int8": 4096}),
    "jetson-agx-thor": (TENSOR, {"fp16": 8192, "bf16": 8192, "fp8": 16384, "fp4": 32768}),
    "mi300x": (MATRIX, CDNA3), "mi325x": (MATRIX, CDNA3), "mi350x": (MATRIX, CDNA4), "mi355x": (MATRIX, CDNA4),
    "trainium2": ("units.tensor_engine", {"bf16": 2 * 128 * 128, "fp8": 4 * 128 * 128}),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRIX_RATES)
def test_matrix_peaks_are_processors_times_rate_times_clock(name):
    device, (unit, rates) = dse.load_accelerator(name), MATRIX_RATES[name]
    derived = {dtype: device.value(f"{unit}.processors") * flops * CLOCKS[name] * 1e9 for dtype, flops in rates.items()}
    assert {dtype: device.value(f"{unit}.peak.{dtype}") for dtype in rates} == pytest.approx(derived, rel=0.03)


@pytest.mark.parametrize("name", [name for name in CLOCKS if name != "trainium2"])
def test_vector_peaks_are_128_lanes_times_the_clock(name):
    """128 fp32 lanes in each multiprocessor (NVIDIA) or compute unit (CDNA 3 and 4: 64 that multiply pairs)."""
    device = dse.load_accelerator(name)
    unit = "units.cuda_core" if "cuda_core" in device.units else "units.vector_unit"
    derived = device.value(f"{unit}.processors") * 256 * CLOCKS[name] * 1e9
    assert device.value(f"{unit}.peak.fp32") == pytest.approx(derived, rel=0.03)


@pytest.mark.parametrize(
    ("name", "bits", "gigabits"),
    [
        ("rtx3090", 384, 19.5), ("rtx4080", 256, 22.4), ("rtx4090", 384, 21), ("rtx5080", 256, 30), ("rtx5090", 512, 28),
        ("rtx-pro-6000", 512, 28), ("rtx6000-ada", 384, 20), ("l20", 384, 18), ("jetson-agx-orin", 256, 6.4),
        ("jetson-agx-thor", 256, 8.533), ("mi300x", 8192, 5.2), ("mi325x", 8192, 6), ("mi355x", 8192, 8), ("h100-nvl", 6016, 5.2),
    ],
)  # fmt: skip
def test_bandwidth_is_bus_width_times_data_rate(name, bits, gigabits):
    """Rates of a pin [Gbit/s] as published, HBM3E rounded up by up to 2.5%."""
    assert dse.load_accelerator(name).value("memory.dram.bandwidth") == pytest.approx(bits * gigabits * 1e9 / 8, rel=0.03)


def sparse_peak(device, dtype):
    """Highest published peak [FLOP/s] of a sparse run in a dtype."""
    return max(
        unit.peak[dtype].value * run.gain.value
        for unit in device.units.values()
        for run in unit.runs.values()
        if run.gain is not None and dtype in (run.dtypes or ())
    )


@pytest.mark.parametrize(
    ("name", "peaks"),
    [
        ("rtx4080", {"fp16_acc16": 390, "fp8_acc16": 780}), ("rtx5080", {"fp4": 1801}), ("rtx5090", {"fp16_acc16": 838, "fp8_acc16": 1676, "fp4": 3352}),
        ("rtx-pro-6000", {"fp16": 1010, "fp8": 2020, "fp4": 4030, "tf32": 503.8}), ("rtx6000-ada", {"fp8": 1457}),
        ("h100-nvl", {"fp16": 1671, "tf32": 835, "fp8": 3341, "int8": 3341}), ("b200-sxm-180gb", {"fp16": 4500, "fp8": 9000, "fp4": 18000}),
        ("gb200", {"tf32": 2500, "fp16": 5000, "fp8": 10000, "int8": 10000, "fp4": 20000}), ("gb300", {"fp16": 5000, "fp8": 10000, "fp4": 20000}),
        ("b300", {"tf32": 2250, "fp16": 4500, "fp8": 9000, "fp6": 9000, "fp4": 18000}), ("jetson-agx-orin", {"int8": 170}),
        ("jetson-agx-thor", {"fp4": 2070}), ("mi355x", {"fp16": 5033, "fp8": 10066, "int8": 10066}), ("mi350x", {"fp16": 4614, "fp8": 9227}),
        ("trainium2", {"bf16": 8 * 316, "fp8": 8 * 316}), ("trainium3", {"bf16": 2517}),
    ],
)  # fmt: skip
def test_peaks_times_gains_are_the_published_sparse_peaks(name, peaks):
    """In TFLOP/s. Sparse peaks of NVIDIA and AMD are twice the dense ones, but for fp4 on Blackwell Ultra."""
    device = dse.load_accelerator(name)
    assert {dtype: sparse_peak(device, dtype) / 1e12 for dtype in peaks} == pytest.approx(peaks, rel=0.01)


@pytest.mark.parametrize("name", REAL_DEVICES)
def test_two_of_four_doubles_every_peak(name):
    """The gain of 2:4 and of 1:2 is their reduction wherever a vendor lists them."""
    runs = [run for unit in dse.load_accelerator(name).units.values() for run in unit.runs.values() if str(run.pattern) in ("2:4", "1:2")]
    assert [run.gain and run.gain.value for run in runs] == [2] * len(runs)


@pytest.mark.parametrize("name", [name for name in REAL_DEVICES if name.startswith("rtx")])
def test_geforce_cards_halve_the_rate_with_fp32_accumulation(name):
    peaks = {dtype: peak.value for dtype, peak in dse.load_accelerator(name).units["tensor_core"].peak.items()}
    is_geforce = name in ("rtx3090", "rtx4080", "rtx4090", "rtx5080", "rtx5090")
    assert is_geforce == ("fp16_acc16" in peaks)
    for dtype in ("fp16", "fp8"):
        if f"{dtype}_acc16" in peaks:
            assert peaks[f"{dtype}_acc16"] == pytest.approx(2 * peaks[dtype], rel=0.001)
    vector = dse.load_accelerator(name).value("units.cuda_core.peak.fp32")
    assert peaks["fp16"] == pytest.approx((2 if is_geforce else 4) * vector, rel=0.01)


@pytest.mark.parametrize("name", REAL_DEVICES)
def test_a_network_runs_in_every_dtype_of_a_device_within_its_peak(name):
    """No dense BERT-base is faster than its FLOPs at the sum of the peaks, or than its weights at the bandwidth."""
    device, bert = dse.load_accelerator(name), dse.load_workload("bert-base").dense
    dtypes = dict.fromkeys(dtype for unit in device.units.values() for dtype in unit.peak)
    for dtype in dtypes:
        layers = dse.evaluate(device, bert, batch=4, dtype=dtype)
        latency = float((layers.latency * layers["count"]).sum())
        flops = float((layers.flops * layers["count"]).sum())
        peak = max(unit.peak[dtype].value for unit in device.units.values() if dtype in unit.peak)
        assert np.isfinite(latency), dtype
        assert flops / peak <= latency * (1 + 1e-6), dtype
