"""Measured powers against energies: readings that are made from known energies, and the rows that are left out."""

import csv
import json

import pytest

import dse
from dse.calibrate.tables.measurement_set import load_measurements
from dse.calibrate.validate.measured_power import compare_power, select_limited
from dse.cli import entry

LIMIT, IDLE, PER_BYTE = 500.0, 100.0, 100e-12  # W, W, J/B
ENERGY = {"fp16": 0.8e-12, "fp8": 0.4e-12, "fp4": 0.2e-12}  # J/FLOP: proportional to the width
SHAPES = [(m, 16384, n) for m in (4096, 8192, 16384) for n in (4096, 8192)]
COLUMNS = ["device", "kernel", "pattern", "dtype", "m", "k", "n", "time_ms", "power_w", "power_limit_w", "source"]


@pytest.fixture
def write_table(tmp_path):
    """Write a chip that states its energies, and a table of its kernels; returns the path of the table."""
    mapping = {
        "name": "chip",
        "source": "made up",
        "units": {
            "tensor": {
                "peak": {"fp16": "2000 TFLOP/s", "fp8": "4000 TFLOP/s", "fp4": "8000 TFLOP/s"},
                "energy": {dtype: f"{joules * 1e12} pJ/FLOP" for dtype, joules in ENERGY.items()},
            }
        },
        "memory": {"dram": {"bandwidth": "20 TB/s", "energy": f"{PER_BYTE * 1e12} pJ/B"}},
        "cost": {"process": "4 nm", "power": f"{LIMIT} W", "idle": f"{IDLE} W"},
    }
    (tmp_path / "chip.yaml").write_text(json.dumps(mapping))

    def write(rows):
        path = tmp_path / "powers.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows({"device": "chip", "kernel": "gemm", "pattern": "dense", "source": "made up"} | row for row in rows)
        return path

    return write


def reading(dtype, shape, power=LIMIT, slower=1.0, factor=1.0):
    """A product whose mean power follows from the energies, by hand, over `slower` times the least time; the reading times `factor`."""
    m, k, n = shape
    bits = {"fp16": 16, "fp8": 8, "fp4": 4}[dtype]
    joules = ENERGY[dtype] * 2 * m * k * n + PER_BYTE * bits / 8 * (m * k + k * n + m * n)
    time = joules / (power - IDLE) * slower
    mean = IDLE + joules / time
    sizes = {"m": m, "k": k, "n": n}
    return {"dtype": dtype, "time_ms": time * 1e3, "power_w": mean * factor, "power_limit_w": LIMIT} | sizes


def compare(path):
    return {row["dtype"]: row for row in compare_power(select_limited(load_measurements(path)))}


def test_readings_that_follow_from_the_energies_have_no_error(write_table):
    rows = compare(write_table([reading(dtype, shape) for dtype in ENERGY for shape in SHAPES]))
    for dtype, row in rows.items():
        assert (row["readings"], row["near the limit"]) == (len(SHAPES), len(SHAPES))
        assert row["described [pJ/FLOP]"] == pytest.approx(ENERGY[dtype] * 1e12, rel=1e-9)
        for name in ("fitted [pJ/FLOP]", "extrapolated [pJ/FLOP]"):  # a power law of the width, exactly
            assert row[name] == pytest.approx(ENERGY[dtype] * 1e12, rel=1e-6)
        for name, error in row.items():
            if "error" in name:
                assert error == pytest.approx(0, abs=1e-6), name


def test_errors_by_hand(write_table):
    """Readings 3% below those of the energies: the power is 1 / 0.97 - 1 too high, the fitted energy is lower, the other half agrees."""
    row = compare(write_table([reading("fp16", shape, factor=0.97) for shape in SHAPES]))["fp16"]
    assert row["power error"] == pytest.approx(1 / 0.97 - 1, rel=1e-6)
    assert row["time error"] == pytest.approx(0, abs=1e-6)  # the times are those of the limit
    assert row["fitted [pJ/FLOP]"] < 0.8
    assert row["power error, other half"] < 0.01
    assert row["extrapolated [pJ/FLOP]"] is None  # there is no other dtype


def test_readings_below_the_limit_and_of_short_kernels_are_left_out(write_table):
    """A reading below the limit may be that of what ran before the kernel."""
    rows = [reading("fp16", shape) for shape in SHAPES]
    low = [reading("fp16", shape, slower=2) for shape in SHAPES[:3]]
    short = [reading("fp16", (512, 512, 512 + n)) for n in range(3)]
    row = compare(write_table(rows + low + short))["fp16"]
    assert (row["readings"], row["near the limit"]) == (12, 6)
    assert row["power error"] == pytest.approx(0, abs=1e-6)


def test_the_command_prints_the_table(write_table, capsys):
    path = write_table([reading(dtype, shape) for dtype in ENERGY for shape in SHAPES])
    assert entry.main(["validate", "power", str(path)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.startswith("device")
    assert len(lines) == 3
    assert entry.main(["validate", "power", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["near the limit"] == 6


def test_a_table_without_powers_near_the_limit_is_an_error(write_table, capsys):
    path = write_table([reading("fp16", shape, slower=2) for shape in SHAPES])
    assert entry.main(["validate", "power", str(path)]) != 0
    assert "'powers' has no kernel with 4 powers of at least 96.5% of the limit over 0.15 ms" in capsys.readouterr().err
    assert entry.main(["validate", "power"]) != 0
    assert "write 'dse validate power TABLE'" in capsys.readouterr().err


def test_the_b200_states_the_energies_that_its_kernels_were_measured_with():
    """ai-dynamo/aiconfigurator: 277 bf16 and 201 nvfp4 products near 1000 W, which the command fits at 0.480 and 0.179 pJ/FLOP."""
    b200 = dse.load_accelerator("b200-sxm-180gb")
    for dtype, energy in (("bf16", 0.48e-12), ("fp4", 0.179e-12)):
        stated = b200.at(f"units.tensor_core.energy.{dtype}")
        assert (stated.kind, stated.value) == ("measured", pytest.approx(energy))
        assert "Apache-2.0" in stated.source
