"""A small residual network of 3 x 3 convolutions (He et al. 2015, arXiv 1512.03385).

As in their networks for CIFAR-10, shortcuts have no parameters (option A): they skip pixels and add channels of zeros. Group normalisation
(Wu and He 2018, arXiv 1803.08494) takes the place of batch normalisation, whose running means would have to be pruned and rewound too.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dse.networks.layers import LayerRow
from dse.training.networks.weight_matrix import SmallNetwork, WeightMatrix, convolve, linear_row

WIDTH = 32  # channels of the first stage; the second has twice as many
GROUPS = 8  # of channels, for normalisation


class ConvolutionWithNorm(eqx.Module):
    """A 3 x 3 convolution, followed by group normalisation."""

    matrix: WeightMatrix
    norm: eqx.nn.GroupNorm
    stride: int = eqx.field(static=True)

    def __init__(self, out_channels: int, in_channels: int, stride: int, key: Array):
        self.matrix = WeightMatrix(out_channels, 9 * in_channels, key)
        self.norm = eqx.nn.GroupNorm(GROUPS, out_channels)
        self.stride = stride

    def __call__(self, image: Float[Array, "channel height width"]) -> Float[Array, "out_channel out_height out_width"]:
        return self.norm(convolve(self.matrix, image, self.stride))


class ResidualBlock(eqx.Module):
    """Two convolutions and a shortcut without parameters."""

    first: ConvolutionWithNorm
    second: ConvolutionWithNorm

    def __init__(self, out_channels: int, in_channels: int, stride: int, key: Array):
        keys = jax.random.split(key)
        self.first = ConvolutionWithNorm(out_channels, in_channels, stride, keys[0])
        self.second = ConvolutionWithNorm(out_channels, out_channels, 1, keys[1])

    def __call__(self, image: Float[Array, "channel height width"]) -> Float[Array, "out_channel out_height out_width"]:
        stride = self.first.stride
        result = self.second(jax.nn.relu(self.first(image)))
        shortcut = jnp.pad(image[:, ::stride, ::stride], ((0, len(result) - len(image)), (0, 0), (0, 0)))
        return jax.nn.relu(result + shortcut)


class SmallResNet(SmallNetwork):
    """A convolution that halves the image, a residual block of 32 channels, one of 64 that halves it again, and a classifier."""

    stem: ConvolutionWithNorm
    blocks: list[ResidualBlock]
    classifier: WeightMatrix
    image_shape: tuple[int, int, int] = eqx.field(static=True)

    def __init__(self, image_shape: tuple[int, int, int], labels: int, key: Array):
        keys = jax.random.split(key, 4)
        self.image_shape = image_shape
        self.stem = ConvolutionWithNorm(WIDTH, image_shape[2], 2, keys[0])
        self.blocks = [ResidualBlock(WIDTH, WIDTH, 1, keys[1]), ResidualBlock(2 * WIDTH, WIDTH, 2, keys[2])]
        self.classifier = WeightMatrix(labels, 2 * WIDTH, keys[3])

    def __call__(self, image: Float[Array, "height width channel"]) -> Float[Array, " label"]:
        hidden = jax.nn.relu(self.stem(jnp.moveaxis(image, -1, 0)))
        for block in self.blocks:
            hidden = block(hidden)
        return self.classifier(hidden.mean((1, 2))[:, None])[:, 0]

    def _convolutions(self) -> dict[str, ConvolutionWithNorm]:
        layers = {"stem": self.stem}
        for number, block in enumerate(self.blocks):
            layers |= {f"blocks.{number}.conv1": block.first, f"blocks.{number}.conv2": block.second}
        return layers

    def weight_matrices(self) -> dict[str, WeightMatrix]:
        return {name: layer.matrix for name, layer in self._convolutions().items()} | {"classifier": self.classifier}

    def layer_rows(self) -> list[LayerRow]:
        height, width, _ = self.image_shape
        rows, source, shortcut = list[LayerRow](), "input", None
        for name, layer in self._convolutions().items():
            m, k = layer.matrix.weight.shape[-2:]
            elements = k // 9 * height * width
            height, width = -(-height // layer.stride), -(-width // layer.stride)
            sizes = {"m": m, "k": k, "n": height * width, "input_elements": elements, "other_parameters": 3 * m}
            links = {"reads": source, "adds": shortcut if name.endswith("conv2") else None}
            rows.append(LayerRow(name=name, kind="conv", prunable=name != "stem", **sizes, **links))
            shortcut, source = (source if name.endswith("conv1") else name), name
        return [*rows, linear_row("classifier", self.classifier, 1, prunable=False, reads=source)]
