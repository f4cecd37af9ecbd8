"""Write the results of a study: workload folders that sweeps take, masks, dense weights, and the accuracy of every seed.

    OUT/DATA-NETWORK/       a workload: layers, statistics of the masks, accuracies with intervals
    OUT/seeds.csv           the accuracy of each seed
    OUT/dense/              weights of the dense networks, one .npz for each network and seed, arrays named after layers
    OUT/masks/              masks of each network, target and seed, and index.csv
    OUT/study.json          the request and the versions that the result depends on
    OUT/accuracy.png        the figure, which the command adds

Statistics of masks are those of the first seed; with scope `layer` the nonzeros of each layer are the same for all seeds.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from dse.networks.layers import LayerRow
from dse.readers.parsed_network import NetworkState, ParsedNetwork, operators_of_layers
from dse.sparsity.pruned_pattern import PrunedPattern
from dse.sparsity.statistics import BLOCKS, GROUPS, count_nonzeros
from dse.trace.coverage import make_report
from dse.trace.trace import CountOptions, TracedState
from dse.trace.write import WorkloadDetails, write_workload
from dse.training.request import STUDY, StudyRequest
from dse.training.study import NetworkResult, StepResult

METHOD = "lr_rewinding"
CONFIDENCE = 0.9


class MeanAccuracy(NamedTuple):
    """The mean accuracy of several seeds in percent; no interval for a single seed."""

    value: float
    low: float | None
    high: float | None


def mean_accuracy(accuracies: Float[np.ndarray, " seed"]) -> MeanAccuracy:
    """The mean and Student's t interval of the mean (Student 1908, Biometrika 6(1)): mean +- t(0.95, seeds - 1) s / sqrt(seeds).

    It holds the spread over initial weights and orders of the images; all seeds are tested on the same images. It is cut at 0 and 100%.
    """
    from scipy import stats

    number, mean = len(accuracies), float(accuracies.mean())
    if number == 1:
        return MeanAccuracy(round(mean, 4), None, None)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, number - 1) * accuracies.std(ddof=1) / np.sqrt(number))
    return MeanAccuracy(round(mean, 4), round(max(mean - half, 0.0), 4), round(min(mean + half, 100.0), 4))


BLOCK_SIZES = ((2, 2), *BLOCKS[:-1])
NOTES = (
    "The first layer and the classifier are not pruned. Normalisation, activation functions and residual additions count as fused.",
    "Each pruning step prunes at most half of the weights that are left, and trains with the learning rates of the last epochs of the "
    "dense network (learning-rate rewinding, Renda et al. 2020, arXiv 2003.02389).",
    "Statistics of masks are those of the first seed.",
)


def method_name(request: StudyRequest) -> str:
    """The pruning method in the tables: its scope is named unless every layer keeps the same share."""
    return METHOD if request.scope == "layer" else f"{METHOD}_{request.scope}"


def write_results(folder: Path, request: StudyRequest, results: Sequence[NetworkResult], smtx: bool) -> None:
    """Write all results of a study to an empty folder."""
    for result in results:
        _write_workload(folder / f"{request.dataset.name}-{result.name}", request, result)
        _write_dense_weights(folder / "dense", request, result)
    _write_table(folder / "seeds.csv", ("network", "pattern", "sparsity", "seed", "accuracy"), _seed_rows(request, results))
    index = [row for result in results for row in _write_masks(folder, request, result, smtx)]
    _write_table(folder / "masks" / "index.csv", ("network", "pattern", "sparsity", "seed", "layer", "m", "k", "nnz", "file"), index)
    versions = {name: version(name) for name in ("sparse-dse", "jax", "equinox", "optax", "numpy")}
    report = {**json.loads(request.fingerprint()), "device": jax.devices()[0].device_kind, "versions": versions}
    (folder / STUDY).write_text(json.dumps(report, indent=2) + "\n")


def _write_workload(folder: Path, request: StudyRequest, result: NetworkResult) -> None:
    layers = tuple(result.dense.networks.layer_rows())
    states = [_count_masks(target, step, layers, method_name(request)) for target, step in result.targets.items()]
    network = ParsedNetwork(folder, "trained by dse accuracy train", layers, (NetworkState({}),), operators_of_layers(layers))
    report = make_report(network, states, CountOptions(blocks=BLOCK_SIZES, groups=GROUPS))
    write_workload(folder, network, states, report, _details(request, result), {})


def _details(request: StudyRequest, result: NetworkResult) -> WorkloadDetails:
    dataset, seeds = request.dataset, len(request.seeds)
    sizes = f"{len(dataset.train_images)} images to train on, {len(dataset.test_images)} to test on"
    source = f"dse accuracy train, {seeds} seeds, sparse-dse {version('sparse-dse')}; interval: Student's t over the seeds"
    dense, method = mean_accuracy(result.dense.accuracies), method_name(request)
    shape, rows = "x".join(map(str, dataset.image_shape)), []
    for target, step in result.targets.items():
        mean = mean_accuracy(step.accuracies)
        rows.append((method, str(target.pattern), target.sparsity, mean.value, dense.value, source, "measured", mean.low, mean.high))
    return WorkloadDetails(
        task=f"image classification, {dataset.name}: {sizes}", metric="top-1 accuracy", unit="%",
        description=f"small {result.name} for images of {shape}, trained and pruned by dse accuracy train",
        sources=(f"images: {dataset.source}", "layers, masks and accuracies: measured by dse accuracy train"), notes=NOTES,
        accuracies=tuple(rows),
    )  # fmt: skip


def _count_masks(target: PrunedPattern, step: StepResult, layers: tuple[LayerRow, ...], method: str) -> TracedState:
    """Statistics of the masks of the first seed."""
    sizes = tuple(dict.fromkeys((*((1, group) for group in GROUPS), *BLOCK_SIZES)))
    statistics = {name: count_nonzeros([masks[0]], masks.shape[2], sizes) for name, masks in step.masks.items()}
    nonzeros = {name: float(layer.nnz) for name, layer in statistics.items()}
    realised = 1 - sum(nonzeros.values()) / sum(layer.size for layer in statistics.values())
    return TracedState(method, target.pattern, target.sparsity, realised, statistics, nonzeros, "channels-last")


def _write_dense_weights(folder: Path, request: StudyRequest, result: NetworkResult) -> None:
    folder.mkdir(exist_ok=True)
    matrices = result.dense.networks.weight_matrices()
    for member, seed in enumerate(request.seeds):
        weights = {name: np.asarray(matrix.weight)[member] for name, matrix in matrices.items()}
        np.savez(folder / f"{result.name}_seed{seed}.npz", **weights)


def _seed_rows(request: StudyRequest, results: Sequence[NetworkResult]) -> Iterable[tuple[object, ...]]:
    for result in results:
        steps = [("dense", 0, result.dense)] + [(target.pattern, target.sparsity, step) for target, step in result.targets.items()]
        for pattern, sparsity, step in steps:
            for seed, accuracy in zip(request.seeds, step.accuracies, strict=True):
                yield result.name, pattern, sparsity, seed, round(float(accuracy), 4)


def _write_masks(folder: Path, request: StudyRequest, result: NetworkResult, smtx: bool) -> Iterable[tuple[object, ...]]:
    """Write the masks of one network; returns the rows of the index. With `smtx` each layer has a file of its own."""
    for target, step in result.targets.items():
        for member, seed in enumerate(request.seeds):
            masks, name = {layer: mask[member] for layer, mask in step.masks.items()}, f"{result.name}/{target.label}_seed{seed}"
            path = folder / "masks" / f"{name}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(path, **masks)
            for layer, mask in masks.items():
                file = f"{name}/{layer}.smtx" if smtx else f"{name}.npz"
                if smtx:
                    write_smtx(folder / "masks" / file, mask)
                yield result.name, target.pattern, target.sparsity, seed, layer, *mask.shape, int(mask.sum()), file


def write_smtx(path: Path, mask: np.ndarray) -> None:
    """Write a mask as compressed sparse rows in text, the format of the Deep Learning Matrix Collection."""
    path.parent.mkdir(parents=True, exist_ok=True)
    offsets = np.concatenate([[0], mask.sum(axis=1).cumsum()])
    lines = (f"{mask.shape[0]}, {mask.shape[1]}, {int(mask.sum())}", " ".join(map(str, offsets)), " ".join(map(str, np.nonzero(mask)[1])))
    path.write_text("\n".join(lines) + "\n")


def _write_table(path: Path, header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
