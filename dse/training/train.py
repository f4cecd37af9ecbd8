"""Train stacks of networks: the members of a stack, one for each seed and step, are along the first axis of every array.

Pruned weights are zero after every step. One compiled function serves the dense networks and every pattern: masks, learning
rates and batches are inputs.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import Bool, Float, Int, PyTree

from dse.base.array_types import AnyArray
from dse.sparsity.pruned_pattern import PrunedPattern
from dse.sparsity.pruning import Scope
from dse.training.masks import Masks, choose_masks
from dse.training.networks.weight_matrix import NetworkConstructor, SmallNetwork
from dse.training.schedule import Batches

StackedMasks = Mapping[str, Bool[AnyArray, "member m k"]]
MemberMasks = Mapping[str, Bool[AnyArray, "m k"]]
Images = Float[AnyArray, "image height width channel"]
Labels = Int[AnyArray, " image"]
Carry = tuple[PyTree, optax.OptState]  # from one step of training to the next
MAX_GRADIENT = 1.0  # norm to which gradients are clipped
Tree = TypeVar("Tree")


def dense_masks(networks: SmallNetwork) -> dict[str, Bool[np.ndarray, "member m k"]]:
    """The masks of dense networks."""
    return {name: np.ones(matrix.shape, bool) for name, matrix in networks.prunable_weights().items()}


def train(
    networks: SmallNetwork,
    masks: StackedMasks,
    batches: Batches,
    rates: Float[np.ndarray, "epoch step"],
    images: Images,
    labels: Labels,
    weight_decay: float,
) -> SmallNetwork:
    """Train each member with its own masks and batches; returns the trained stack."""
    networks, state = prepare(networks, masks)
    for epoch, epoch_rates in enumerate(rates):
        networks, state = train_epoch(networks, state, masks, batches[:, epoch], epoch_rates, images, labels, weight_decay)
    return networks


@eqx.filter_jit
@eqx.filter_vmap
def prepare(network: SmallNetwork, masks: MemberMasks) -> tuple[SmallNetwork, optax.OptState]:
    """Each member without its pruned weights, and the initial state of its optimizer."""
    pruned = apply_masks(network, masks)
    return pruned, make_optimizer(0.0).init(eqx.filter(pruned, eqx.is_inexact_array))


def make_optimizer(weight_decay: float) -> optax.GradientTransformation:
    """AdamW without its learning rate (Loshchilov and Hutter 2019, arXiv 1711.05101), with clipped gradients."""
    return optax.chain(optax.clip_by_global_norm(MAX_GRADIENT), optax.scale_by_adam(), optax.add_decayed_weights(weight_decay))


def apply_masks(network: SmallNetwork, masks: MemberMasks) -> SmallNetwork:
    """Set the pruned weights to zero."""
    weights = network.prunable_weights()
    return network.with_weights({name: jnp.where(masks[name], weight, 0.0) for name, weight in weights.items()})


def mean_loss(network: SmallNetwork, images: Float[Array, "batch height width channel"], labels: Int[Array, " batch"]) -> Float[Array, ""]:
    """Mean cross-entropy of one batch."""
    scores = jax.vmap(network)(images)
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


@eqx.filter_jit
def train_epoch(
    networks: SmallNetwork,
    state: optax.OptState,
    masks: StackedMasks,
    batches: Int[AnyArray, "member step batch"],
    rates: Float[AnyArray, " step"],
    images: Images,
    labels: Labels,
    weight_decay: float,
) -> tuple[SmallNetwork, optax.OptState]:
    """Train every member for the steps of one epoch."""
    optimizer = make_optimizer(weight_decay)

    def train_member(
        network: SmallNetwork, state: optax.OptState, masks: MemberMasks, batches: Int[Array, "step batch"]
    ) -> tuple[SmallNetwork, optax.OptState]:
        arrays, static = eqx.partition(network, eqx.is_inexact_array)

        def train_step(carry: Carry, inputs: tuple[Int[Array, " batch"], Float[AnyArray, ""]]) -> tuple[Carry, None]:
            arrays, state = carry
            batch, rate = inputs
            full_gradients = eqx.filter_grad(mean_loss)(eqx.combine(arrays, static), images[batch], labels[batch])
            gradients: PyTree = apply_masks(full_gradients, masks)
            updates, state = optimizer.update(gradients, state, arrays)
            arrays = jax.tree.map(lambda value, update: value - rate * update, arrays, updates)
            return (apply_masks(arrays, masks), state), None

        (arrays, state), _ = jax.lax.scan(train_step, (arrays, state), (batches, rates))
        return eqx.combine(arrays, static), state

    return eqx.filter_vmap(train_member)(networks, state, masks, batches)


def initialize_stack(network: NetworkConstructor, image_shape: tuple[int, int, int], labels: int, seeds: Sequence[int]) -> SmallNetwork:
    """A stack of networks with random weights, one for each seed."""
    keys = jax.vmap(jax.random.key)(jnp.array(seeds))
    return eqx.filter_vmap(lambda key: network(image_shape, labels, key))(keys)


def concatenate_stacks(trees: Sequence[Tree]) -> Tree:
    """Concatenate the members of several stacks."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trees)


def take_members(tree: Tree, start: int, stop: int) -> Tree:
    """Some members of a stack."""
    return jax.tree.map(lambda leaf: leaf[start:stop], tree)


def prune_members(networks: SmallNetwork, step: PrunedPattern, scope: Scope) -> dict[str, Bool[np.ndarray, "member m k"]]:
    """Choose the masks of every member from its own weights."""
    weights = {name: np.asarray(matrix) for name, matrix in networks.prunable_weights().items()}
    masks: list[Masks] = [
        choose_masks({name: matrix[member] for name, matrix in weights.items()}, step, scope)
        for member in range(len(next(iter(weights.values()))))
    ]
    return {name: np.stack([mask[name] for mask in masks]) for name in weights}


def measure_accuracy(networks: SmallNetwork, images: Images, labels: Labels) -> Float[np.ndarray, " member"]:
    """Share of the images that each member classifies correctly, in percent."""
    return np.asarray(_count_correct(networks, images, labels), np.float64) * 100 / len(labels)


@eqx.filter_jit
def _count_correct(networks: SmallNetwork, images: Images, labels: Labels) -> Int[Array, " member"]:
    scores = eqx.filter_vmap(lambda network: jax.lax.map(network, images, batch_size=256))(networks)
    return (scores.argmax(-1) == labels).sum(-1)
