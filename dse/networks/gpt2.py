"""GPT-2: pre-norm decoders with learned positions and one matrix for queries, keys and values (Radford et al. 2019)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, BlockCount, GenerationInputs, NetworkInputs, PositiveInt, check_heads, check_positions
from dse.networks.decoder_attention import AttentionReads, Heads, add_decoder_attention
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow


class GPT2(Architecture):
    model_type: Literal["gpt2"]
    vocab_size: PositiveInt
    n_positions: PositiveInt
    n_embd: PositiveInt
    n_layer: BlockCount
    n_head: PositiveInt
    n_inner: PositiveInt | None = None

    inputs: ClassVar[type[NetworkInputs]] = GenerationInputs
    weight_layout: ClassVar[str] = "[k, m]"

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_heads(self.n_embd, self.n_head)
        return self

    def build_layers(self, inputs: GenerationInputs) -> list[LayerRow]:
        check_positions(inputs.sequence, self.n_positions)
        layers, width, queries = LayerListBuilder(inputs), self.n_embd, inputs.queries
        layers.elementwise("wte", 2 * queries * width, queries * width, self.n_positions * width)  # the head shares the token table
        for number in range(self.n_layer):
            self._add_block(layers, f"h.{number}", inputs)
        layers.norm("ln_f", width, queries, 2 * width)
        layers.linear("lm_head", self.vocab_size, width, inputs.scored, bias=False, prunable=False)
        return layers

    def _add_block(self, layers: LayerListBuilder, name: str, inputs: GenerationInputs) -> None:
        width, queries, heads, inner = self.n_embd, inputs.queries, self.n_head, self.n_inner or 4 * self.n_embd
        layers.norm(f"{name}.ln_1", width, queries, 2 * width)
        pattern, projected = inputs.pattern_of(None), f"{name}.attn.c_attn"
        cached = 2 * width * inputs.cached_tokens(pattern.cached_keys(inputs.sequence))
        layers.linear(projected, 3 * width, width, queries, cache_elements=cached)
        reads = AttentionReads(f"{name}.ln_1", projected, projected, projected)
        add_decoder_attention(layers, f"{name}.attn", Heads(heads, heads, width // heads), width, reads, pattern, inputs)
        layers.linear(f"{name}.attn.c_proj", width, width, queries)
        layers.norm(f"{name}.ln_2", width, queries, 2 * width)
        layers.linear(f"{name}.mlp.c_fc", inner, width, queries)
        layers.activation(f"{name}.mlp.act", inner * queries)
        layers.linear(f"{name}.mlp.c_proj", width, inner, queries)
