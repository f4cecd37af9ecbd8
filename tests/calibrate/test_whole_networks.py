"""Predicted against measured latencies of whole networks: tables, comparisons by hand, stated errors."""

from pathlib import Path

import pytest

import dse
from dse.base.errors import InputError
from dse.calibrate.measurement_set import SHIPPED_MEASUREMENTS
from dse.calibrate.predictions import FIDELITIES
from dse.calibrate.validate import report
from dse.calibrate.validate.whole_networks import compare_networks, load_networks
from dse.cli import entry

HEAD = "device,workload,layers,batch,dtype,pattern,density,time_ms,dense_ms,source"
ROW = r"a100-sxm4-80gb,deit-b,encoder\.layer\.0\.output\.dense,8,bf16,2:4,,2,3,a test"


@pytest.fixture(scope="module")
def rows():
    return report.summarize(compare_networks(load_networks(SHIPPED_MEASUREMENTS / "a100_vit.csv")))


def write(folder: Path, *rows: str) -> Path:
    path = folder / "networks.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return path


def test_calibrated_is_closer_than_sol_for_every_network_and_never_too_slow(rows):
    for row in rows:
        assert row["errors"]["calibrated"]["mape"] < row["errors"]["sol"]["mape"]
    assert report.find_failures(rows) == []
    of_all = {row["quantity"]: row["errors"]["calibrated"] for row in rows if row["kernel"] == "all"}
    assert 0.15 < of_all["time"]["mape"] < 0.3  # work between the kernels is not modelled
    assert of_all["time"]["bias"] == pytest.approx(-of_all["time"]["mape"])
    assert 0.1 < of_all["speedup"]["mape"] < 0.15


def test_the_documentation_has_the_table_of_the_command(rows):
    assert (
        report.format_brief_table(rows, markdown=True) in (Path(__file__).parents[2] / "docs" / "reference" / "validation.md").read_text()
    )


def test_a_row_is_predicted_as_evaluate_does(tmp_path):
    (network,) = load_networks(write(tmp_path, ROW)).networks
    dense = dse.load_workload("deit-b").dense
    assert [name for name, kept in zip(dense.layers.name, network.pruned.density, strict=True) if kept < 1] == [
        "encoder.layer.0.output.dense"
    ]
    a100 = dse.load_accelerator("a100-sxm4-80gb")
    for fidelity in set(FIDELITIES) - {"r3"}:
        time = dse.evaluate(a100, dense, batch=8, dtype="bf16", fidelity=fidelity).latency.sum()
        assert network.predicted_latencies[fidelity][0] == pytest.approx(float(time))
        assert network.predicted_latencies[fidelity][1] < network.predicted_latencies[fidelity][0]


def test_the_constant_efficiency_of_a_run_is_the_one_that_the_description_states(tmp_path):
    (network,) = load_networks(write(tmp_path, ROW)).networks
    stated = network.device.at("units.tensor_core.runs.dense.efficiency").value
    assert 0.5 < stated < 1
    sol = dse.evaluate(network.device, network.dense, batch=8, dtype="bf16", fidelity="sol")
    is_compute_bound = sol.bound.values == "tensor_core"
    least = float(sol.latency[is_compute_bound].sum()) / stated
    assert network.predicted_latencies["r3"][0] >= least
    assert network.predicted_latencies["r3"][0] == pytest.approx(least + float(sol.latency[~is_compute_bound].sum()), rel=0.1)


def test_each_dense_latency_counts_once(tmp_path):
    comparisons = compare_networks(load_networks(write(tmp_path, ROW, ROW.replace("2:4,", "block:64x64,0.2"))))
    assert [(c.family, c.quantity) for c in comparisons] == [
        ("dense", "time"), ("2:4", "time"), ("2:4", "speedup"), ("block:64x64", "time"), ("block:64x64", "speedup")
    ]  # fmt: skip
    assert [c.measured for c in comparisons] == pytest.approx([3e-3, 2e-3, 1.5, 2e-3, 1.5])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("a100-sxm4-80gb", "a1000", "'a1000' is not an accelerator of the catalogue"),
        ("deit-b", "deit-c", "'deit-c' is not a workload of the catalogue"),
        ("output", "outputs", "no layer of 'deit-b' is named"),
        ("bf16", "bf17", "unknown dtype 'bf17'"),
        (",2,3,", ",-2,3,", "time_ms: -2 is out of range"),
        (r"encoder\.", "(", "'(layer"),
    ],
)  # fmt: skip
def test_errors_of_rows_name_their_lines(tmp_path, old, new, message):
    with pytest.raises(InputError) as caught:
        load_networks(write(tmp_path, ROW, ROW.replace(old, new)))
    assert "networks.csv:3" in str(caught.value)
    assert message in str(caught.value)


def test_the_command_draws_and_prints_networks(tmp_path, capsys):
    write(tmp_path, ROW)
    assert entry.main(["validate", "--data", str(tmp_path), "-o", str(tmp_path / "out")]) in (0, 1)
    assert "whole networks\n" in capsys.readouterr().out
    assert (tmp_path / "out" / "networks.png").exists()
