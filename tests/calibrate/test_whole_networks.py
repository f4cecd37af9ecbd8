"""Whole networks against what was measured: files, errors by hand, what is stated."""

from pathlib import Path

import pytest

import dse
from dse.base.errors import InputError
from dse.calibrate.fidelities import RUNGS
from dse.calibrate.measured_set import SHIPPED_MEASUREMENTS
from dse.calibrate.validate import networks, report
from dse.cli import entry
from dse.model.efficiency import kernel_file
from dse.model.efficiency.kernel_file import SHIPPED

HEAD = "device,workload,layers,batch,dtype,pattern,density,time_ms,dense_ms,source"
ROW = r"a100-sxm4-80gb,deit-b,encoder\.layer\.0\.output\.dense,8,bf16,2:4,,2,3,a test"


@pytest.fixture(scope="module")
def rows():
    return report.rows(networks.points(networks.load(SHIPPED_MEASUREMENTS / "a100_vit.csv")))


def written(folder: Path, *rows: str) -> Path:
    path = folder / "networks.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return path


def test_calibrated_is_nearer_than_the_speed_of_light_for_every_network_and_never_faster(rows):
    for row in rows:
        assert row["errors"]["calibrated"]["mape"] < row["errors"]["sol"]["mape"]
    assert report.pays(rows) == []
    whole = {row["quantity"]: row["errors"]["calibrated"] for row in rows if row["kernel"] == "all"}
    assert 0.2 < whole["time"]["mape"] < 0.3  # what is between the kernels is missing
    assert whole["time"]["bias"] == pytest.approx(-whole["time"]["mape"])
    assert 0.1 < whole["speedup"]["mape"] < 0.15


def test_the_documentation_has_the_table_of_the_command(rows):
    assert report.brief(rows, markdown=True) in (Path(__file__).parents[2] / "docs" / "reference" / "validation.md").read_text()


def test_a_row_is_what_evaluate_says_of_the_layers_that_it_names(tmp_path):
    (network,) = networks.load(written(tmp_path, ROW)).networks
    dense = dse.load_workload("deit-b").dense
    assert [name for name, kept in zip(dense.layers.name, network.pruned.density, strict=True) if kept < 1] == [
        "encoder.layer.0.output.dense"
    ]
    a100 = dse.load_accelerator("a100-sxm4-80gb")
    for rung in set(RUNGS) - {"r3"}:
        time = dse.evaluate(a100, dense, batch=8, dtype="bf16", fidelity=rung).latency.sum()
        assert network.predicted[rung][0] == pytest.approx(float(time))
        assert network.predicted[rung][1] < network.predicted[rung][0]


def test_one_efficiency_of_each_run_is_the_mean_of_its_measured_kernel(tmp_path):
    """The constant of the kernel that `calibrated` names first, as if the description said so; times fall between the ends of the ladder."""
    (network,) = networks.load(written(tmp_path, ROW)).networks
    kernels = {str(kernel): kernel for kernel in kernel_file.load(SHIPPED).kernels}
    dense = kernels["a100-sxm4-80gb dense pytorch/pytorch PR #90119 dense fp16"]
    assert dense.constant == pytest.approx(0.71, abs=0.02)
    large = dse.evaluate(network.device, network.dense, batch=8, dtype="bf16", fidelity="sol")
    bound = large.bound.values == "tensor_core"
    least = float(large.latency[bound].sum()) / dense.constant
    assert network.predicted["r3"][0] >= least
    assert network.predicted["r3"][0] == pytest.approx(least + float(large.latency[~bound].sum()), rel=0.1)


def test_each_dense_time_counts_once(tmp_path):
    found = networks.points(networks.load(written(tmp_path, ROW, ROW.replace("2:4,", "block:64x64,0.2"))))
    assert [(p.family, p.quantity) for p in found] == [
        ("dense", "time"), ("2:4", "time"), ("2:4", "speedup"), ("block:64x64", "time"), ("block:64x64", "speedup")
    ]  # fmt: skip
    assert [p.measured for p in found] == pytest.approx([3e-3, 2e-3, 1.5, 2e-3, 1.5])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("a100-sxm4-80gb", "a1000", "no 'a1000' among the shipped accel_models"),
        ("deit-b", "deit-c", "no 'deit-c' among the shipped workloads"),
        ("output", "outputs", "no layer of 'deit-b' is named"),
        ("bf16", "bf17", "unknown dtype 'bf17'"),
        (",2,3,", ",-2,3,", "time_ms: -2 is out of range"),
        (r"encoder\.", "(", "'(layer"),
    ],
)  # fmt: skip
def test_bad_rows_are_told_with_their_numbers(tmp_path, old, new, told):
    with pytest.raises(InputError) as caught:
        networks.load(written(tmp_path, ROW, ROW.replace(old, new)))
    assert "networks.csv:3" in str(caught.value)
    assert told in str(caught.value)


def test_the_command_draws_and_tells_networks(tmp_path, capsys):
    written(tmp_path, ROW)
    assert entry.main(["validate", "--data", str(tmp_path), "-o", str(tmp_path / "out")]) in (0, 1)
    assert "whole networks\n" in capsys.readouterr().out
    assert (tmp_path / "out" / "networks.png").exists()
