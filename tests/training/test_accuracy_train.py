"""`dse accuracy train`: a workload that a sweep takes, every error at once, and the same files after the process was killed."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import stats

import dse
from dse.cli.entry import main
from dse.plot.measured_accuracy import family
from dse.readers.smtx import read_smtx
from dse.training.export import mean_accuracy, write_smtx
from tests.training.conftest import few_digits

OPTIONS = ("--networks", "mixer", "--seeds", "2", "--profile", "quick", "--sparsities", "0.5", "0.75", "--patterns", "unstructured", "1:4")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file of few digits."""
    digits, path = few_digits(), tmp_path_factory.mktemp("data") / "few.npz"
    arrays = {name: getattr(digits, name) for name in ("train_images", "train_labels", "test_images", "test_labels")}
    np.savez(path, **arrays)
    return path


@pytest.fixture(scope="module")
def study(data, tmp_path_factory):
    """The results of one small study."""
    out = tmp_path_factory.mktemp("results") / "out"
    assert main(["accuracy", "train", *OPTIONS, "--data", str(data), "--smtx", "-o", str(out)]) == 0
    return out


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_the_workload_has_measured_accuracies_with_intervals(study):
    workload = dse.load_workload(study / "few-mixer")
    assert {str(variant) for variant in workload.variants} == {
        "lr_rewinding unstructured 0.5", "lr_rewinding unstructured 0.75", "lr_rewinding 1:4 0.75",
    }  # fmt: skip
    seeds = read(study / "seeds.csv")
    for variant in workload.variants:
        values = [
            float(row["accuracy"])
            for row in seeds
            if row["pattern"] == str(variant.pattern) and float(row["sparsity"]) == variant.nominal_sparsity
        ]
        assert variant.accuracy == pytest.approx(np.mean(values), abs=1e-3)
        assert variant.accuracy_low <= variant.accuracy <= variant.accuracy_high
        assert variant.accuracy_kind == "measured"
        assert variant.sparsity == variant.nominal_sparsity


def test_a_sweep_runs_on_it(study):
    spec = {
        "name": "small",
        "accelerators": ["a100-sxm4-80gb"],
        "workloads": {str(study / "few-mixer"): {"methods": "all"}},
        "batch": [64],
        "dtype": "fp16",
    }
    assert dse.sweep(spec).sizes["variant"] >= 3


def test_masks_and_dense_weights_are_written_for_every_seed(study):
    index = read(study / "masks" / "index.csv")
    assert len(index) == 3 * 2 * 8  # targets, seeds, layers
    for row in index:
        mask = np.concatenate(list(next(iter(read_smtx(study / "masks" / row["file"]).tensors.values())).slabs()))
        archive = study / "masks" / row["file"].replace(f"/{row['layer']}.smtx", ".npz")
        np.testing.assert_array_equal(mask != 0, np.load(archive)[row["layer"]])
        assert (mask != 0).sum() == int(row["nnz"]) == (1 - float(row["sparsity"])) * int(row["m"]) * int(row["k"])
    assert sorted(np.load(study / "dense" / "mixer_seed1.npz").files)[:2] == ["blocks.0.channels1", "blocks.0.channels2"]


def test_a_killed_study_goes_on_to_the_same_files(study, data, tmp_path):
    """Killed after its first pruning step, and started again."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "dse", "accuracy", "train", *OPTIONS, "--data", str(data), "--smtx", "-o", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while len(list((tmp_path / "out.partial").glob("*/*.npz"))) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    assert main(command[3:]) == 0
    assert not (tmp_path / "out.partial").exists()
    for name in ("seeds.csv", "few-mixer/accuracy.csv", "few-mixer/variants/lr_rewinding.csv", "masks/index.csv", "study.json"):
        assert (out / name).read_text() == (study / name).read_text(), name


def test_results_are_replaced_with_force_alone(study, capsys):
    assert main(["accuracy", "train", *OPTIONS, "-o", str(study)]) == 2
    assert "exists already; give another path, or replace it with --force" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["out", "out.partial"])
def test_a_folder_of_other_files_is_never_replaced(data, name, tmp_path, capsys):
    thesis = tmp_path / name / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("text")
    assert main(["accuracy", "train", *OPTIONS, "--data", str(data), "--force", "-o", str(tmp_path / "out")]) == 2
    assert f"'{thesis.parent}' exists already, and is not a" in capsys.readouterr().err
    assert thesis.read_text() == "text"


def test_every_error_is_reported_before_any_work(tmp_path, capsys):
    words = [
        "--networks",
        "resnett",
        "--profile",
        "slow",
        "--seeds",
        "0",
        "--sparsities",
        "0.9",
        "1.5",
        "--patterns",
        "2:4",
        "2:q",
        "unstructured",
        "dense",
        "--data",
        "gone.npz",
    ]
    assert main(["accuracy", "train", *words, "-o", str(tmp_path / "out")]) == 2
    errors = capsys.readouterr().err
    for text in (
        "--networks: unknown network 'resnett'; did you mean 'resnet'?",
        "--profile: unknown profile 'slow'",
        "--seeds: 0 seeds are out of range; write a number from 1 to 1000",
        "--patterns: a sparsity of 1.5 is out of range; write a number above 0 and below 1",
        "--patterns: '2:4' is 0.5 sparse and reaches none of 0.9, 1.5; add 0.5, or leave it out",
        "'2:q'",
        "gone.npz: cannot be read (No such file or directory)",
    ):
        assert text in errors
    assert list(tmp_path.iterdir()) == []


def test_patterns_too_coarse_for_a_network_are_refused(tmp_path, capsys):
    assert main(["accuracy", "train", "--networks", "mixer", "--patterns", "block:64x64", "1:64", "-o", str(tmp_path / "out")]) == 2
    errors = capsys.readouterr().err
    assert "blocks.0.tokens1: a block of 'block:64x64', 64x64, is larger than the 64x32 matrix" in errors
    assert "the groups of '1:64' are wider than the 64x32 matrix" in errors
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dse.cli.accuracy_train.find_spec", lambda name: None)
    assert main(["accuracy", "train", "-o", str(tmp_path / "out")]) == 2
    assert "training needs equinox, optax, sklearn; install it: pip install 'sparse-dse[train]'" in capsys.readouterr().err


def test_the_interval_is_that_of_student():
    """By SciPy's own interval of a mean, and none for one seed."""
    values = np.array([97.0, 96.5, 98.1])
    low, high = stats.t.interval(0.9, 2, values.mean(), stats.sem(values))
    assert mean_accuracy(values) == (round(values.mean(), 4), round(low, 4), round(high, 4))
    assert mean_accuracy(values[:1]) == (97.0, None, None)
    assert mean_accuracy(np.array([1.0, 99.0])) == (50.0, 0.0, 100.0)  # no accuracy is below 0 or above 100%


def test_a_written_mask_is_read_back(tmp_path):
    mask = np.random.default_rng(0).random((5, 7)) < 0.4
    write_smtx(tmp_path / "mask.smtx", mask)
    (tensor,) = read_smtx(tmp_path / "mask.smtx").tensors.values()
    np.testing.assert_array_equal(np.concatenate(list(tensor.slabs())) != 0, mask)


def test_json_has_a_row_for_every_target_and_the_dense_network(data, tmp_path, capsys):
    words = [
        "--networks",
        "mixer",
        "--profile",
        "quick",
        "--seeds",
        "1",
        "--patterns",
        "1:2",
        "--data",
        str(data),
        "-o",
        str(tmp_path / "out"),
    ]
    assert main(["accuracy", "train", *words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["pattern"], row["sparsity"], row["low"]) for row in rows] == [("dense", 0.0, None), ("1:2", 0.5, None)]


def test_patterns_that_differ_in_their_group_are_one_family():
    patterns = ("1:4", "2:16", "16:2:8", "16:1:32", "4:8x16", "block:4x4", "unstructured", "block:16x16/2:4")
    assert [family(pattern) for pattern in patterns] == [
        "1:M",
        "2:M",
        "16:N:M",
        "16:N:M",
        "4:Mx16",
        "block:4x4",
        "unstructured",
        "block:16x16/2:4",
    ]
