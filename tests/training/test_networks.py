"""The small networks compute what their layer tables say."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse.networks.layers import LayerArrays
from dse.training.networks import NETWORKS
from dse.training.networks.patches import choose_patch, split_into_patches
from dse.training.networks.weight_matrix import WeightMatrix, convolve
from dse.training.request import NETWORK_NAMES

IMAGES = [(8, 8, 1), (12, 10, 3), (7, 7, 2)]


def test_the_registry_has_every_name():
    assert tuple(NETWORKS) == NETWORK_NAMES


@pytest.mark.parametrize("stride", [1, 2])
def test_a_product_with_the_unfolded_image_is_a_convolution(stride):
    image = jax.random.normal(jax.random.key(0), (4, 7, 6))
    layer = WeightMatrix(5, 36, jax.random.key(1))
    kernel = layer.weight.reshape(5, 3, 3, 4).transpose(0, 3, 1, 2)  # channels last to out, in, height, width
    expected = jax.lax.conv_general_dilated(image[None], kernel, (stride, stride), ((1, 1), (1, 1)))[0]
    np.testing.assert_allclose(convolve(layer, image, stride), expected, atol=1e-5)


@pytest.mark.parametrize("shape", IMAGES)
@pytest.mark.parametrize("name", NETWORK_NAMES)
def test_the_rows_have_every_parameter_and_every_multiply_add(name, shape):
    network = NETWORKS[name](shape, 10, jax.random.key(0))
    layers = LayerArrays.from_rows(network.layer_rows())
    assert layers.parameters == sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_array)))
    assert layers.macs == multiply_adds(network, jnp.zeros(shape))
    assert layers.graph is not None
    assert not layers.prunable[0]
    assert not layers.prunable[-1]


def multiply_adds(network, image) -> int:
    """Multiply-adds of all products that JAX lists for one image."""
    total = 0
    for equation in jax.make_jaxpr(network)(image).eqns:
        total += _multiply_adds(equation)
    return total


def _multiply_adds(equation) -> int:
    if equation.primitive.name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        sizes = equation.invars[0].aval.shape
        return int(np.prod(equation.outvars[0].aval.shape)) * int(np.prod([sizes[axis] for axis in contracted]))
    inner = equation.params.get("jaxpr")
    return sum(_multiply_adds(each) for each in inner.jaxpr.eqns) if inner is not None and hasattr(inner, "jaxpr") else 0


@pytest.mark.parametrize("name", NETWORK_NAMES)
def test_blocks_of_16_and_groups_of_32_divide_every_prunable_matrix(name):
    network = NETWORKS[name]((8, 8, 1), 10, jax.random.key(0))
    sizes = [weights.shape for weights in network.prunable_weights().values()]
    assert all(m % 16 == 0 and k % 32 == 0 for m, k in sizes)
    assert sum(m * k for m, k in sizes) % (32 * 16 * 16) == 0  # so that 1/32 of the blocks is a whole number


@pytest.mark.parametrize("name", NETWORK_NAMES)
def test_other_weights_change_those_layers_alone(name):
    network = NETWORKS[name]((8, 8, 1), 10, jax.random.key(0))
    layer = network.prunable_layers()[0]
    changed = network.with_weights({layer: jnp.zeros_like(network.prunable_weights()[layer])})
    assert not changed.prunable_weights()[layer].any()
    assert all(
        (changed.prunable_weights()[other] == weights).all() for other, weights in network.prunable_weights().items() if other != layer
    )


def test_patches_are_halved_in_turns_and_hold_every_pixel_once():
    assert [choose_patch(8, 8, tokens) for tokens in (64, 32, 16)] == [(1, 1), (2, 1), (2, 2)]
    assert choose_patch(28, 28, 16) == (4, 4)  # 7 x 7 cannot be halved
    image = jnp.arange(8 * 6 * 2.0).reshape(8, 6, 2)
    rows = split_into_patches(image, (4, 2))
    assert rows.shape == (6, 16)
    np.testing.assert_array_equal(rows[1], image[:4, 2:4].ravel())
    np.testing.assert_array_equal(np.sort(rows.ravel()), np.arange(96.0))
