"""OPT: decoders (pre-norm, but for the 350 M one) with learned positions and ReLU (Zhang et al. 2022, arXiv 2205.01068)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, BlockCount, GenerationInputs, LayerListBuilder, NetworkInputs, PositiveInt, check_heads
from dse.networks.layers import LayerRow

OFFSET = 2  # the first two learned positions are never used


class OPT(Architecture):
    model_type: Literal["opt"]
    vocab_size: PositiveInt
    hidden_size: PositiveInt
    ffn_dim: PositiveInt
    num_hidden_layers: BlockCount
    num_attention_heads: PositiveInt
    max_position_embeddings: PositiveInt
    word_embed_proj_dim: PositiveInt | None = None  # the tables may be narrower than the blocks, with a projection on either side
    do_layer_norm_before: bool = True

    inputs: ClassVar[type[NetworkInputs]] = GenerationInputs

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_heads(self.hidden_size, self.num_attention_heads)
        return self

    def build_layers(self, inputs: GenerationInputs) -> list[LayerRow]:
        found, hidden, queries = LayerListBuilder(), self.hidden_size, inputs.queries
        narrow = self.word_embed_proj_dim or hidden
        positions = (self.max_position_embeddings + OFFSET) * hidden
        found.moved("model.decoder.embed_tokens", 2 * queries * hidden, queries * hidden, positions)  # the table is the head's
        if narrow != hidden:
            found.linear("model.decoder.project_in", hidden, narrow, queries, bias=False)
        for number in range(self.num_hidden_layers):
            self._block(found, f"model.decoder.layers.{number}", inputs)
        if self.do_layer_norm_before:
            found.norm("model.decoder.final_layer_norm", hidden, queries, 2 * hidden)
        if narrow != hidden:
            found.linear("model.decoder.project_out", narrow, hidden, queries, bias=False)
        found.linear("lm_head", self.vocab_size, narrow, inputs.scored, bias=False, prunable=False)
        return found

    def _block(self, found: LayerListBuilder, name: str, inputs: GenerationInputs) -> None:
        hidden, queries, heads = self.hidden_size, inputs.queries, self.num_attention_heads
        found.norm(f"{name}.self_attn_layer_norm", hidden, queries, 2 * hidden)
        projected = tuple(f"{name}.self_attn.{role}_proj" for role in "qkv")
        for role, cached in zip(projected, (0, hidden, hidden), strict=True):
            reads = (f"{name}.self_attn_layer_norm",)
            found.linear(role, hidden, hidden, queries, reads=reads, cache_elements=cached * inputs.sequence)
        fused = inputs.attention == "fused"
        found.attend(f"{name}.self_attn", heads, heads, hidden // heads, queries, inputs.sequence, fused, reads=projected)
        found.linear(f"{name}.self_attn.out_proj", hidden, hidden, queries)
        found.norm(f"{name}.final_layer_norm", hidden, queries, 2 * hidden)
        found.linear(f"{name}.fc1", self.ffn_dim, hidden, queries)
        found.linear(f"{name}.fc2", hidden, self.ffn_dim, queries)
