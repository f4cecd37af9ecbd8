"""A layer with weights as the product C[m, n] = A[m, k] B[k, n] of the Sparsity Roofline; patterns prune its matrix A."""

from collections.abc import Callable, Mapping
from math import sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dse.networks.layers import LayerRow, make_layer_row

KERNEL = 3  # rows and columns of every convolution


class WeightMatrix(eqx.Module):
    """Weights A [m, k] and a bias [m]; B has one column for each position (pixel, token or channel)."""

    weight: Float[Array, "m k"]
    bias: Float[Array, " m"]

    def __init__(self, m: int, k: int, key: Array):
        """Normal weights with variance 2 / k (He et al. 2015, arXiv 1502.01852), bias zero."""
        self.weight = jax.random.normal(key, (m, k), jnp.float32) * sqrt(2 / k)
        self.bias = jnp.zeros(m, jnp.float32)

    def __call__(self, inputs: Float[Array, "k n"]) -> Float[Array, "m n"]:
        return self.weight @ inputs + self.bias[:, None]

    def apply_to_rows(self, inputs: Float[Array, "n k"]) -> Float[Array, "n m"]:
        """The same product, transposed: one row for each position. It is faster where positions come first in memory."""
        return inputs @ self.weight.T + self.bias


class SmallNetwork(eqx.Module):
    """A network that classifies one image; subclasses list their layers."""

    def __call__(self, image: Float[Array, "height width channel"]) -> Float[Array, " label"]:
        """Scores of the classes."""
        raise NotImplementedError

    def layer_rows(self) -> list[LayerRow]:
        """The layers in the order in which they run, with their sizes for one image."""
        raise NotImplementedError

    def weight_matrices(self) -> dict[str, WeightMatrix]:
        """Every layer with weights by the name of its row."""
        raise NotImplementedError

    def prunable_layers(self) -> list[str]:
        """Names of the layers that patterns prune."""
        return [row.name for row in self.layer_rows() if row.prunable and row.name in self.weight_matrices()]

    def prunable_weights(self) -> dict[str, Array]:
        """The matrices that patterns prune by layer, [m, k] each."""
        matrices = self.weight_matrices()
        return {name: matrices[name].weight for name in self.prunable_layers()}

    def with_weights(self, weights: Mapping[str, Array]) -> "SmallNetwork":
        """A copy with other weights in some layers."""
        return eqx.tree_at(lambda network: [network.weight_matrices()[name].weight for name in weights], self, list(weights.values()))


NetworkConstructor = Callable[[tuple[int, int, int], int, Array], SmallNetwork]
"""Makes a network with random weights from height, width and channels of its images, a number of labels and a key."""


def unfold(image: Float[Array, "channel height width"], stride: int = 1) -> Float[Array, "k out_height out_width"]:
    """The inputs of a 3 x 3 convolution with zero padding: k runs over the points of the kernel, then over channels (channels last)."""
    height, width = image.shape[1:]
    padded = jnp.pad(image, ((0, 0), (1, 1), (1, 1)))
    points = [padded[:, i : i + height : stride, j : j + width : stride] for i in range(KERNEL) for j in range(KERNEL)]
    return jnp.concatenate(points)


def convolve(layer: WeightMatrix, image: Float[Array, "channel height width"], stride: int = 1) -> Float[Array, "m out_height out_width"]:
    """A 3 x 3 convolution as a product with the unfolded image."""
    columns = unfold(image, stride)
    return layer(columns.reshape(len(columns), -1)).reshape(-1, *columns.shape[1:])


def linear_row(name: str, layer: WeightMatrix, positions: int, norm: int = 0, **fields: object) -> LayerRow:
    """The row of a linear layer that is applied at `positions`; `norm`: parameters of a normalisation that is fused with it."""
    m, k = layer.weight.shape[-2:]
    return make_layer_row(name=name, kind="gemm", m=m, k=k, n=positions, other_parameters=m + norm, **fields)
