"""Gemma 2 and the text network of Gemma 3: blocks that alternate between a window and all tokens, with norms before and behind.

Gemma 2: arXiv 2408.00118 (soft caps on scores and logits, table 1); Gemma 3: arXiv 2503.19786 (five blocks with a window to one without,
queries and keys normalised instead of capped). Soft caps are counted as activation functions: fused and free.
"""

from typing import ClassVar, Literal

from dse.networks.alternating import AlternatingLlama
from dse.networks.architecture import GenerationInputs, LayerListBuilder, PositiveInt
from dse.networks.llama import add_gated_unit


class Gemma(AlternatingLlama):
    """What Gemma 2 and Gemma 3 share: two norms around attention and two around the gated unit, and tied embeddings."""

    tie_word_embeddings: bool = True

    def _add_attention(self, layers: LayerListBuilder, block: int, inputs: GenerationInputs) -> None:
        super()._add_attention(layers, block, inputs)
        self._add_norm_behind(layers, f"model.layers.{block}.post_attention_layernorm", inputs.queries)

    def _add_feed_forward(self, layers: LayerListBuilder, block: int, positions: int) -> None:
        name, hidden = f"model.layers.{block}", self.hidden_size
        layers.norm(f"{name}.pre_feedforward_layernorm", hidden, positions, hidden)
        add_gated_unit(layers, f"{name}.mlp", hidden, self.intermediate_size, positions)
        self._add_norm_behind(layers, f"{name}.post_feedforward_layernorm", positions)

    def _add_norm_behind(self, layers: LayerListBuilder, name: str, positions: int) -> None:
        """Append a norm of what is added to the residual stream next."""
        layers.elementwise(name, self.hidden_size * positions, self.hidden_size * positions, self.hidden_size)


class Gemma2(Gemma):
    model_type: Literal["gemma2"]  # type: ignore[assignment]
    sliding_window: PositiveInt | None = 4096


class Gemma3Text(Gemma):
    """The text network; defaults are those of the reference implementation, which published configurations leave out."""

    model_type: Literal["gemma3_text"]  # type: ignore[assignment]
    vocab_size: PositiveInt = 262_208
    num_attention_heads: PositiveInt = 8
    num_key_value_heads: PositiveInt | None = 4
    head_dim: PositiveInt | None = 256
    sliding_window: PositiveInt | None = 4096

    default_pattern: ClassVar[int] = 6

    def normalizes_heads(self, block: int) -> bool:
        return True
