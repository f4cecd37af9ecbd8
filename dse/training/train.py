"""Train a stack of networks for an epoch; pruned weights are zero after every step.

One compiled function serves the dense networks and every pattern: masks, learning rates and batches are inputs.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Bool, Float

from dse.training.networks.weight_matrix import SmallNetwork
from dse.training.schedule import Batches

StackedMasks = dict[str, Bool[Any, "member m k"]]
MAX_GRADIENT = 1.0  # norm to which gradients are clipped


def dense_masks(networks: SmallNetwork) -> StackedMasks:
    """The masks of dense networks."""
    return {name: np.ones(matrix.shape, bool) for name, matrix in networks.prunable_weights().items()}


def train(
    networks: SmallNetwork,
    masks: StackedMasks,
    batches: Batches,
    rates: Float[np.ndarray, "epoch step"],
    images: Any,
    labels: Any,
    weight_decay: float,
) -> SmallNetwork:
    """Train each member with its own masks and batches; returns the trained stack."""
    networks, state = prepare(networks, masks)
    for epoch, epoch_rates in enumerate(rates):
        networks, state = train_epoch(networks, state, masks, batches[:, epoch], epoch_rates, images, labels, weight_decay)
    return networks


@eqx.filter_jit
@eqx.filter_vmap
def prepare(network: SmallNetwork, masks: Any) -> tuple[SmallNetwork, Any]:
    """Each member without its pruned weights, and the initial state of its optimizer."""
    pruned = apply_masks(network, masks)
    return pruned, make_optimizer(0.0).init(eqx.filter(pruned, eqx.is_inexact_array))


def make_optimizer(weight_decay: float) -> optax.GradientTransformation:
    """AdamW without its learning rate (Loshchilov and Hutter 2019, arXiv 1711.05101), with clipped gradients."""
    return optax.chain(optax.clip_by_global_norm(MAX_GRADIENT), optax.scale_by_adam(), optax.add_decayed_weights(weight_decay))


def apply_masks(network: SmallNetwork, masks: Any) -> SmallNetwork:
    """Set the pruned weights to zero."""
    weights = network.prunable_weights()
    return network.with_weights({name: jnp.where(masks[name], weight, 0.0) for name, weight in weights.items()})


def mean_loss(network: SmallNetwork, images: Any, labels: Any) -> Any:
    """Mean cross-entropy of one batch."""
    scores = jax.vmap(network)(images)
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


@eqx.filter_jit
def train_epoch(
    networks: SmallNetwork, state: Any, masks: Any, batches: Any, rates: Any, images: Any, labels: Any, weight_decay: float
) -> tuple[SmallNetwork, Any]:
    """Train every member for the steps of one epoch."""
    optimizer = make_optimizer(weight_decay)

    def train_member(network: SmallNetwork, state: Any, masks: Any, batches: Any) -> tuple[SmallNetwork, Any]:
        arrays, static = eqx.partition(network, eqx.is_inexact_array)

        def train_step(carry: Any, inputs: Any) -> tuple[Any, None]:
            arrays, state = carry
            batch, rate = inputs
            full_gradients = eqx.filter_grad(mean_loss)(eqx.combine(arrays, static), images[batch], labels[batch])
            gradients: Any = apply_masks(full_gradients, masks)
            updates, state = optimizer.update(gradients, state, arrays)
            arrays = jax.tree.map(lambda value, update: value - rate * update, arrays, updates)
            return (apply_masks(arrays, masks), state), None

        (arrays, state), _ = jax.lax.scan(train_step, (arrays, state), (batches, rates))
        return eqx.combine(arrays, static), state

    return eqx.filter_vmap(train_member)(networks, state, masks, batches)
