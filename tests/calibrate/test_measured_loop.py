"""Measure, calibrate, validate: for real, on the CPU at hand. Structure and laws are asserted, not times."""

import csv
import json

import numpy as np
import pytest

import dse
from dse.calibrate import measured_set, predict
from dse.calibrate.measure import libraries, machine, timing
from dse.cli import entry, measure
from dse.cli.measure import COLUMNS
from dse.model.efficiency import kernel_file
from dse.model.efficiency.parameters import PARAMETERS
from dse.sparsity.pruning import random_mask

SHAPES = ["64x64x32", "128x64x64", "128x256x64", "256x128x128", "256x256x256"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    asked = ["--cpu", "--repeats", "5", "--densities", "0.5", "0.1", "--kernels", "scipy csr", "--shapes", *SHAPES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "NOISY", np.inf)  # as the machine is
        assert entry.main(["measure", "-o", str(folder), *asked]) == 0
    return folder


def test_every_kernel_is_timed_at_every_shape_and_the_machine_described(measured):
    found = measured_set.load(measured / "measurements.csv")
    (name,) = found.devices
    device = found.devices[name]
    assert device.units["core"].processors is not None
    assert all(quantity.kind == "measured" for path, quantity in device.quantities().items() if "peak" in path or "bandwidth" in path)
    per_kernel = {kernel: sum(row.kernel == kernel for row in found.rows) for kernel in {row.kernel for row in found.rows}}
    assert per_kernel["numpy"] == per_kernel["jax"] == len(SHAPES)
    assert per_kernel["scipy csr"] == 2 * len(SHAPES)
    assert all(row.dense is not None and "20" in row.source and row.release for row in found.rows if row.kernel == "scipy csr")


def test_a_killed_run_goes_on_where_it_was(measured, tmp_path):
    with (measured / "measurements.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    kept = [row | {"time_ms": "123.0", "spread": "0", "dense_kernel": "", "dense_release": "", "dense_ms": ""} for row in rows[:3]]
    with (tmp_path / "measurements.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(kept)
    given = ["measure", "-o", str(tmp_path), "--cpu", "--repeats", "1", "--densities", "0.5", "0.1", "--kernels", "scipy csr", "--shapes"]
    assert entry.main([*given, *SHAPES]) == 0
    with (tmp_path / "measurements.csv").open(newline="") as file:
        again = list(csv.DictReader(file))
    assert len(again) == len(rows)
    assert [row["time_ms"] for row in again[:3]] == ["123.0"] * 3


def test_measured_then_calibrated_then_validated(measured, capsys):
    out = measured / "efficiencies.yaml"
    assert entry.main(["calibrate", str(measured / "measurements.csv"), "-o", str(out), "--draws", "3"]) == 0
    capsys.readouterr()
    fitted = kernel_file.load(out)
    (name,) = measured_set.load(measured / "measurements.csv").devices
    assert {kernel.device for kernel in fitted.kernels} == {name}
    for kernel in fitted.kernels:
        assert set(kernel.parameters) == {p.name for p in PARAMETERS}
        assert any(found.kind == "measured" for found in kernel.parameters.values())
        assert all(p.low <= kernel.parameters[p.name].value * 1.001 for p in PARAMETERS)
        assert all(found.low <= found.high for found in kernel.parameters.values())
    csr = next(kernel for kernel in fitted.kernels if kernel.kernel == "scipy csr").model
    device = dse.load_accelerator(measured / f"{name}.yaml")
    times = predict.seconds(device, csr, [(64, 64, 64), (512, 512, 512)], "unstructured", 0.3)
    assert 0 < times[0] < times[1]

    assert entry.main(["validate", "--data", str(measured), "--json", "-o", str(measured / "figures")]) in (0, 1)  # as the machine was
    told = json.loads(capsys.readouterr().out)
    kernels = {(row["kernel"].split()[0], row["quantity"]) for row in told["rows"] if row["split"] == "shapes"}
    assert {("numpy", "time"), ("jax", "time"), ("scipy", "time"), ("scipy", "speedup")} <= kernels
    assert len([point for point in told["points"] if point["quantity"] == "speedup"]) == 2 * len(SHAPES)
    assert (measured / "figures" / "measurements.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("default")  # told on stderr, as a user sees it
def test_shapes_that_blocks_do_not_divide_are_left_out_and_told(tmp_path, capsys):
    given = [
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
    assert entry.main(given) == 0
    assert "left out, blocks don't divide the shape: scipy bsr 40x64" in capsys.readouterr().err
    found = measured_set.load(tmp_path / "measurements.csv")
    assert [(row.m, row.dense_kernel != "") for row in found.rows if row.kernel == "scipy bsr"] == [(64, True)]


def test_kernels_compute_the_product():
    """What is timed is C = A B."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((48, 32), np.float32), rng.standard_normal((32, 16), np.float32)
    for kernel in libraries.kernels(cuda=False):
        np.testing.assert_allclose(np.asarray(kernel.store(a)(b)()), a @ b, rtol=1e-4, atol=1e-5)


def test_the_median_forgets_a_slow_call():
    """The middle half of four repeats: from 1 to 4 by linear interpolation."""
    times = iter([[9.0, 1.0, 1.0], [1.0, 1.0, 3.0, 7.0]])
    assert timing.measured(lambda _, repeats: next(times), lambda: None, repeats=4) == (2.0, pytest.approx((4.0 - 1.0) / 2.0))


def test_long_calls_are_repeated_less():
    asked = []

    def each(call, repeats):
        asked.append(repeats)
        return [0.4] * repeats

    timing.measured(each, lambda: None, repeats=20)
    assert asked == [timing.WARM_UP, 5]  # two seconds of them


def test_operands_are_out_of_the_caches(monkeypatch):
    """What is written before a call is as much as asked for, and no part of its time."""
    clock, written = iter([0.0, 1.0, 5.0, 7.0]), []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(timing.np, "add", lambda waste, one, out: written.append(waste.nbytes))
    assert timing.on_cpu(4096)(lambda: None, 2) == [1.0, 2.0]
    assert written == [4096, 4096]


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"), ("NVIDIA GeForce RTX 3090", "rtx3090"), ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("Tesla T4", "t4"), ("NVIDIA L40S", "l40s"),
    ],
)  # fmt: skip
def test_gpus_are_known_by_what_drivers_call_them(reported, name):
    assert machine.known(reported) == (name, True)
    assert machine.known("NVIDIA Z9 1TB") == ("nvidia-z9-1tb", False)


def test_every_name_of_a_driver_is_described():
    assert all(machine.known(reported)[1] for reported in machine.REPORTED)


@pytest.mark.filterwarnings("default")  # told on stderr, as a user sees it
def test_a_kernel_that_the_machine_cannot_run_is_told_and_the_others_timed(tmp_path, capsys, monkeypatch):
    def store(a):
        raise RuntimeError("architecture mismatch when calling init\nand where")

    broken = libraries.Timed("broken", "1.0", "2:4", "fp32", store)
    monkeypatch.setattr("dse.cli.measure.kernels", lambda cuda: [*libraries.kernels(cuda)[:1], broken])
    assert entry.main(["measure", "-o", str(tmp_path), "--cpu", "--repeats", "1", "--shapes", "64x64x8", "32x32x8"]) == 0
    assert "not timed: broken 64x64: architecture mismatch when calling init; broken 32x32: architecture" in capsys.readouterr().err
    assert [(row.kernel, row.m) for row in measured_set.load(tmp_path / "measurements.csv").rows] == [("numpy", 64), ("numpy", 32)]


@pytest.mark.skipif(not libraries.has_cuda(), reason="no GPU here")
def test_kernels_of_a_gpu_compute_the_product():
    rng = np.random.default_rng(0)
    for kernel in libraries.kernels(cuda=True):
        a = rng.standard_normal((128, 256), np.float32) * random_mask(kernel.pattern, 128, 256, 0.5 if kernel.pattern != "dense" else None)
        b = rng.standard_normal((256, 64), np.float32)
        np.testing.assert_allclose(kernel.store(a)(b)().float().cpu().numpy(), a @ b, rtol=2e-2, atol=0.2)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--shapes", "64x64"], "'64x64' is no shape of a product; write m x k x n"),
        (["--densities", "1.5"], "a density of 1.5 is out of range"),
        (["--repeats", "0"], "a median of 0 times says nothing; give at least one repeat"),
        (["--kernels", "scipy crs"], "no kernel 'scipy crs' here; did you mean 'scipy csr'?"),
    ],
)
def test_bad_requests_exit_2_and_write_nothing(tmp_path, capsys, given, told):
    assert entry.main(["measure", "-o", str(tmp_path / "out"), "--cpu", *given]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_all_that_is_wrong_with_a_request_is_told_at_once(tmp_path, capsys):
    given = ["--shapes", "64x64", "0x8x8", "--densities", "0", "--repeats", "0", "--kernels", "cuBLAS"]
    assert entry.main(["measure", "-o", str(tmp_path / "out"), "--cpu", *given]) == 2
    told = capsys.readouterr().err
    assert all(part in told for part in ("no kernel 'cuBLAS'", "'64x64'", "'0x8x8'", "a density of 0 ", "a median of 0 times"))


@pytest.mark.filterwarnings("default")  # told on stderr, as a user sees it
def test_masks_that_keep_nothing_and_matrices_beyond_memory_are_left_out(tmp_path, capsys):
    given = ["--kernels", "scipy csr", "--densities", "0.001", "--repeats", "1", "--shapes", "4x4x4", "64x64x8", "999999x999999x1"]
    assert entry.main(["measure", "-o", str(tmp_path), "--cpu", *given]) == 0
    told = capsys.readouterr().err
    assert "scipy csr 4x4: no weight is kept at this density" in told
    assert "numpy 999999x999999: Unable to allocate" in told
    assert {row.m for row in measured_set.load(tmp_path / "measurements.csv").rows} == {4, 64}


@pytest.mark.filterwarnings("default")
def test_noise_is_recorded_and_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(machine, "timer", lambda cuda, warm: lambda call, repeats: [1e-3, 2e-3, 4e-3][:repeats])
    assert entry.main(["measure", "-o", str(tmp_path), "--cpu", "--repeats", "3", "--kernels", "scipy csr", "--shapes", "64x64x8"]) == 0
    rows = measured_set.load(tmp_path / "measurements.csv").rows
    assert f"noise: {len(rows)} of {len(rows)} times vary by more than 20%" in capsys.readouterr().err
    assert {row.spread for row in rows} == {0.75}


def test_the_machine_runs_the_patterns_that_were_timed(measured):
    """So that its own kernels stand behind a pruned network."""
    found = measured_set.load(measured / "measurements.csv")
    (device,) = found.devices.values()
    assert {str(run.pattern) for run in device.units["core"].runs.values()} >= {"unstructured"}


def test_a_kernel_that_reads_faster_than_a_copy_sets_the_bandwidth(monkeypatch):
    """Else the table would be refused on the grounds of its own description. By hand: 1e9 B beyond a cache of 2e9 B in 10 ms."""
    monkeypatch.setattr(machine, "_cpu", lambda: (1e9, int(2e9), 2))
    row = {"m": 750_000, "k": 1000, "n": 1, "density": 1.0, "time_ms": 10.0, "dtype": "fp32", "pattern": "dense", "source": "a test"}
    told = machine.description("mine", [row], [], cuda=False)
    assert f"bandwidth: {{value: {4 * (750e6 + 750e3 + 1e3) / 1e9 * 100 - 200:.6g} GB/s" in told
