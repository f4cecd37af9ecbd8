"""OPT: pre-norm decoders with learned positions and ReLU (Zhang et al. 2022, arXiv 2205.01068)."""

from typing import ClassVar, Literal

from dse.network.architecture import Architecture, Count, Generating, Inputs, Rows
from dse.network.layers import LayerRow

OFFSET = 2  # the first two learned positions are never used


class OPT(Architecture):
    model_type: Literal["opt"]
    vocab_size: int = Count
    hidden_size: int = Count
    ffn_dim: int = Count
    num_hidden_layers: int = Count
    num_attention_heads: int = Count
    max_position_embeddings: int = Count

    inputs: ClassVar[type[Inputs]] = Generating

    def rows(self, inputs: Generating) -> list[LayerRow]:
        found, hidden, queries = Rows(), self.hidden_size, inputs.queries
        positions = (self.max_position_embeddings + OFFSET) * hidden
        found.moved("model.decoder.embed_tokens", 2 * queries * hidden, queries * hidden, positions)  # the table is the head's
        for number in range(self.num_hidden_layers):
            self._block(found, f"model.decoder.layers.{number}", inputs)
        found.norm("model.decoder.final_layer_norm", hidden, queries, 2 * hidden)
        found.linear("lm_head", self.vocab_size, hidden, inputs.scored, bias=False, prunable=False)
        return found

    def _block(self, found: Rows, name: str, inputs: Generating) -> None:
        hidden, queries, heads = self.hidden_size, inputs.queries, self.num_attention_heads
        found.norm(f"{name}.self_attn_layer_norm", hidden, queries, 2 * hidden)
        for role in ("q", "k", "v"):
            found.linear(f"{name}.self_attn.{role}_proj", hidden, hidden, queries)
        found.attend(f"{name}.self_attn", heads, heads, hidden // heads, queries, inputs.sequence, inputs.attention == "fused")
        found.linear(f"{name}.self_attn.out_proj", hidden, hidden, queries)
        found.norm(f"{name}.final_layer_norm", hidden, queries, 2 * hidden)
        found.linear(f"{name}.fc1", self.ffn_dim, hidden, queries)
        found.linear(f"{name}.fc2", hidden, self.ffn_dim, queries)
