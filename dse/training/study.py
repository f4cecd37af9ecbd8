"""Run a study: train the dense networks, then follow every pruning path, one step at a time, from checkpoint to checkpoint.

All seeds of a step are trained at once, and on a GPU many steps too: masks are inputs of one compiled function. Which steps are trained
together follows from the request alone, so that an interrupted study gives the same result bit by bit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Bool, Float

from dse.sparsity.pruned_pattern import PrunedPattern
from dse.training.checkpoint import Checkpoint
from dse.training.networks import NETWORKS
from dse.training.networks.weight_matrix import SmallNetwork
from dse.training.pruning_path import PruningPath, pruning_path
from dse.training.request import StudyRequest
from dse.training.schedule import choose_batches, learning_rates, rewound_rates
from dse.training.train import (
    StackedMasks,
    concatenate_stacks,
    dense_masks,
    initialize_stack,
    measure_accuracy,
    prune_members,
    take_members,
    train,
)

DENSE = "dense"
STEPS_ON_GPU = 16  # trained at once


@dataclass(frozen=True, eq=False)
class StepResult:
    """Networks after one step, one for each seed: accuracies in percent, and the masks of their prunable layers."""

    networks: SmallNetwork
    accuracies: Float[np.ndarray, " seed"]
    masks: dict[str, Bool[np.ndarray, "seed m k"]]


@dataclass(frozen=True, eq=False)
class NetworkResult:
    """One network: the dense result, and the result of each target."""

    name: str
    dense: StepResult
    targets: dict[PrunedPattern, StepResult]


def planned_paths(targets: Sequence[PrunedPattern]) -> list[PruningPath]:
    """Every path that has to be trained, each once; shorter ones first, so that the first steps of a path are trained before it."""
    paths = {path[: length + 1]: None for path in map(pruning_path, targets) for length in range(len(path))}
    return sorted(paths, key=len)


def count_steps(request: StudyRequest) -> int:
    """Steps of a study, the dense networks included."""
    return len(request.networks) * (1 + len(planned_paths(request.targets)))


def run_study(request: StudyRequest, checkpoint: Checkpoint, progress: Callable[[int], object]) -> Iterator[NetworkResult]:
    """Train the networks one after another; `progress` is called with the number of steps that are finished."""
    for name in request.networks:
        yield NetworkStudy(request, name, checkpoint, progress).run()


class NetworkStudy:
    """The steps of one network."""

    def __init__(self, request: StudyRequest, name: str, checkpoint: Checkpoint, progress: Callable[[int], object]):
        self.request, self.name, self.checkpoint, self.progress = request, name, checkpoint, progress
        dataset = request.dataset
        self.initial = initialize_stack(NETWORKS[name], dataset.image_shape, dataset.labels, request.seeds)
        self.results: dict[PruningPath, StepResult] = {}

    def run(self) -> NetworkResult:
        """Train, or read from the checkpoint, the dense networks and every path."""
        self.results[()] = self._load(()) or self._train_dense()
        self.progress(1)
        paths = planned_paths(self.request.targets)
        for length in sorted(set(map(len, paths))):
            level = [path for path in paths if len(path) == length]
            for start in range(0, len(level), size := _group_size()):
                group = level[start : start + size]
                self._run_group(group)
                self.progress(len(group))
        targets = {target: self.results[pruning_path(target)] for target in self.request.targets}
        return NetworkResult(self.name, self.results[()], targets)

    def _run_group(self, paths: list[PruningPath]) -> None:
        loaded = [self._load(path) for path in paths]
        if any(result is None for result in loaded):
            loaded = self._train_pruned(paths)
        self.results.update((path, result) for path, result in zip(paths, loaded, strict=True) if result is not None)

    def _train_dense(self) -> StepResult:
        profile = self.request.profile
        rates = learning_rates(profile.epochs, self._steps_per_epoch, profile.peak_rate)
        networks = self._train(self.initial, dense_masks(self.initial), [()], rates)
        return self._finish((), networks, {})

    def _train_pruned(self, paths: list[PruningPath]) -> list[StepResult]:
        """Prune each path's networks from the result of the step before, and train them together."""
        profile, padded = self.request.profile, paths + [paths[-1]] * (_group_size() - len(paths))
        before = [self.results[path[:-1]].networks for path in padded]
        masks = [prune_members(networks, path[-1], self.request.scope) for networks, path in zip(before, padded, strict=True)]
        stacked_masks = {name: np.concatenate([mask[name] for mask in masks]) for name in masks[0]}
        rates = rewound_rates(profile.epochs, profile.rewound_epochs, self._steps_per_epoch, profile.peak_rate)
        networks, number = self._train(concatenate_stacks(before), stacked_masks, padded, rates), len(self.request.seeds)
        trained = (take_members(networks, position * number, (position + 1) * number) for position in range(len(paths)))
        return [self._finish(*result) for result in zip(paths, trained, masks, strict=False)]

    def _train(self, networks: SmallNetwork, masks: StackedMasks, paths: Sequence[PruningPath], rates: np.ndarray) -> SmallNetwork:
        dataset, profile = self.request.dataset, self.request.profile
        batches = [
            choose_batches(seed, _label(path), len(dataset.train_images), len(rates), profile.batch_size)
            for path in paths
            for seed in self.request.seeds
        ]
        return train(networks, masks, np.stack(batches), rates, dataset.train_images, dataset.train_labels, profile.weight_decay)

    @property
    def _steps_per_epoch(self) -> int:
        return len(self.request.dataset.train_images) // self.request.profile.batch_size

    def _finish(self, path: PruningPath, networks: SmallNetwork, masks: dict[str, np.ndarray]) -> StepResult:
        """Test the networks of a step and write its checkpoint."""
        dataset = self.request.dataset
        result = StepResult(networks, measure_accuracy(networks, dataset.test_images, dataset.test_labels), masks)
        arrays = {f"leaf {number}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(networks))}
        packed = {f"mask {name}": np.packbits(mask, axis=-1) for name, mask in masks.items()}
        self.checkpoint.save(self.name, _label(path), {"accuracies": result.accuracies, **arrays, **packed})
        return result

    def _load(self, path: PruningPath) -> StepResult | None:
        arrays = self.checkpoint.load(self.name, _label(path))
        if arrays is None:
            return None
        leaves, structure = jax.tree.flatten(self.initial)
        networks = jax.tree.unflatten(structure, [arrays[f"leaf {number}"] for number in range(len(leaves))])
        sizes = {name: matrix.shape[-1] for name, matrix in networks.prunable_weights().items()} if path else {}
        masks = {name: np.unpackbits(arrays[f"mask {name}"], axis=-1, count=k).astype(bool) for name, k in sizes.items()}
        return StepResult(networks, arrays["accuracies"], masks)


def _label(path: PruningPath) -> str:
    return path[-1].label if path else DENSE


def _group_size() -> int:
    """Steps that are trained at once."""
    return 1 if jax.default_backend() == "cpu" else STEPS_ON_GPU
