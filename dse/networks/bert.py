"""BERT: post-norm encoders with learned positions and a pooler (Devlin et al. 2018, arXiv 1810.04805)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, Count, Depth, Inputs, Reading, Rows, check_heads
from dse.networks.layers import LayerRow


class BERT(Architecture):
    model_type: Literal["bert", "roberta"]
    vocab_size: Count
    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Depth
    num_attention_heads: Count
    max_position_embeddings: Count
    type_vocab_size: Count

    inputs: ClassVar[type[Inputs]] = Reading

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_heads(self.hidden_size, self.num_attention_heads)
        return self

    def rows(self, inputs: Reading) -> list[LayerRow]:
        found, hidden, tokens = Rows(), self.hidden_size, inputs.sequence
        tables = (self.vocab_size + self.max_position_embeddings + self.type_vocab_size) * hidden
        found.moved("embeddings", 3 * tokens * hidden, tokens * hidden, tables)
        found.norm("embeddings.LayerNorm", hidden, tokens, 2 * hidden, residual=False)
        for number in range(self.num_hidden_layers):
            self._block(found, f"encoder.layer.{number}", inputs)
        found.linear("pooler.dense", hidden, hidden, 1, prunable=False)
        return found

    def _block(self, found: Rows, name: str, inputs: Reading) -> None:
        hidden, tokens, heads, inner = self.hidden_size, inputs.sequence, self.num_attention_heads, self.intermediate_size
        projected = tuple(f"{name}.attention.self.{role}" for role in ("query", "key", "value"))
        for role in projected:
            found.linear(role, hidden, hidden, tokens, reads=(found.stream,))
        fused = inputs.attention == "fused"
        found.attend(f"{name}.attention.self", heads, heads, hidden // heads, tokens, tokens, fused, reads=projected)
        found.linear(f"{name}.attention.output.dense", hidden, hidden, tokens)
        found.add_and_norm(f"{name}.attention.output.LayerNorm", hidden, tokens, 2 * hidden)
        found.linear(f"{name}.intermediate.dense", inner, hidden, tokens)
        found.linear(f"{name}.output.dense", hidden, inner, tokens)
        found.add_and_norm(f"{name}.output.LayerNorm", hidden, tokens, 2 * hidden)
