"""Swin: attention within windows of a feature map that shrinks from stage to stage (Liu et al. 2021, arXiv 2103.14030)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import (
    Architecture,
    AttentionInputs,
    BlockCounts,
    LayerListBuilder,
    NetworkInputs,
    PositiveInt,
    PositiveInts,
    Scale,
    check_heads,
    check_patches,
    check_stages,
)
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
    mlp_ratio: Scale = 4.0
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
        found, width, fused = LayerListBuilder(), self.embed_dim, inputs.attention == "fused"
        size = found.patches("embeddings.patch_embeddings.projection", width, self.num_channels, self.patch_size, self.image_size)
        found.norm("embeddings.norm", width, size**2, 2 * width, residual=False)
        for stage, (depth, heads) in enumerate(zip(self.depths, self.num_heads, strict=True)):
            for number in range(depth):
                self._block(found, f"encoder.layers.{stage}.blocks.{number}", width, heads, size, fused)
            if stage < len(self.depths) - 1:
                size, width = self._merge(found, f"encoder.layers.{stage}.downsample", width, size)
        found.norm("layernorm", width, size**2, 2 * width)
        found.linear("classifier", self.num_labels, width, 1, prunable=False)
        return found

    def _block(self, found: LayerListBuilder, name: str, width: int, heads: int, size: int, fused: bool) -> None:
        window = min(self.window_size, size)
        side = -(-size // window) * window  # the map is padded to whole windows
        tokens, windows, inner = window**2, (side // window) ** 2, max(1, int(self.mlp_ratio * width))
        found.norm(f"{name}.layernorm_before", width, size**2, 2 * width)
        projected = tuple(f"{name}.attention.self.{role}" for role in ("query", "key", "value"))
        for role in projected:
            found.linear(role, width, width, side**2, reads=(found.stream,))
        found.attend(f"{name}.attention.self", heads, heads, width // heads, tokens, tokens, fused, windows, projected)
        found.linear(f"{name}.attention.output.dense", width, width, side**2)
        biases = (2 * self.window_size - 1) ** 2 * heads  # by relative position
        found.norm(f"{name}.layernorm_after", width, size**2, 2 * width + biases)
        found.linear(f"{name}.intermediate.dense", inner, width, size**2)
        found.linear(f"{name}.output.dense", width, inner, size**2)

    def _merge(self, found: LayerListBuilder, name: str, width: int, size: int) -> tuple[int, int]:
        """Each 2 x 2 patches become one, twice as wide."""
        half = -(-size // 2)
        found.norm(f"{name}.norm", 4 * width, half**2, 8 * width)
        found.linear(f"{name}.reduction", 2 * width, 4 * width, half**2, bias=False)
        found.stream = f"{name}.reduction"
        return half, 2 * width
