"""`dse trace --activations`, from recorded inputs of layers to results of the model."""

import csv
from pathlib import Path

import numpy as np
import pytest

import dse
from dse.cli.entry import main
from dse.readers import parsed_network
from dse.readers.weight_files import read_tensors

RECORDED = np.maximum(np.array([[-1.0, 2, 0, -3], [1, -1, 0, -2], [4, 0, 0, 0], [5, 6, 7, 0]]), 0)


@pytest.fixture
def trace(tmp_path: Path, monkeypatch):
    """Traces a network of a linear layer and a convolution with recorded inputs; returns the exit code."""
    monkeypatch.chdir(tmp_path)
    np.savez("net.npz", fc=np.ones((8, 4)), conv=np.ones((6, 2, 3, 3)))

    def run(*options: str, **arrays: np.ndarray) -> int:
        np.savez("recorded.npz", **arrays)
        return main(["trace", "net.npz", "-o", "workloads/mine", "--activations", "recorded.npz", *options])

    return run


def rows(name: str) -> list[dict[str, str]]:
    with Path("workloads/mine/statistics", name).open() as file:
        return list(csv.DictReader(file))


def test_recorded_activations_are_counted_layer_by_layer(trace, capsys):
    assert trace(fc=RECORDED.reshape(2, 2, 4)) == 0
    assert "recorded inputs of layers" in capsys.readouterr().out
    (variant,) = dse.load_workload("workloads/mine").variants
    assert list(variant.input_density) == [6 / 16, 1]
    (row,) = rows("activations.csv")
    assert (row["tokens"], row["channels"], row["empty_channels"]) == ("4", "4", "0.25")
    assert [(row["tokens"], row["union_density"]) for row in rows("activation_tokens.csv")] == [
        ("1", "0.375"),
        ("2", "0.625"),
        ("4", "0.75"),
    ]
    over = {row["activation_pattern"]: float(row["groups_over"]) for row in rows("activation_channels.csv")}
    assert (over["2:4"], over["3:4"]) == (1 / 4, 0)
    assert {tokens: share[0] for tokens, share in variant.union_densities.items()} == {1: 0.375, 2: 0.625, 4: 0.75}


def test_tokens_of_a_convolution_are_pixels(trace):
    image = np.zeros((1, 2, 2, 2))
    image[0, 0] = [[1, 0], [3, 4]]
    assert trace("--groups", "2", conv=image) == 0
    (row,) = rows("activations.csv")
    assert (row["tokens"], row["channels"], row["density"], row["empty_channels"]) == ("4", "2", "0.375", "0.5")
    assert [row["union_density"] for row in rows("activation_tokens.csv")] == ["0.375", "0.5", "0.5"]
    assert [(row["activation_pattern"], row["groups_over"]) for row in rows("activation_channels.csv")] == [("1:2", "0")]


def test_the_model_uses_the_measured_union(trace):
    """By hand: units that compute 2 tokens together need 0.625 of the inputs, where independent zeros would leave 1 - (1 - 0.375)^2."""
    assert trace(fc=RECORDED) == 0
    run = {"pattern": "dense", "activations": {"tokens": 2}}
    chip = {
        "name": "chip", "source": "test", "memory": {"dram": {"bandwidth": "100 TB/s"}},
        "units": {"u": {"peak": {"fp16": "1 GFLOP/s"}, "runs": {"dense": run}}},
    }  # fmt: skip
    (variant,) = dse.load_workload("workloads/mine").variants
    latency = dse.evaluate(chip, variant, 2).latency.values
    assert latency[0] == pytest.approx(0.625 * 2 * 8 * 4 * 2 / 1e9)
    assumed = dse.load_workload("workloads/mine").with_activation_density(0.375).variants[0]
    assert dse.evaluate(chip, assumed, 2).latency.values[0] == pytest.approx((1 - 0.625**2) * 2 * 8 * 4 * 2 / 1e9)


def test_dse_show_prints_the_recorded_inputs(trace, capsys):
    assert trace(fc=RECORDED) == 0
    capsys.readouterr()
    assert main(["show", "workloads/mine"]) == 0
    shown = capsys.readouterr().out
    assert "name: mine" in shown
    assert "fc     4       4         0.375" in shown


def test_all_errors_of_a_recording_are_reported_at_once(trace, capsys):
    broken = np.ones((3, 4))
    broken[2, 1] = np.nan
    assert trace(fc=np.ones((2, 5)), conv=np.ones((1, 5, 4, 4)), fc9=np.ones(4)) == 2
    first = capsys.readouterr().err
    assert "recorded.npz: fc: the array is 2x5, but the layer has 4 input channels; record the input [..., token, channel]" in first
    assert "recorded.npz: conv: the array is 1x5x4x4, and 5 channels do not divide the 18 inputs of the layer's filters" in first
    assert "recorded.npz: fc9: no layer is called 'fc9'; did you mean 'fc'?" in first
    assert trace(fc=broken, conv=np.ones((0, 2, 4, 4))) == 2
    second = capsys.readouterr().err
    assert "recorded.npz: fc: the activation of token 2, channel 1 is nan" in second
    assert "recorded.npz: conv: the array is empty; record at least one token" in second
    assert not Path("workloads").exists()


@pytest.mark.parametrize("ending", [".npz", ".npy", ".safetensors"])
def test_a_long_recording_of_one_sample_is_read_in_slabs(tmp_path, monkeypatch, ending):
    """Tokens of one sample, which lie behind a first axis of 1, are not read as a whole."""
    path, array = tmp_path / f"fc{ending}", np.arange(2 * 50 * 4, dtype=np.float32).reshape(1, 2, 50, 4)
    if ending == ".safetensors":
        safetensors = pytest.importorskip("safetensors.numpy")
        safetensors.save_file({"fc": array}, path)
    else:
        np.savez(path, fc=array) if ending == ".npz" else np.save(path, array)
    monkeypatch.setattr(parsed_network, "SLAB_BYTES", 10 * 4 * 4)
    slabs = list(read_tensors(path).tensors["fc"].read_matrix())
    assert [slab.shape for slab in slabs] == [(10, 4)] * 10
    np.testing.assert_array_equal(np.concatenate(slabs), array.reshape(100, 4))


def test_statistics_of_another_layer_are_an_error(trace, capsys):
    assert trace(fc=RECORDED) == 0
    table = Path("workloads/mine/statistics/activation_tokens.csv")
    table.write_text(table.read_text().replace(",fc,2,", ",conv,2,").replace(",fc,4,", ",fc,1,"))
    assert main(["check", "workloads/mine"]) != 0
    output = "".join(capsys.readouterr())
    assert "activation_tokens.csv:3: no variant 'traced unstructured 0' has an activation_density of a layer 'conv'" in output
    assert "activation_tokens.csv:4: what 1 tokens need of 'fc' is given twice" in output
