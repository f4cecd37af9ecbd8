"""LLaMA and its relatives: pre-norm decoders with rotary positions, grouped queries and gated units.

Touvron et al. 2023, arXiv 2302.13971 and 2307.09288; Mistral: Jiang et al. 2023, arXiv 2310.06825; Qwen2 (biases on queries, keys and
values): arXiv 2407.10671; Qwen3 (queries and keys normalised): arXiv 2505.09388. Positions are fused and free unless `passes` are separate.

Other families change single steps: which tokens a block attends to (`window`), the projections (`_project`), the norms and the
feed-forward network.
"""

from typing import ClassVar, Literal, NamedTuple, Self

from pydantic import model_validator

from dse.base.strict_model import field_error
from dse.networks.architecture import Architecture, BlockCount, GenerationInputs, NetworkInputs, PositiveInt, check_heads
from dse.networks.decoder_attention import AttentionReads, Heads, add_decoder_attention
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow

AttentionType = Literal["sliding_attention", "full_attention"]


class Projections(NamedTuple):
    """Names of the layers that compute queries, keys and values."""

    query: str
    key: str
    value: str


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

    @property
    def query_width(self) -> int:
        """Elements of the queries of a token."""
        return self.num_attention_heads * self.width

    @property
    def key_width(self) -> int:
        """Elements of the keys of a token, and of its values."""
        return self.key_heads * self.width

    @property
    def has_qkv_bias(self) -> bool:
        return self.attention_bias or self.model_type == "qwen2"

    def normalizes_heads(self, block: int) -> bool:
        """Whether queries and keys of a block are normalised, head by head."""
        return self.model_type == "qwen3"

    def window(self, block: int) -> int | None:
        """Tokens that a query of a block attends to, its own included; None: all."""
        return self.sliding_window

    def keys(self, block: int, inputs: GenerationInputs) -> int:
        """Tokens whose keys the last query of a block or a later one may attend to, so that the key-value cache holds them."""
        return inputs.pattern_of(self.window(block)).cached_keys(inputs.sequence)

    def cached_elements(self, block: int, inputs: GenerationInputs) -> int:
        """Elements of the keys of a block that the key-value cache has room for, and of the values."""
        return self.key_width * inputs.cached_tokens(self.keys(block, inputs))

    def build_layers(self, inputs: GenerationInputs) -> list[LayerRow]:
        layers, hidden = LayerListBuilder(inputs), self.hidden_size
        table = 0 if self.tie_word_embeddings else self.vocab_size * hidden
        layers.elementwise("model.embed_tokens", inputs.queries * hidden, inputs.queries * hidden, table)
        for block in range(self.num_hidden_layers):
            self._add_attention(layers, block, inputs)
            self._add_feed_forward(layers, block, inputs.queries)
        layers.norm("model.norm", hidden, inputs.queries, hidden)
        layers.linear("lm_head", self.vocab_size, hidden, inputs.scored, bias=False, prunable=False)
        return layers

    def _add_attention(self, layers: LayerListBuilder, block: int, inputs: GenerationInputs) -> None:
        name, queries = f"model.layers.{block}", inputs.queries
        layers.norm(f"{name}.input_layernorm", self.hidden_size, queries, self.hidden_size + self.attention_parameters)
        projections = self._project(layers, block, inputs)
        if self.normalizes_heads(block):
            projections = self._normalize_heads(layers, f"{name}.self_attn", projections, inputs, self.cached_elements(block, inputs))
        if inputs.passes == "separate":
            elements = (self.query_width + self.key_width) * queries
            layers.elementwise(f"{name}.self_attn.rotary", elements, elements, reads=projections[:2])
            projections = projections._replace(query=f"{name}.self_attn.rotary", key=f"{name}.self_attn.rotary")
        contexts = self._attend(layers, block, projections, inputs)
        layers.linear(f"{name}.self_attn.o_proj", self.hidden_size, self.query_width, queries, self.attention_bias, contexts)

    @property
    def attention_parameters(self) -> int:
        """Parameters of a block's attention that are in no linear layer."""
        return 0

    def _project(self, layers: LayerListBuilder, block: int, inputs: GenerationInputs) -> Projections:
        """Append the layers that compute queries, keys and values."""
        name, hidden, queries = f"model.layers.{block}", self.hidden_size, inputs.queries
        projections = Projections(*(f"{name}.self_attn.{role}_proj" for role in "qkv"))
        cached, read = self.cached_elements(block, inputs), (f"{name}.input_layernorm",)
        cached_keys = 0 if self.normalizes_heads(block) else cached
        layers.linear(projections.query, self.query_width, hidden, queries, self.has_qkv_bias, read)
        layers.linear(projections.key, self.key_width, hidden, queries, self.has_qkv_bias, read, cache_elements=cached_keys)
        layers.linear(projections.value, self.key_width, hidden, queries, self.has_qkv_bias, read, cache_elements=cached)
        return projections

    def _normalize_heads(
        self, layers: LayerListBuilder, at: str, projections: Projections, inputs: GenerationInputs, cached: float
    ) -> Projections:
        """Append the normalisation of queries and keys, whose result the cache keeps."""
        elements = (self.query_width + self.key_width) * inputs.queries
        reads = tuple(dict.fromkeys(projections[:2]))
        layers.elementwise(f"{at}.qk_norm", elements, elements, self.head_norm_parameters, reads, cache_elements=cached)
        return projections._replace(query=f"{at}.qk_norm", key=f"{at}.qk_norm")

    @property
    def head_norm_parameters(self) -> int:
        return 2 * self.width

    def _attend(self, layers: LayerListBuilder, block: int, projections: Projections, inputs: GenerationInputs) -> tuple[str, ...]:
        """Append the products of queries, keys and values, and before them the layers that choose keys, if the data do.

        Returns the names of the layers whose outputs are the result.
        """
        heads = Heads(self.num_attention_heads, self.key_heads, self.width)
        reads = AttentionReads(f"model.layers.{block}.input_layernorm", *projections)
        pattern = inputs.pattern_of(self.window(block))
        add_decoder_attention(layers, f"model.layers.{block}.self_attn", heads, self.hidden_size, reads, pattern, inputs)
        return (layers[-1].name,)

    def _add_feed_forward(self, layers: LayerListBuilder, block: int, positions: int) -> None:
        name = f"model.layers.{block}"
        layers.norm(f"{name}.post_attention_layernorm", self.hidden_size, positions, self.hidden_size)
        add_gated_unit(layers, f"{name}.mlp", self.hidden_size, self.intermediate_size, positions, self.mlp_bias)


def add_gated_unit(layers: LayerListBuilder, at: str, hidden: int, inner: int, positions: int, bias: bool = False) -> None:
    """Append a gated unit that reads the last layer: down_proj(act(gate_proj x) * up_proj x) (Shazeer 2020, arXiv 2002.05202)."""
    halves, read = (f"{at}.gate_proj", f"{at}.up_proj"), (layers[-1].name,)
    for half in halves:
        layers.linear(half, inner, hidden, positions, bias, read)
    layers.elementwise(f"{at}.product", 2 * inner * positions, inner * positions, reads=halves, per_channel=True)
    layers.linear(f"{at}.down_proj", hidden, inner, positions, bias)


class AlternatingLlama(Llama):
    """Llama in which every `sliding_window_pattern`-th block attends to all tokens, and the others to `sliding_window` of them.

    `layer_types` says it block by block. The key-value cache of a block with a window keeps the tokens of the window.
    """

    sliding_window_pattern: PositiveInt | None = None
    layer_types: tuple[AttentionType, ...] | None = None

    default_pattern: ClassVar[int] = 2

    @model_validator(mode="after")
    def _check_layer_types(self) -> Self:
        if self.layer_types is not None and len(self.layer_types) != self.num_hidden_layers:
            message = f"{len(self.layer_types)} layer_types for {self.num_hidden_layers} blocks"
            raise field_error(message, "write one for each of num_hidden_layers")
        return self

    def has_window(self, block: int) -> bool:
        """Whether a block attends to a window of tokens only."""
        if self.layer_types is not None:
            return self.layer_types[block] == "sliding_attention"
        return (block + 1) % (self.sliding_window_pattern or self.default_pattern) != 0

    def window(self, block: int) -> int | None:
        return self.sliding_window if self.has_window(block) else None
