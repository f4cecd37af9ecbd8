"""What a mixer and a transformer share: patches of an image as tokens, blocks of layers, and a classifier of the mean token."""

from collections.abc import Sequence
from typing import Protocol

import equinox as eqx
import jax
from jax import Array
from jaxtyping import Float

from dse.training.networks.weight_matrix import WeightMatrix


class Block(Protocol):
    """Layers that map tokens to tokens."""

    def __call__(self, hidden: Float[Array, "token channel"]) -> Float[Array, "token channel"]: ...
    def weight_matrices(self) -> dict[str, WeightMatrix]: ...


def choose_patch(height: int, width: int, max_tokens: int) -> tuple[int, int]:
    """Rows and columns of the smallest patches that give at most `max_tokens`.

    Sides of the grid of tokens are halved in turns, rows first, while they are even.
    """
    rows, columns = 1, 1
    while (down := height // rows) * (across := width // columns) > max_tokens:
        if down % 2 == 0 and down >= across:
            rows *= 2
        elif across % 2 == 0:
            columns *= 2
        elif down % 2 == 0:
            rows *= 2
        else:
            break
    return rows, columns


def split_into_patches(image: Float[Array, "height width channel"], patch: tuple[int, int]) -> Float[Array, "token k"]:
    """The pixels of each patch as a row."""
    rows, columns = patch
    height, width, channels = image.shape
    tiles = image.reshape(height // rows, rows, width // columns, columns, channels)
    return tiles.transpose(0, 2, 1, 3, 4).reshape(-1, rows * columns * channels)


def classify_tokens(
    hidden: Float[Array, "token channel"], blocks: Sequence[Block], norm: eqx.nn.LayerNorm, classifier: WeightMatrix
) -> Float[Array, " label"]:
    """Scores of the labels: the blocks one after another, then the classifier of the normalised mean token."""
    for block in blocks:
        hidden = block(hidden)
    return classifier.apply_to_rows(jax.vmap(norm)(hidden).mean(0, keepdims=True))[0]


def collect_matrices(embedding: WeightMatrix, blocks: Sequence[Block], classifier: WeightMatrix) -> dict[str, WeightMatrix]:
    """The matrices of the whole network by name, in the order in which they run."""
    inner = {f"blocks.{number}.{name}": layer for number, block in enumerate(blocks) for name, layer in block.weight_matrices().items()}
    return {"embedding": embedding, **inner, "classifier": classifier}
