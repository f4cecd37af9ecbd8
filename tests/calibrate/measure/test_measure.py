"""Measure, calibrate and validate on the CPU of this machine; structure and laws are asserted, not times."""

import csv
import json

import numpy as np
import pytest

import dse
from dse.calibrate.measure import libraries, machine, run, timing
from dse.calibrate.measure.table import COLUMNS, add_dense_baselines, write_table
from dse.calibrate.tables.measurement_set import load_measurements
from dse.cli import entry
from dse.model.efficiency.efficiency_file import load_efficiency_file
from dse.model.efficiency.kernels.parameters import PARAMETERS
from dse.sparsity.pruning import random_mask
from tests.model.efficiency.kernels.launches import predict_times

SHAPES = ["64x64x32", "128x64x64", "128x256x64", "256x128x128", "256x256x256"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    arguments = ["--cpu", "--repeats", "5", "--densities", "0.5", "0.1", "--kernels", "scipy csr", "--shapes", *SHAPES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "NOISY_SPREAD", np.inf)  # whatever the machine does
        assert entry.main(["measure", "-o", str(folder), *arguments]) == 0
    return folder


def test_every_kernel_is_timed_at_every_shape_and_the_machine_is_described(measured):
    result = load_measurements(measured / "measurements.csv")
    (name,) = result.devices
    device = result.devices[name]
    assert device.units["core"].processors is not None
    assert all(quantity.kind == "measured" for path, quantity in device.quantities().items() if "peak" in path or "bandwidth" in path)
    per_kernel = {kernel: sum(row.kernel == kernel for row in result.rows) for kernel in {row.kernel for row in result.rows}}
    assert per_kernel["numpy"] == per_kernel["jax"] == len(SHAPES)
    assert per_kernel["scipy csr"] == 2 * len(SHAPES)
    assert all(row.dense_baseline is not None and "20" in row.source and row.release for row in result.rows if row.kernel == "scipy csr")


def test_a_killed_run_resumes(measured, tmp_path):
    with (measured / "measurements.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    changed = {"time_ms": "123.0", "spread": "0", "dense_kernel": "", "dense_release": "", "dense_ms": ""}
    kept = [row | changed | {"source": "a test, median of 1, cold caches"} for row in rows[:3]]
    with (tmp_path / "measurements.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(kept)
    arguments = [
        "measure",
        "-o",
        str(tmp_path),
        "--cpu",
        "--repeats",
        "1",
        "--densities",
        "0.5",
        "0.1",
        "--kernels",
        "scipy csr",
        "--shapes",
    ]
    assert entry.main([*arguments, *SHAPES]) == 0
    with (tmp_path / "measurements.csv").open(newline="") as file:
        again = list(csv.DictReader(file))
    assert len(again) == len(rows)
    assert [row["time_ms"] for row in again[:3]] == ["123.0"] * 3


@pytest.mark.parametrize(("options", "new"), [(["--warm"], "median of 1, warm caches"), (["--repeats", "2"], "median of 2, cold caches")])
def test_times_taken_with_other_options_are_not_mixed(tmp_path, capsys, options, new):
    arguments = ["measure", "-o", str(tmp_path), "--cpu", "--repeats", "1", "--kernels", "scipy csr", "--shapes", "64x64x8"]
    assert entry.main(arguments) == 0
    assert entry.main([*arguments, *options]) == 2
    table = tmp_path / "measurements.csv"
    assert f"'{table}' has times with median of 1, cold caches, not {new}; give another folder" in capsys.readouterr().err


def row(device, kernel, shape, time_ms, pattern="dense"):
    m, k, n = shape
    about = {"device": device, "kernel": kernel, "release": "1", "pattern": pattern, "dtype": "fp32", "unit": "", "density": 1.0}
    return about | {"m": m, "k": k, "n": n, "time_ms": time_ms, "source": "a test, median of 1, cold caches"}


SMALL, MIDDLE, LARGE = (8, 8, 8), (16, 16, 16), (32, 32, 32)


def test_the_dense_baseline_of_a_kernel_ran_on_its_device():
    rows = [row("gpu", "cublas", SMALL, 0.01), row("cpu", "numpy", SMALL, 5.0), row("cpu", "csr", SMALL, 2.0, "unstructured")]
    add_dense_baselines(rows)
    assert (rows[2]["dense_kernel"], rows[2]["dense_ms"]) == ("numpy", 5.0)


@pytest.mark.parametrize(
    ("others", "baseline"),
    [
        ([("few", SMALL, 0.1)], "all"),  # fewer shapes take less time
        ([("other", SMALL, 0.1), ("other", LARGE, 60.0)], "other"),  # a tenth of the time of one shape, 1.2 of the other
        ([("other", SMALL, 0.1), ("other", MIDDLE, 900.0)], "other"),  # `all` does not have the shape that takes long
    ],
)
def test_the_dense_baseline_is_the_kernel_with_most_shapes_then_the_fastest_over_shapes_of_all(others, baseline):
    rows = [row("cpu", "all", SMALL, 1.0), row("cpu", "all", LARGE, 50.0), *(row("cpu", *each) for each in others)]
    rows.append(row("cpu", "csr", SMALL, 0.5, "unstructured"))
    add_dense_baselines(rows)
    assert rows[-1]["dense_kernel"] == baseline


def test_a_machine_is_described_by_its_own_rows(tmp_path, monkeypatch):
    """A GPU's product of 2 * 512^3 FLOPs in 1 us would be a peak of 268 TFLOP/s of the CPU."""
    arguments = ["measure", "-o", str(tmp_path), "--cpu", "--repeats", "1", "--kernels", "scipy csr", "--shapes", "64x64x8"]
    write_table(tmp_path / "measurements.csv", [row("a100-sxm4-80gb", "cublas", (512, 512, 512), 1e-3)])
    monkeypatch.setattr("dse.cli.measure.load_measurements", lambda path: None)  # the rate is above the peak of the GPU too
    assert entry.main(arguments) == 0
    (description,) = tmp_path.glob("cpu-*.yaml")
    assert dse.load_accelerator(description).value("units.core.peak.fp32") < 2e13


def test_measure_then_calibrate_then_validate(measured, capsys):
    out = measured / "efficiencies.yaml"
    assert entry.main(["calibrate", str(measured / "measurements.csv"), "-o", str(out), "--samples", "3"]) == 0
    capsys.readouterr()
    fitted = load_efficiency_file(out)
    (name,) = load_measurements(measured / "measurements.csv").devices
    assert {kernel.device for kernel in fitted.kernels} == {name}
    for kernel in fitted.kernels:
        assert set(kernel.parameters) == {p.name for p in PARAMETERS}
        assert any(result.kind == "measured" for result in kernel.parameters.values())
        assert all(p.low <= kernel.parameters[p.name].value * 1.001 for p in PARAMETERS)
        assert all(result.low <= result.high for result in kernel.parameters.values())
    csr = next(kernel for kernel in fitted.kernels if kernel.kernel == "scipy csr").model
    device = dse.load_accelerator(measured / f"{name}.yaml")
    times = predict_times(device, csr, [(64, 64, 64), (512, 512, 512)], "unstructured", 0.3)
    assert 0 < times[0] < times[1]

    assert entry.main(["validate", "--data", str(measured), "--json", "-o", str(measured / "figures")]) in (
        0,
        1,
    )  # whatever the machine did
    message = json.loads(capsys.readouterr().out)
    kernels = {(row["kernel"].split()[0], row["quantity"]) for row in message["rows"] if row["split"] == "shapes"}
    assert {("numpy", "time"), ("jax", "time"), ("scipy", "time"), ("scipy", "speedup")} <= kernels
    assert len([point for point in message["points"] if point["quantity"] == "speedup"]) == 2 * len(SHAPES)
    assert (measured / "figures" / "measurements.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("default")  # on stderr, as a user sees it
def test_shapes_that_blocks_do_not_divide_are_left_out_with_a_warning(tmp_path, capsys):
    arguments = [
        "measure",
        "-o",
        str(tmp_path),
        "--cpu",
        "--repeats",
        "1",
        "--densities",
        "0.5",
        "--kernels",
        "scipy bsr",
        "--shapes",
        "40x64x8",
        "64x64x8",
    ]
    assert entry.main(arguments) == 0
    assert "left out, since the blocks of the kernel do not divide the shape: scipy bsr 40x64" in capsys.readouterr().err
    result = load_measurements(tmp_path / "measurements.csv")
    assert [(row.m, row.dense_kernel != "") for row in result.rows if row.kernel == "scipy bsr"] == [(64, True)]


def test_kernels_compute_the_product():
    """The timed call computes C = A B."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((48, 32), np.float32), rng.standard_normal((32, 16), np.float32)
    for kernel in libraries.list_kernels(cuda=False):
        np.testing.assert_allclose(np.asarray(kernel.store(a)(b)()), a @ b, rtol=1e-4, atol=1e-5)


def test_the_median_ignores_a_slow_call():
    """The middle half of four repeats: from 1 to 4 by linear interpolation."""
    times = iter([[9.0, 1.0, 1.0], [1.0, 1.0, 3.0, 7.0]])
    assert timing.measure_median(lambda _, repeats: next(times), lambda: None, repeats=4) == (2.0, pytest.approx((4.0 - 1.0) / 2.0))


def test_long_calls_are_repeated_less_often():
    repeats_requested = []

    def timer(call, repeats):
        repeats_requested.append(repeats)
        return [0.4] * repeats

    timing.measure_median(timer, lambda: None, repeats=20)
    assert repeats_requested == [timing.WARM_UP_CALLS, 5]  # two seconds in total


def test_operands_are_evicted_before_each_call(monkeypatch):
    """The requested number of bytes is written before each call, outside its time."""
    clock, written = iter([0.0, 1.0, 5.0, 7.0]), []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(timing.np, "add", lambda waste, one, out: written.append(waste.nbytes))
    assert timing.cpu_timer(4096)(lambda: None, 2) == [1.0, 2.0]
    assert written == [4096, 4096]


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"), ("NVIDIA H100 PCIe", "h100-pcie-80gb"), ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200-sxm-141gb"), ("NVIDIA H20", "h20"), ("NVIDIA B200", "b200-sxm-180gb"), ("NVIDIA GB200", "gb200"),
        ("NVIDIA GB300", "gb300"), ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"), ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"), ("NVIDIA A10", "a10"), ("NVIDIA L4", "l4"), ("NVIDIA L20", "l20"), ("NVIDIA L40S", "l40s"),
        ("Tesla T4", "t4"), ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"), ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA GeForce RTX 4080", "rtx4080"), ("NVIDIA GeForce RTX 4090", "rtx4090"), ("NVIDIA GeForce RTX 5080", "rtx5080"),
        ("NVIDIA GeForce RTX 5090", "rtx5090"), ("NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
    ],
)  # fmt: skip
def test_gpus_are_found_by_the_names_of_drivers(reported, name):
    assert machine.find_in_catalog(reported) == (name, True)


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA Z9 1TB", "nvidia-z9-1tb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "nvidia-a100-sxm4-40gb-mig-1g-5gb"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "nvidia-geforce-rtx-4090-laptop-gpu"),
        ("NVIDIA GeForce RTX 4080 SUPER", "nvidia-geforce-rtx-4080-super"),
    ],
)
def test_other_gpus_keep_the_name_of_their_driver(reported, name):
    assert machine.find_in_catalog(reported) == (name, False)


@pytest.mark.filterwarnings("default")  # on stderr, as a user sees it
def test_a_kernel_that_the_machine_cannot_run_is_left_out_with_a_warning(tmp_path, capsys, monkeypatch):
    def store(a):
        raise RuntimeError("architecture mismatch when calling init\nand where")

    broken = libraries.LibraryKernel("broken", "1.0", "2:4", "fp32", store)
    monkeypatch.setattr("dse.cli.measure.list_kernels", lambda cuda: [*libraries.list_kernels(cuda)[:1], broken])
    assert entry.main(["measure", "-o", str(tmp_path), "--cpu", "--repeats", "1", "--shapes", "64x64x8", "32x32x8"]) == 0
    assert "not timed: broken 64x64: architecture mismatch when calling init; broken 32x32: architecture" in capsys.readouterr().err
    assert [(row.kernel, row.m) for row in load_measurements(tmp_path / "measurements.csv").rows] == [("numpy", 64), ("numpy", 32)]


@pytest.mark.skipif(not libraries.has_cuda(), reason="no GPU here")
def test_kernels_of_a_gpu_compute_the_product():
    rng = np.random.default_rng(0)
    for kernel in libraries.list_kernels(cuda=True):
        a = rng.standard_normal((128, 256), np.float32) * random_mask(kernel.pattern, 128, 256, 0.5 if kernel.pattern != "dense" else None)
        b = rng.standard_normal((256, 64), np.float32)
        np.testing.assert_allclose(kernel.store(a)(b)().float().cpu().numpy(), a @ b, rtol=2e-2, atol=0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shapes", "64x64"], "'64x64' is not a shape of a product; write m x k x n"),
        (["--densities", "1.5"], "a density of 1.5 is out of range"),
        (["--repeats", "0"], "0 repeats are out of range; give at least one"),
        (["--kernels", "scipy crs"], "kernel 'scipy crs' is not installed; did you mean 'scipy csr'?"),
    ],
)
def test_bad_requests_exit_2_and_write_nothing(tmp_path, capsys, arguments, message):
    assert entry.main(["measure", "-o", str(tmp_path / "out"), "--cpu", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_all_errors_of_a_request_are_reported_at_once(tmp_path, capsys):
    arguments = ["--shapes", "64x64", "0x8x8", "--densities", "0", "--repeats", "0", "--kernels", "cuBLAS"]
    assert entry.main(["measure", "-o", str(tmp_path / "out"), "--cpu", *arguments]) == 2
    message = capsys.readouterr().err
    assert all(part in message for part in ("kernel 'cuBLAS' is not installed", "'64x64'", "'0x8x8'", "a density of 0 ", "0 repeats are"))


@pytest.mark.filterwarnings("default")  # on stderr, as a user sees it
def test_empty_masks_and_matrices_beyond_memory_are_left_out(tmp_path, capsys):
    arguments = ["--kernels", "scipy csr", "--densities", "0.001", "--repeats", "1", "--shapes", "4x4x4", "64x64x8", "999999x999999x1"]
    assert entry.main(["measure", "-o", str(tmp_path), "--cpu", *arguments]) == 0
    message = capsys.readouterr().err
    assert "scipy csr 4x4: no weight is kept at this density" in message
    assert "numpy 999999x999999: Unable to allocate" in message
    assert {row.m for row in load_measurements(tmp_path / "measurements.csv").rows} == {4, 64}


@pytest.mark.filterwarnings("default")
def test_noise_is_recorded_with_a_warning(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(machine, "create_timer", lambda cuda, warm: lambda call, repeats: [1e-3, 2e-3, 4e-3][:repeats])
    assert entry.main(["measure", "-o", str(tmp_path), "--cpu", "--repeats", "3", "--kernels", "scipy csr", "--shapes", "64x64x8"]) == 0
    rows = load_measurements(tmp_path / "measurements.csv").rows
    assert f"noise: the interquartile range of {len(rows)} of {len(rows)} times is above 20%" in capsys.readouterr().err
    assert {row.spread for row in rows} == {0.75}


def test_the_description_lists_the_patterns_that_were_timed(measured):
    """So that a pruned network is predicted by its own kernels."""
    result = load_measurements(measured / "measurements.csv")
    (device,) = result.devices.values()
    assert {str(run.pattern) for run in device.units["core"].runs.values()} >= {"unstructured"}


def test_a_kernel_that_reads_faster_than_a_copy_sets_the_bandwidth(monkeypatch):
    """Otherwise the table would contradict its own description. By hand: 1e9 B beyond a cache of 2e9 B in 10 ms."""
    monkeypatch.setattr(machine, "_probe_cpu", lambda: (1e9, int(2e9), 2))
    row = {"m": 750_000, "k": 1000, "n": 1, "density": 1.0, "time_ms": 10.0, "dtype": "fp32", "pattern": "dense", "source": "a test"}
    message = machine.describe_machine("mine", [row], [], cuda=False)
    assert f"bandwidth: {{value: {4 * (750e6 + 750e3 + 1e3) / 1e9 * 100 - 200:.6g} GB/s" in message
