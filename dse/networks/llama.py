"""LLaMA and its relatives: pre-norm decoders with rotary positions, grouped queries and gated units.

Touvron et al. 2023, arXiv 2302.13971 and 2307.09288; Mistral: Jiang et al. 2023, arXiv 2310.06825; Mixtral: Jiang et al.
2024, arXiv 2401.04088; Qwen2 (biases on queries, keys and values): arXiv
2407.10671; Qwen3 (queries and keys normalised): arXiv 2505.09388. Positions are fused and free unless `passes` are separate.
"""

from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from dse.base.strict_model import field_error
from dse.networks.architecture import Architecture, BlockCount, GenerationInputs, LayerListBuilder, NetworkInputs, PositiveInt, check_heads
from dse.networks.layers import LayerRow


class Llama(Architecture):
    model_type: Literal["llama", "mistral", "qwen2", "qwen3"]
    vocab_size: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: BlockCount
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt | None = None
    head_dim: PositiveInt | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    sliding_window: PositiveInt | None = None  # tokens that a query attends to

    inputs: ClassVar[type[NetworkInputs]] = GenerationInputs

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.head_dim is None:
            check_heads(self.hidden_size, self.num_attention_heads)
        if self.num_attention_heads % self.key_heads:
            message = f"{self.num_attention_heads} heads cannot share {self.key_heads} key heads evenly"
            raise field_error(message, "write a num_key_value_heads that divides num_attention_heads")
        return self

    @property
    def key_heads(self) -> int:
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def width(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    def build_layers(self, inputs: GenerationInputs) -> list[LayerRow]:
        layers, hidden = LayerListBuilder(inputs.passes == "separate"), self.hidden_size
        table = 0 if self.tie_word_embeddings else self.vocab_size * hidden
        layers.elementwise("model.embed_tokens", inputs.queries * hidden, inputs.queries * hidden, table)
        for number in range(self.num_hidden_layers):
            self._add_attention(layers, f"model.layers.{number}", inputs)
            self._add_feed_forward(layers, f"model.layers.{number}", inputs.queries)
        layers.norm("model.norm", hidden, inputs.queries, hidden)
        layers.linear("lm_head", self.vocab_size, hidden, inputs.scored, bias=False, prunable=False)
        return layers

    def _add_attention(self, layers: LayerListBuilder, name: str, inputs: GenerationInputs) -> None:
        queries, hidden, at = inputs.queries, self.hidden_size, f"{name}.self_attn"
        query_width, key_width = self.num_attention_heads * self.width, self.key_heads * self.width
        qkv_bias = self.attention_bias or self.model_type == "qwen2"
        layers.norm(f"{name}.input_layernorm", hidden, queries, hidden)
        keys, read = min(inputs.sequence, self.sliding_window or inputs.sequence), (f"{name}.input_layernorm",)
        query, key, value = (f"{at}.{role}_proj" for role in "qkv")
        normalised = self.model_type == "qwen3"
        layers.linear(query, query_width, hidden, queries, qkv_bias, read)
        layers.linear(key, key_width, hidden, queries, qkv_bias, read, cache_elements=0 if normalised else key_width * keys)
        layers.linear(value, key_width, hidden, queries, qkv_bias, read, cache_elements=key_width * keys)
        if normalised:
            elements, projections = (query_width + key_width) * queries, (query, key)
            query = key = f"{at}.qk_norm"
            layers.elementwise(query, elements, elements, 2 * self.width, projections, cache_elements=key_width * keys)
        if inputs.passes == "separate":
            elements, rotated = (query_width + key_width) * queries, (query, key)
            query = key = f"{at}.rotary"
            layers.elementwise(query, elements, elements, reads=rotated)
        fused = inputs.attention == "fused"
        layers.attention(
            at, self.num_attention_heads, self.key_heads, self.width, queries, keys, fused, reads=(query, key, value), causal=True
        )
        layers.linear(f"{at}.o_proj", hidden, query_width, queries, self.attention_bias)

    def _add_feed_forward(self, layers: LayerListBuilder, name: str, positions: int) -> None:
        hidden, inner, at = self.hidden_size, self.intermediate_size, f"{name}.mlp"
        layers.norm(f"{name}.post_attention_layernorm", hidden, positions, hidden)
        for half in ("gate", "up"):
            layers.linear(f"{at}.{half}_proj", inner, hidden, positions, self.mlp_bias, (f"{name}.post_attention_layernorm",))
        halves = (f"{at}.gate_proj", f"{at}.up_proj")
        layers.elementwise(f"{at}.product", 2 * inner * positions, inner * positions, reads=halves, per_channel=True)
        layers.linear(f"{at}.down_proj", hidden, inner, positions, self.mlp_bias)


class Mixtral(Llama):
    """Llama with a mixture of experts: each token uses `num_experts_per_tok` of the feed-forward networks."""

    model_type: Literal["mixtral"]  # type: ignore[assignment]
    num_local_experts: PositiveInt
    num_experts_per_tok: PositiveInt

    @model_validator(mode="after")
    def _check_experts(self) -> Self:
        if self.num_experts_per_tok > self.num_local_experts:
            message = f"a token cannot use {self.num_experts_per_tok} of {self.num_local_experts} experts"
            raise field_error(message, "write num_experts_per_tok <= num_local_experts")
        return self

    def _add_feed_forward(self, layers: LayerListBuilder, name: str, positions: int) -> None:
        hidden, inner, at = self.hidden_size, self.intermediate_size, f"{name}.block_sparse_moe"
        experts: dict[str, Any] = {"experts": self.num_local_experts, "active": self.num_experts_per_tok}
        elements = positions * self.num_experts_per_tok * inner
        layers.norm(f"{name}.post_attention_layernorm", hidden, positions, hidden)
        layers.linear(f"{at}.gate", self.num_local_experts, hidden, positions, bias=False, prunable=False)
        reads = (f"{name}.post_attention_layernorm", f"{at}.gate")
        for half in ("w1", "w3"):
            layers.linear(f"{at}.experts.{half}", inner, hidden, positions, False, reads, **experts)
        halves = (f"{at}.experts.w1", f"{at}.experts.w3")
        layers.elementwise(f"{at}.experts.product", 2 * elements, elements, reads=halves, per_channel=True)
        layers.linear(f"{at}.experts.w2", hidden, inner, positions, bias=False, **experts)
