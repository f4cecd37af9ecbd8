"""ViT and DeiT: pre-norm encoders over image patches (Dosovitskiy et al. 2020, arXiv 2010.11929; Touvron et al. 2020, arXiv 2012.12877)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, AttentionInputs, BlockCount, NetworkInputs, PositiveInt, check_heads, check_patches
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow


class ViT(Architecture):
    model_type: Literal["vit", "deit"]
    image_size: PositiveInt
    patch_size: PositiveInt
    num_channels: PositiveInt = 3
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: BlockCount
    num_attention_heads: PositiveInt
    num_labels: PositiveInt = 1000
    distilled: bool = False  # a second learned token and a second head (arXiv 2012.12877, section 4)

    inputs: ClassVar[type[NetworkInputs]] = AttentionInputs

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_heads(self.hidden_size, self.num_attention_heads)
        check_patches(self.image_size, self.patch_size)
        return self

    @property
    def learned_tokens(self) -> int:
        return 2 if self.distilled else 1

    def build_layers(self, inputs: AttentionInputs) -> list[LayerRow]:
        layers, hidden = LayerListBuilder(inputs), self.hidden_size
        patches = (self.image_size // self.patch_size) ** 2
        tokens = patches + self.learned_tokens
        embedded = (tokens + self.learned_tokens) * hidden  # positions, and the tokens that are learned
        layers.patch_embedding(
            "embeddings.patch_embeddings.projection", hidden, self.num_channels, self.patch_size, self.image_size, embedded
        )
        for number in range(self.num_hidden_layers):
            self._add_block(layers, f"encoder.layer.{number}", tokens, inputs.attention == "fused")
        layers.norm("layernorm", hidden, tokens, 2 * hidden)
        for head in ("cls_classifier", "distillation_classifier") if self.distilled else ("classifier",):
            layers.linear(head, self.num_labels, hidden, 1, reads=(layers.stream,), prunable=False)
        return layers

    def _add_block(self, layers: LayerListBuilder, name: str, tokens: int, fused: bool) -> None:
        hidden, heads = self.hidden_size, self.num_attention_heads
        layers.norm(f"{name}.layernorm_before", hidden, tokens, 2 * hidden)
        projected = tuple(f"{name}.attention.attention.{role}" for role in ("query", "key", "value"))
        for role in projected:
            layers.linear(role, hidden, hidden, tokens, reads=(layers.stream,))
        layers.attention(f"{name}.attention.attention", heads, heads, hidden // heads, tokens, tokens, fused, reads=projected)
        layers.linear(f"{name}.attention.output.dense", hidden, hidden, tokens)
        layers.norm(f"{name}.layernorm_after", hidden, tokens, 2 * hidden)
        layers.linear(f"{name}.intermediate.dense", self.intermediate_size, hidden, tokens)
        layers.activation(f"{name}.intermediate.act", self.intermediate_size * tokens)
        layers.linear(f"{name}.output.dense", hidden, self.intermediate_size, tokens)
