"""Networks that are trained together: the members of a stack, one for each seed and step, along the first axis of every array."""

from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dse.sparsity.pruned_pattern import PrunedPattern
from dse.training.masks import Masks, choose_masks
from dse.training.networks.weight_matrix import SmallNetwork

Tree = TypeVar("Tree")


def initialize(network: type[SmallNetwork], image_shape: tuple[int, int, int], labels: int, seeds: Sequence[int]) -> SmallNetwork:
    """A stack of networks with random weights, one for each seed."""
    constructors: Any = network
    keys = jax.vmap(jax.random.key)(jnp.array(seeds))
    return eqx.filter_vmap(lambda key: constructors(image_shape, labels, key))(keys)


def stack(trees: Sequence[Tree]) -> Tree:
    """Concatenate the members of several stacks."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trees)


def take(tree: Tree, start: int, stop: int) -> Tree:
    """Some members of a stack."""
    return jax.tree.map(lambda leaf: leaf[start:stop], tree)


def prune(networks: SmallNetwork, step: PrunedPattern, scope: Any) -> dict[str, Bool[np.ndarray, "member m k"]]:
    """Choose the masks of every member from its own weights."""
    weights = {name: np.asarray(matrix) for name, matrix in networks.prunable_weights().items()}
    masks: list[Masks] = [
        choose_masks({name: matrix[member] for name, matrix in weights.items()}, step, scope)
        for member in range(len(next(iter(weights.values()))))
    ]
    return {name: np.stack([mask[name] for mask in masks]) for name in weights}


def accuracy(networks: SmallNetwork, images: Float[np.ndarray, "image height width channel"], labels: Any) -> Float[np.ndarray, " member"]:
    """Share of the images that each member classifies correctly, in percent."""
    return np.asarray(_count_correct(networks, images, labels), np.float64) * 100 / len(labels)


@eqx.filter_jit
def _count_correct(networks: SmallNetwork, images: Any, labels: Any) -> Any:
    scores = eqx.filter_vmap(lambda network: jax.lax.map(network, images, batch_size=256))(networks)
    return (scores.argmax(-1) == labels).sum(-1)
