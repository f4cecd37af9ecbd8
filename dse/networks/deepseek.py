"""DeepSeek-V2, V3 and V3.2: latent attention, many small experts next to shared ones, and prediction of several tokens.

DeepSeek-V2: arXiv 2405.04434; V3 (layers that predict further tokens, section 2.2): arXiv 2412.19437; V3.2 (sparse attention): arXiv
2512.02556. Experts are routed uniformly here: groups of experts (`n_group`) limit the devices that a token uses, not the work.
"""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from dse.base.errors import InputError
from dse.base.strict_model import field_error
from dse.networks.architecture import Architecture, BlockCount, GenerationInputs, NetworkInputs, PositiveInt
from dse.networks.decoder_attention import TokenIndexer, add_token_indexer, pattern_columns
from dse.networks.experts import add_experts, add_router, check_experts
from dse.networks.latent_attention import LatentSizes, LatentTokens, add_absorbed_attention, add_expanded_attention, add_latents
from dse.networks.layer_list import LayerListBuilder
from dse.networks.llama import add_gated_unit
from dse.sparsity.attention.chosen import TopBlocks, TopTokens
from dse.sparsity.attention.pattern import AttentionPattern


class PredictionInputs(GenerationInputs):
    """Inputs of a network that can predict several tokens at once."""

    predicted_tokens: int = Field(
        1, ge=1, le=100, description="tokens that a step predicts; each beyond the first runs one of num_nextn_predict_layers more"
    )


class DeepSeekV2(Architecture):
    model_type: Literal["deepseek_v2"]
    vocab_size: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    moe_intermediate_size: PositiveInt
    num_hidden_layers: BlockCount
    num_attention_heads: PositiveInt
    n_routed_experts: PositiveInt
    num_experts_per_tok: PositiveInt
    n_shared_experts: PositiveInt | None = None
    first_k_dense_replace: int = Field(0, ge=0)
    moe_layer_freq: PositiveInt = 1
    q_lora_rank: PositiveInt | None = None
    kv_lora_rank: PositiveInt
    qk_nope_head_dim: PositiveInt
    qk_rope_head_dim: PositiveInt
    v_head_dim: PositiveInt
    attention_bias: bool = False
    tie_word_embeddings: bool = False

    inputs: ClassVar[type[NetworkInputs]] = GenerationInputs
    has_router_bias: ClassVar[bool] = False

    @model_validator(mode="after")
    def _check_experts(self) -> Self:
        check_experts(self.num_experts_per_tok, self.n_routed_experts, "num_experts_per_tok <= n_routed_experts")
        return self

    @property
    def latent_sizes(self) -> LatentSizes:
        return LatentSizes(
            self.num_attention_heads,
            self.q_lora_rank or 0,
            self.kv_lora_rank,
            self.qk_nope_head_dim,
            self.qk_rope_head_dim,
            self.v_head_dim,
        )

    def has_experts(self, block: int) -> bool:
        """Whether a block has experts instead of one feed-forward network."""
        return block >= self.first_k_dense_replace and block % self.moe_layer_freq == 0

    def build_layers(self, inputs: GenerationInputs) -> LayerListBuilder:
        layers, hidden = LayerListBuilder(inputs), self.hidden_size
        table = 0 if self.tie_word_embeddings else self.vocab_size * hidden
        layers.elementwise("model.embed_tokens", inputs.queries * hidden, inputs.queries * hidden, table)
        for block in range(self.num_hidden_layers):
            self._add_block(layers, block, inputs)
        layers.norm("model.norm", hidden, inputs.queries, hidden)
        layers.linear("lm_head", self.vocab_size, hidden, inputs.scored, bias=False, prunable=False)
        return layers

    def _add_block(self, layers: LayerListBuilder, block: int, inputs: GenerationInputs) -> None:
        name, hidden, queries = f"model.layers.{block}", self.hidden_size, inputs.queries
        layers.norm(f"{name}.input_layernorm", hidden, queries, hidden)
        self._add_attention(layers, f"{name}.self_attn", f"{name}.input_layernorm", inputs)
        layers.linear(f"{name}.self_attn.o_proj", hidden, self.num_attention_heads * self.v_head_dim, queries, self.attention_bias)
        layers.norm(f"{name}.post_attention_layernorm", hidden, queries, hidden)
        if self.has_experts(block):
            self._add_mixture(layers, f"{name}.mlp", queries)
        else:
            add_gated_unit(layers, f"{name}.mlp", hidden, self.intermediate_size, queries)

    @property
    def indexer(self) -> TokenIndexer | None:
        """Sizes of the indexer that the configuration states."""
        return None

    def pattern(self, inputs: GenerationInputs) -> AttentionPattern:
        return inputs.pattern_of(None)

    def _add_attention(self, layers: LayerListBuilder, at: str, norm: str, inputs: GenerationInputs) -> None:
        pattern, fused = self.pattern(inputs), inputs.attention == "fused"
        cached = inputs.cached_tokens(pattern.cached_keys(inputs.sequence))
        tokens = LatentTokens(inputs.queries, cached, pattern_columns(pattern, inputs.queries, inputs.sequence))
        query = add_latents(layers, at, norm, self.hidden_size, self.latent_sizes, tokens, self.attention_bias)
        if isinstance(pattern, TopBlocks):
            raise InputError(f"latent attention does not choose blocks, as '{pattern}' does", "write tokens, as in 'topk:2048'")
        if isinstance(pattern, TopTokens):
            latents, rank = (f"{at}.q_a_layernorm", self.q_lora_rank) if self.q_lora_rank else (norm, self.hidden_size)
            indexer = self.indexer or TokenIndexer(self.hidden_size, rank, inputs.indexer_heads, inputs.indexer_width)
            chosen_by = add_token_indexer(layers, f"{at}.indexer", indexer, pattern, (norm, latents), inputs)
            add_absorbed_attention(layers, at, query, self.latent_sizes, tokens, fused, chosen_by)
        else:
            add_attention = add_expanded_attention if inputs.phase == "prefill" else add_absorbed_attention
            add_attention(layers, at, query, self.latent_sizes, tokens, fused)

    def _add_mixture(self, layers: LayerListBuilder, at: str, positions: int) -> None:
        """Append the experts that every token passes as one gated unit, and those that the router chooses, whose sum is the result."""
        norm, hidden, shared = layers[-1].name, self.hidden_size, ""
        if self.n_shared_experts is not None:
            width, shared = self.n_shared_experts * self.moe_intermediate_size, f"{at}.shared_experts.down_proj"
            add_gated_unit(layers, f"{at}.shared_experts", hidden, width, positions)
        add_router(layers, f"{at}.gate", self.n_routed_experts, hidden, positions, self.has_router_bias, (norm,))
        add_experts(
            layers, at, hidden, self.moe_intermediate_size, positions, self.n_routed_experts, self.num_experts_per_tok,
            reads=(norm, f"{at}.gate"), adds=shared,
        )  # fmt: skip


class DeepSeekV3(DeepSeekV2):
    """V2 with a bias of the router for each expert, and layers that predict further tokens."""

    model_type: Literal["deepseek_v3"]  # type: ignore[assignment]
    num_nextn_predict_layers: int = Field(0, ge=0, le=100)

    inputs: ClassVar[type[NetworkInputs]] = PredictionInputs
    has_router_bias: ClassVar[bool] = True

    def build_layers(self, inputs: GenerationInputs) -> LayerListBuilder:
        assert isinstance(inputs, PredictionInputs)
        if inputs.predicted_tokens > 1 + self.num_nextn_predict_layers:
            message = (
                f"{inputs.predicted_tokens} predicted tokens, but the network has {self.num_nextn_predict_layers} layers for further ones"
            )
            raise InputError(message, f"write predicted_tokens <= {1 + self.num_nextn_predict_layers}")
        layers = super().build_layers(inputs)
        for further in range(inputs.predicted_tokens - 1):
            self._add_prediction(layers, self.num_hidden_layers + further, inputs)
        return layers

    def _add_prediction(self, layers: LayerListBuilder, block: int, inputs: GenerationInputs) -> None:
        """Append a module that predicts one more token: a block that reads the last one and the embedding of the token before.

        Embedding and vocabulary are those of the network.
        """
        name, hidden, queries, state = f"model.layers.{block}", self.hidden_size, inputs.queries, layers.stream
        elements = hidden * queries
        layers.elementwise(f"{name}.embed_tokens", elements, elements)
        layers.elementwise(f"{name}.enorm", elements, elements, hidden)
        layers.elementwise(f"{name}.hnorm", elements, elements, hidden, (state,))
        layers.linear(f"{name}.eh_proj", hidden, 2 * hidden, queries, False, (f"{name}.enorm", f"{name}.hnorm"))
        layers.stream = f"{name}.eh_proj"
        self._add_block(layers, block, inputs)
        layers.norm(f"{name}.shared_head.norm", hidden, queries, hidden)
        layers.linear(f"{name}.shared_head.head", self.vocab_size, hidden, inputs.scored, bias=False, prunable=False, own_weights=False)


class DeepSeekV32(DeepSeekV3):
    """V3 with sparse attention: an indexer scores all earlier tokens, and a query attends to the `index_topk` best of them.

    Both phases use absorbed matrices, because the tokens are chosen for all heads together (arXiv 2512.02556, section 2.1). The cache also
    keeps one indexer key of each token. Every query of a prompt is counted with `index_topk` keys, and all keys are read once.
    An `attention_pattern` without top-k has no indexer.
    """

    model_type: Literal["deepseek_v32"]  # type: ignore[assignment]
    index_n_heads: PositiveInt
    index_head_dim: PositiveInt
    index_topk: PositiveInt

    @model_validator(mode="after")
    def _check_query_rank(self) -> Self:
        if self.q_lora_rank is None:
            raise field_error("the indexer reads the latents of queries, but there is no q_lora_rank", "write q_lora_rank")
        return self

    @property
    def indexer(self) -> TokenIndexer:
        assert self.q_lora_rank is not None
        return TokenIndexer(self.hidden_size, self.q_lora_rank, self.index_n_heads, self.index_head_dim)

    def pattern(self, inputs: GenerationInputs) -> AttentionPattern:
        return inputs.attention_pattern or TopTokens(self.index_topk)
