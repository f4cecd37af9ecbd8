"""Swin: attention within windows of a feature map that shrinks from stage to stage (Liu et al. 2021, arXiv 2103.14030)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import (
    Architecture,
    AttentionInputs,
    BlockCounts,
    Multiplier,
    NetworkInputs,
    PositiveInt,
    PositiveInts,
    check_heads,
    check_patches,
    check_stages,
)
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow


class Swin(Architecture):
    model_type: Literal["swin"]
    image_size: PositiveInt
    patch_size: PositiveInt = 4
    num_channels: PositiveInt = 3
    embed_dim: PositiveInt
    depths: BlockCounts
    num_heads: PositiveInts
    window_size: PositiveInt = 7
    mlp_ratio: Multiplier = 4.0
    num_labels: PositiveInt = 1000

    inputs: ClassVar[type[NetworkInputs]] = AttentionInputs

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        check_stages(depths=self.depths, num_heads=self.num_heads)
        for stage, heads in enumerate(self.num_heads):
            check_heads(self.embed_dim * 2**stage, heads)
        check_patches(self.image_size, self.patch_size)
        return self

    def build_layers(self, inputs: AttentionInputs) -> list[LayerRow]:
        layers, width, fused = LayerListBuilder(inputs), self.embed_dim, inputs.attention == "fused"
        size = layers.patch_embedding("embeddings.patch_embeddings.projection", width, self.num_channels, self.patch_size, self.image_size)
        layers.norm("embeddings.norm", width, size**2, 2 * width, residual=False)
        for stage, (depth, heads) in enumerate(zip(self.depths, self.num_heads, strict=True)):
            for number in range(depth):
                self._add_block(layers, f"encoder.layers.{stage}.blocks.{number}", width, heads, size, fused)
            if stage < len(self.depths) - 1:
                size, width = self._add_merging(layers, f"encoder.layers.{stage}.downsample", width, size)
        layers.norm("layernorm", width, size**2, 2 * width)
        layers.linear("classifier", self.num_labels, width, 1, prunable=False)
        return layers

    def _add_block(self, layers: LayerListBuilder, name: str, width: int, heads: int, size: int, fused: bool) -> None:
        window = min(self.window_size, size)
        side = -(-size // window) * window  # the map is padded to whole windows
        tokens, windows, inner = window**2, (side // window) ** 2, max(1, int(self.mlp_ratio * width))
        layers.norm(f"{name}.layernorm_before", width, size**2, 2 * width)
        projected = tuple(f"{name}.attention.self.{role}" for role in ("query", "key", "value"))
        for role in projected:
            layers.linear(role, width, width, side**2, reads=(layers.stream,))
        layers.attention(f"{name}.attention.self", heads, heads, width // heads, tokens, tokens, fused, windows, projected)
        layers.linear(f"{name}.attention.output.dense", width, width, side**2)
        biases = (2 * self.window_size - 1) ** 2 * heads  # by relative position
        layers.norm(f"{name}.layernorm_after", width, size**2, 2 * width + biases)
        layers.linear(f"{name}.intermediate.dense", inner, width, size**2)
        layers.activation(f"{name}.intermediate.act", inner * size**2)
        layers.linear(f"{name}.output.dense", width, inner, size**2)

    def _add_merging(self, layers: LayerListBuilder, name: str, width: int, size: int) -> tuple[int, int]:
        """Merge each 2 x 2 patches into one of twice the width; returns the new size and width."""
        half = -(-size // 2)
        layers.norm(f"{name}.norm", 4 * width, half**2, 8 * width)
        layers.linear(f"{name}.reduction", 2 * width, 4 * width, half**2, bias=False)
        layers.stream = f"{name}.reduction"
        return half, 2 * width
