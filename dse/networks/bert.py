"""BERT: post-norm encoders with learned positions and a pooler (Devlin et al. 2018, arXiv 1810.04805)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, BlockCount, NetworkInputs, PositiveInt, SequenceInputs, check_heads, check_positions
from dse.networks.decoder_attention import pattern_columns
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow
from dse.sparsity.attention.kinds import FULL


class BERT(Architecture):
    model_type: Literal["bert", "roberta"]
    vocab_size: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: BlockCount
    num_attention_heads: PositiveInt
    max_position_embeddings: PositiveInt
    type_vocab_size: PositiveInt

    inputs: ClassVar[type[NetworkInputs]] = SequenceInputs

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_heads(self.hidden_size, self.num_attention_heads)
        return self

    def build_layers(self, inputs: SequenceInputs) -> list[LayerRow]:
        check_positions(inputs.sequence, self.max_position_embeddings)
        layers, hidden, tokens = LayerListBuilder(inputs), self.hidden_size, inputs.sequence
        tables = (self.vocab_size + self.max_position_embeddings + self.type_vocab_size) * hidden
        layers.elementwise("embeddings", 3 * tokens * hidden, tokens * hidden, tables)
        layers.norm("embeddings.LayerNorm", hidden, tokens, 2 * hidden, residual=False)
        for number in range(self.num_hidden_layers):
            self._add_block(layers, f"encoder.layer.{number}", inputs)
        layers.linear("pooler.dense", hidden, hidden, 1, prunable=False)
        return layers

    def _add_block(self, layers: LayerListBuilder, name: str, inputs: SequenceInputs) -> None:
        hidden, tokens, heads, inner = self.hidden_size, inputs.sequence, self.num_attention_heads, self.intermediate_size
        projected = tuple(f"{name}.attention.self.{role}" for role in ("query", "key", "value"))
        for role in projected:
            layers.linear(role, hidden, hidden, tokens, reads=(layers.stream,))
        pattern = inputs.attention_pattern or FULL
        layers.attention(
            f"{name}.attention.self", heads, heads, hidden // heads, tokens, fused=inputs.attention == "fused", reads=projected,
            **pattern_columns(pattern, tokens, tokens),
        )  # fmt: skip
        layers.linear(f"{name}.attention.output.dense", hidden, hidden, tokens)
        layers.add_and_norm(f"{name}.attention.output.LayerNorm", hidden, tokens, 2 * hidden)
        layers.linear(f"{name}.intermediate.dense", inner, hidden, tokens)
        layers.activation(f"{name}.intermediate.act", inner * tokens)
        layers.linear(f"{name}.output.dense", hidden, inner, tokens)
        layers.add_and_norm(f"{name}.output.LayerNorm", hidden, tokens, 2 * hidden)
