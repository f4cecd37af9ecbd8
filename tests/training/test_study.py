"""A study: legal masks at every step, pruned weights that stay zero, and the same result after an interruption."""

import shutil

import numpy as np
import pytest

from dse.base.errors import InputError
from dse.sparsity import legal
from dse.training.checkpoint import Checkpoint
from dse.training.pruning_path import pruning_path
from dse.training.study import NetworkStudy, count_steps, planned_paths
from tests.training.conftest import run, same_result, tiny_request


def all_steps(request, out):
    """The result of every step of a finished study, read from its checkpoint."""
    study = NetworkStudy(request, "mixer", Checkpoint(out), lambda count: None)
    study.run()
    return study.results


def test_masks_are_legal_nested_and_exact_at_every_step(tiny_study):
    request, _, out = tiny_study
    results = all_steps(request, out)
    assert len(results) == count_steps(request) == 1 + len(planned_paths(request.targets))
    for path, result in results.items():
        if not path:
            continue
        weights = {name: np.asarray(matrix) for name, matrix in result.networks.prunable_weights().items()}
        for name, masks in result.masks.items():
            assert legal(masks, path[-1].pattern).all()
            assert not (weights[name][~masks] != 0).any()  # pruned weights are zero after training
            if len(path) > 1:
                assert not (masks & ~results[path[:-1]].masks[name]).any()
        for member in range(len(request.seeds)):
            share = sum(masks[member].sum() for masks in result.masks.values()) / sum(masks[member].size for masks in result.masks.values())
            assert share == 1 - path[-1].sparsity


def test_training_changes_the_weights_that_are_left(tiny_study):
    request, _, out = tiny_study
    results = all_steps(request, out)
    path = pruning_path(request.targets[0])
    before, after = (results[each].networks.prunable_weights() for each in (path[:-1], path))
    for name, masks in results[path].masks.items():
        assert (np.asarray(before[name])[masks] != np.asarray(after[name])[masks]).mean() > 0.99


def test_networks_learn(tiny_study):
    _, result, _ = tiny_study
    assert (result.dense.accuracies > 30).all()  # of 10 classes, after 16 steps


def test_the_same_seed_gives_the_same_result(tiny_study, tmp_path):
    _, result, _ = tiny_study
    few = tiny_request((("1:4", None),))
    again = run(few, tmp_path / "again")
    assert np.array_equal(again.dense.accuracies, result.dense.accuracies)
    target = few.targets[0]
    assert np.array_equal(again.targets[target].accuracies, result.targets[target].accuracies)  # other targets do not matter


def test_a_study_without_some_steps_trains_them_again_to_the_same_result(tiny_study, tmp_path):
    request, result, out = tiny_study
    folder = shutil.copytree(Checkpoint(out).folder, Checkpoint(tmp_path / "out").folder)
    for file in sorted((folder / "mixer").glob("[b1]*.npz")):
        file.unlink()
    assert same_result(run(request, tmp_path / "out"), result)


def test_a_checkpoint_of_another_request_is_refused_unless_forced(tiny_study, tmp_path):
    request, _, out = tiny_study
    shutil.copytree(Checkpoint(out).folder, Checkpoint(tmp_path / "out").folder)
    other, checkpoint = tiny_request((("2:4", None),)).fingerprint(), Checkpoint(tmp_path / "out")
    with pytest.raises(InputError, match="is the checkpoint of another study; finish it"):
        checkpoint.open(other, force=False)
    assert checkpoint.open(request.fingerprint(), force=False) == count_steps(request)
    assert checkpoint.open(other, force=True) == 0


def test_a_damaged_step_is_reported(tiny_study, tmp_path):
    request, _, out = tiny_study
    folder = shutil.copytree(Checkpoint(out).folder, Checkpoint(tmp_path / "out").folder)
    file = folder / "mixer" / "1-4_0.75.npz"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"is damaged .* remove it, and the step is trained again"):
        run(request, tmp_path / "out")
