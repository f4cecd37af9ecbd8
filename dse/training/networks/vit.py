"""A small vision transformer (Dosovitskiy et al. 2020, arXiv 2010.11929), without a class token: the classifier reads the mean token."""

from math import sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dse.networks.layers import LayerRow
from dse.training.networks.patches import choose_patch, classify_tokens, collect_matrices, split_into_patches
from dse.training.networks.weight_matrix import SmallNetwork, WeightMatrix, linear_row

HIDDEN, INNER, HEADS, DEPTH, MAX_TOKENS = 32, 128, 2, 2, 16


class TransformerBlock(eqx.Module):
    """Attention of several heads, then two linear layers, each with normalisation before it and a residual connection."""

    norm1: eqx.nn.LayerNorm
    query_key_value: WeightMatrix
    projection: WeightMatrix
    norm2: eqx.nn.LayerNorm
    linear1: WeightMatrix
    linear2: WeightMatrix

    def __init__(self, key: Array):
        keys = jax.random.split(key, 4)
        self.norm1, self.norm2 = eqx.nn.LayerNorm(HIDDEN), eqx.nn.LayerNorm(HIDDEN)
        self.query_key_value, self.projection = WeightMatrix(3 * HIDDEN, HIDDEN, keys[0]), WeightMatrix(HIDDEN, HIDDEN, keys[1])
        self.linear1, self.linear2 = WeightMatrix(INNER, HIDDEN, keys[2]), WeightMatrix(HIDDEN, INNER, keys[3])

    def __call__(self, hidden: Float[Array, "token channel"]) -> Float[Array, "token channel"]:
        hidden = hidden + self.projection.apply_to_rows(self._attend(jax.vmap(self.norm1)(hidden)))
        normed = jax.vmap(self.norm2)(hidden)
        return hidden + self.linear2.apply_to_rows(jax.nn.gelu(self.linear1.apply_to_rows(normed)))

    def _attend(self, hidden: Float[Array, "token channel"]) -> Float[Array, "token channel"]:
        projected = self.query_key_value.apply_to_rows(hidden).reshape(-1, 3, HEADS, HIDDEN // HEADS)
        query, key, value = jnp.moveaxis(projected, 1, 0)
        scores = jnp.einsum("qhc,khc->hqk", query, key) / sqrt(HIDDEN // HEADS)
        return jnp.einsum("hqk,khc->qhc", jax.nn.softmax(scores, axis=-1), value).reshape(-1, HIDDEN)

    def weight_matrices(self) -> dict[str, WeightMatrix]:
        return {"qkv": self.query_key_value, "projection": self.projection, "linear1": self.linear1, "linear2": self.linear2}


class SmallViT(SmallNetwork):
    """At most 16 tokens of 32 channels (patches of 2 x 2 pixels of an 8 x 8 image), two blocks, and a classifier of their mean."""

    patch: tuple[int, int] = eqx.field(static=True)
    tokens: int = eqx.field(static=True)
    embedding: WeightMatrix
    positions: Float[Array, "token channel"]
    blocks: list[TransformerBlock]
    norm: eqx.nn.LayerNorm
    classifier: WeightMatrix

    def __init__(self, image_shape: tuple[int, int, int], labels: int, key: Array):
        height, width, channels = image_shape
        keys = jax.random.split(key, DEPTH + 3)
        self.patch = choose_patch(height, width, MAX_TOKENS)
        pixels = self.patch[0] * self.patch[1]
        self.tokens = height * width // pixels
        self.embedding = WeightMatrix(HIDDEN, pixels * channels, keys[0])
        self.positions = 0.02 * jax.random.normal(keys[1], (self.tokens, HIDDEN), jnp.float32)
        self.blocks = [TransformerBlock(block_key) for block_key in keys[2:-1]]
        self.norm = eqx.nn.LayerNorm(HIDDEN)
        self.classifier = WeightMatrix(labels, HIDDEN, keys[-1])

    def __call__(self, image: Float[Array, "height width channel"]) -> Float[Array, " label"]:
        hidden = self.embedding.apply_to_rows(split_into_patches(image, self.patch)) + self.positions
        return classify_tokens(hidden, self.blocks, self.norm, self.classifier)

    def weight_matrices(self) -> dict[str, WeightMatrix]:
        return collect_matrices(self.embedding, self.blocks, self.classifier)

    def layer_rows(self) -> list[LayerRow]:
        tokens = self.tokens
        rows = [linear_row("embedding", self.embedding, tokens, prunable=False, reads="input", norm=HIDDEN * tokens)]
        for number, block in enumerate(self.blocks):
            name, source = f"blocks.{number}", rows[-1].name
            rows.append(linear_row(f"{name}.qkv", block.query_key_value, tokens, reads=source, norm=2 * HIDDEN))
            rows += _attention_rows(name, tokens)
            rows.append(linear_row(f"{name}.projection", block.projection, tokens, reads=f"{name}.weighted_values", adds=source))
            rows.append(linear_row(f"{name}.linear1", block.linear1, tokens, reads=f"{name}.projection", norm=2 * HIDDEN))
            rows.append(linear_row(f"{name}.linear2", block.linear2, tokens, reads=f"{name}.linear1", adds=f"{name}.projection"))
        return [*rows, linear_row("classifier", self.classifier, 1, prunable=False, reads=rows[-1].name, norm=2 * HIDDEN)]


def _attention_rows(name: str, tokens: int) -> list[LayerRow]:
    """The products of an attention for each head: scores, and their product with the values."""
    width, qkv = HIDDEN // HEADS, f"{name}.qkv"
    scores = LayerRow(name=f"{name}.scores", kind="matmul", m=tokens, k=width, n=tokens, count=HEADS, reads=qkv, prunable=False)
    reads = f"{name}.scores;{qkv}"
    values = LayerRow(name=f"{name}.weighted_values", kind="matmul", m=width, k=tokens, n=tokens, count=HEADS, reads=reads, prunable=False)
    return [scores, values]
