"""OPT: decoders (pre-norm, except the 350 M one) with learned positions and ReLU (Zhang et al. 2022, arXiv 2205.01068)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, BlockCount, GenerationInputs, NetworkInputs, PositiveInt, check_heads, check_positions
from dse.networks.decoder_attention import AttentionReads, Heads, add_decoder_attention
from dse.networks.layer_list import LayerListBuilder
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
    word_embed_proj_dim: PositiveInt | None = None  # if the tables are narrower than the blocks, with a projection on either side
    do_layer_norm_before: bool = True

    inputs: ClassVar[type[NetworkInputs]] = GenerationInputs

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_heads(self.hidden_size, self.num_attention_heads)
        return self

    def build_layers(self, inputs: GenerationInputs) -> list[LayerRow]:
        check_positions(inputs.sequence, self.max_position_embeddings)
        layers, hidden, queries = LayerListBuilder(inputs), self.hidden_size, inputs.queries
        embedding_width = self.word_embed_proj_dim or hidden
        positions = (self.max_position_embeddings + OFFSET) * hidden
        layers.elementwise(
            "model.decoder.embed_tokens", 2 * queries * hidden, queries * hidden, positions
        )  # the head shares the token table
        if embedding_width != hidden:
            layers.linear("model.decoder.project_in", hidden, embedding_width, queries, bias=False)
        for number in range(self.num_hidden_layers):
            self._add_block(layers, f"model.decoder.layers.{number}", inputs)
        if self.do_layer_norm_before:
            layers.norm("model.decoder.final_layer_norm", hidden, queries, 2 * hidden)
        if embedding_width != hidden:
            layers.linear("model.decoder.project_out", embedding_width, hidden, queries, bias=False)
        layers.linear("lm_head", self.vocab_size, embedding_width, inputs.scored, bias=False, prunable=False)
        return layers

    def _add_block(self, layers: LayerListBuilder, name: str, inputs: GenerationInputs) -> None:
        hidden, queries, heads = self.hidden_size, inputs.queries, self.num_attention_heads
        layers.norm(f"{name}.self_attn_layer_norm", hidden, queries, 2 * hidden)
        reads = AttentionReads(f"{name}.self_attn_layer_norm", *(f"{name}.self_attn.{role}_proj" for role in "qkv"))
        pattern = inputs.pattern_of(None)
        cached = hidden * inputs.cached_tokens(pattern.cached_keys(inputs.sequence))
        for role, cache_elements in zip(reads[1:], (0, cached, cached), strict=True):
            layers.linear(role, hidden, hidden, queries, reads=reads[:1], cache_elements=cache_elements)
        add_decoder_attention(layers, f"{name}.self_attn", Heads(heads, heads, hidden // heads), hidden, reads, pattern, inputs)
        layers.linear(f"{name}.self_attn.out_proj", hidden, hidden, queries)
        layers.norm(f"{name}.final_layer_norm", hidden, queries, 2 * hidden)
        layers.linear(f"{name}.fc1", self.ffn_dim, hidden, queries)
        layers.activation(f"{name}.activation_fn", self.ffn_dim * queries)
        layers.linear(f"{name}.fc2", hidden, self.ffn_dim, queries)
