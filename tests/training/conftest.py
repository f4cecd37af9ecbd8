"""A small data set and one small study, whose steps several tests look at."""

from pathlib import Path

import numpy as np
import pytest

from dse.sparsity.grammar import parse
from dse.sparsity.pruned_pattern import PrunedPattern
from dse.training.checkpoint import Checkpoint
from dse.training.dataset import Dataset, load_digits
from dse.training.request import Profile, StudyRequest
from dse.training.study import NetworkResult, run_study

TINY = Profile(epochs=4, rewound_epochs=2, seeds=2, networks=("mixer",), patterns=())
TARGETS = (("unstructured", 0.75), ("block:4x4", 0.75), ("1:4", None), ("16:2:8", None), ("block:16x16/2:4", 0.75))


def few_digits() -> Dataset:
    """128 digits to train on, and 100 to test on."""
    digits = load_digits()
    images, labels = digits.train_images, digits.train_labels
    return Dataset("few", "a test", images[:128], labels[:128], digits.test_images[:100], digits.test_labels[:100])


def tiny_request(targets=TARGETS, scope="layer") -> StudyRequest:
    steps = tuple(PrunedPattern.of(parse(pattern), sparsity) for pattern, sparsity in targets)
    return StudyRequest(few_digits(), ("mixer",), steps, (0, 1), TINY, scope)


def run(request: StudyRequest, out: Path) -> NetworkResult:
    checkpoint = Checkpoint(out)
    checkpoint.open(request.fingerprint(), force=False)
    (result,) = run_study(request, checkpoint, lambda count: None)
    return result


@pytest.fixture(scope="session")
def tiny_study(tmp_path_factory) -> tuple[StudyRequest, NetworkResult, Path]:
    """A study of one network, and the folder of its checkpoint."""
    out, request = tmp_path_factory.mktemp("study") / "out", tiny_request()
    return request, run(request, out), out


def same_result(left: NetworkResult, right: NetworkResult) -> bool:
    """Whether all accuracies and all masks of two studies are equal, bit by bit."""
    if left.targets.keys() != right.targets.keys() or not np.array_equal(left.dense.accuracies, right.dense.accuracies):
        return False
    pairs = [(result, right.targets[target]) for target, result in left.targets.items()]
    return all(
        np.array_equal(one.accuracies, other.accuracies) and all(np.array_equal(one.masks[name], other.masks[name]) for name in one.masks)
        for one, other in pairs
    )
