"""A small MLP-Mixer (Tolstikhin et al. 2021, arXiv 2105.01601): linear layers over tokens and over channels take turns."""

import equinox as eqx
import jax
from jax import Array
from jaxtyping import Float

from dse.networks.layers import LayerRow
from dse.training.networks.patches import choose_patch, classify_tokens, collect_matrices, split_into_patches
from dse.training.networks.weight_matrix import SmallNetwork, WeightMatrix, linear_row

HIDDEN, TOKENS_INNER, CHANNELS_INNER, DEPTH, MAX_TOKENS = 32, 64, 128, 2, 32


class MixerBlock(eqx.Module):
    """Two layers over tokens, then two over channels, each pair with normalisation and a residual connection."""

    norm1: eqx.nn.LayerNorm
    tokens1: WeightMatrix
    tokens2: WeightMatrix
    norm2: eqx.nn.LayerNorm
    channels1: WeightMatrix
    channels2: WeightMatrix

    def __init__(self, tokens: int, key: Array):
        keys = jax.random.split(key, 4)
        self.norm1, self.norm2 = eqx.nn.LayerNorm(HIDDEN), eqx.nn.LayerNorm(HIDDEN)
        self.tokens1, self.tokens2 = WeightMatrix(TOKENS_INNER, tokens, keys[0]), WeightMatrix(tokens, TOKENS_INNER, keys[1])
        self.channels1 = WeightMatrix(CHANNELS_INNER, HIDDEN, keys[2])
        self.channels2 = WeightMatrix(HIDDEN, CHANNELS_INNER, keys[3])

    def __call__(self, hidden: Float[Array, "token channel"]) -> Float[Array, "token channel"]:
        normed = jax.vmap(self.norm1)(hidden)
        hidden = hidden + self.tokens2.apply_to_rows(jax.nn.gelu(self.tokens1.apply_to_rows(normed.T))).T
        normed = jax.vmap(self.norm2)(hidden)
        return hidden + self.channels2.apply_to_rows(jax.nn.gelu(self.channels1.apply_to_rows(normed)))

    def weight_matrices(self) -> dict[str, WeightMatrix]:
        return {"tokens1": self.tokens1, "tokens2": self.tokens2, "channels1": self.channels1, "channels2": self.channels2}


class SmallMixer(SmallNetwork):
    """At most 32 tokens of 32 channels (patches of 2 x 1 pixels of an 8 x 8 image), two blocks, and a classifier of their mean."""

    patch: tuple[int, int] = eqx.field(static=True)
    tokens: int = eqx.field(static=True)
    embedding: WeightMatrix
    blocks: list[MixerBlock]
    norm: eqx.nn.LayerNorm
    classifier: WeightMatrix

    def __init__(self, image_shape: tuple[int, int, int], labels: int, key: Array):
        height, width, channels = image_shape
        keys = jax.random.split(key, DEPTH + 2)
        self.patch = choose_patch(height, width, MAX_TOKENS)
        pixels = self.patch[0] * self.patch[1]
        self.tokens = height * width // pixels
        self.embedding = WeightMatrix(HIDDEN, pixels * channels, keys[0])
        self.blocks = [MixerBlock(self.tokens, block_key) for block_key in keys[1:-1]]
        self.norm = eqx.nn.LayerNorm(HIDDEN)
        self.classifier = WeightMatrix(labels, HIDDEN, keys[-1])

    def __call__(self, image: Float[Array, "height width channel"]) -> Float[Array, " label"]:
        hidden = self.embedding.apply_to_rows(split_into_patches(image, self.patch))
        return classify_tokens(hidden, self.blocks, self.norm, self.classifier)

    def weight_matrices(self) -> dict[str, WeightMatrix]:
        return collect_matrices(self.embedding, self.blocks, self.classifier)

    def layer_rows(self) -> list[LayerRow]:
        rows = [linear_row("embedding", self.embedding, self.tokens, prunable=False, reads="input")]
        for number, block in enumerate(self.blocks):
            for part, positions in (("tokens", HIDDEN), ("channels", self.tokens)):
                source, name, layers = rows[-1].name, f"blocks.{number}.{part}", block.weight_matrices()
                rows.append(linear_row(f"{name}1", layers[f"{part}1"], positions, reads=source, norm=2 * HIDDEN))
                rows.append(linear_row(f"{name}2", layers[f"{part}2"], positions, reads=f"{name}1", adds=source))
        return [*rows, linear_row("classifier", self.classifier, 1, prunable=False, reads=rows[-1].name, norm=2 * HIDDEN)]
