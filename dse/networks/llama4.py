"""Llama 4: experts next to a shared one, attention within chunks of tokens in three of four blocks, and an image tower.

Meta 2025, model card and published configuration of Llama-4-Scout-17B-16E; chunks and blocks without rotary positions as in the reference
implementation (Hugging Face Transformers, `llama4`). A query attends to the tokens of its own chunk, up to itself; the cache of such a
block keeps the tokens of the last chunk.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dse.base.strict_model import field_error
from dse.networks.architecture import AttentionInputs, GenerationInputs, PositiveInt
from dse.networks.clip import ImageTower
from dse.networks.experts import add_experts, add_router, check_experts
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow
from dse.networks.llama import Llama, Projections, add_gated_unit
from dse.networks.multimodal import IMAGE_PART, ImageTextInputs, ImageTextNetwork, name_part

Flag = Annotated[int, Field(strict=True, ge=0, le=1)]


class Llama4Text(Llama):
    """`intermediate_size` is the width of an expert, `intermediate_size_mlp` that of a block without experts."""

    model_type: Literal["llama4_text"] = "llama4_text"  # type: ignore[assignment]
    num_local_experts: PositiveInt
    num_experts_per_tok: PositiveInt
    intermediate_size_mlp: PositiveInt
    interleave_moe_layer_step: PositiveInt = 1
    attention_chunk_size: PositiveInt | None = None
    no_rope_layers: tuple[Flag, ...] = ()  # 1: rotary positions and chunks; 0: neither
    no_rope_layer_interval: PositiveInt = 4
    use_qk_norm: bool = True

    @model_validator(mode="after")
    def _check_blocks(self) -> Self:
        check_experts(self.num_experts_per_tok, self.num_local_experts)
        if self.no_rope_layers and len(self.no_rope_layers) != self.num_hidden_layers:
            message = f"{len(self.no_rope_layers)} no_rope_layers for {self.num_hidden_layers} blocks"
            raise field_error(message, "write one for each of num_hidden_layers, or none")
        return self

    def has_rotary_positions(self, block: int) -> bool:
        """Whether a block has rotary positions, and with them chunks and normalised queries and keys."""
        return bool(self.no_rope_layers[block]) if self.no_rope_layers else (block + 1) % self.no_rope_layer_interval != 0

    def normalizes_heads(self, block: int) -> bool:
        return self.use_qk_norm and self.has_rotary_positions(block)

    @property
    def head_norm_parameters(self) -> int:
        """The norm of queries and keys has no weights."""
        return 0

    def chunk(self, block: int, tokens: int) -> int:
        """Tokens of a chunk, of `tokens` in all."""
        return min(tokens, self.attention_chunk_size or tokens) if self.has_rotary_positions(block) else tokens

    def keys(self, block: int, inputs: GenerationInputs) -> int:
        if inputs.attention_pattern is not None:
            return super().keys(block, inputs)
        return (inputs.sequence - 1) % self.chunk(block, inputs.sequence) + 1

    def _attend(self, layers: LayerListBuilder, block: int, projections: Projections, inputs: GenerationInputs) -> tuple[str, ...]:
        """Append the products of all complete chunks as sequences of their own, and those of the rest."""
        if inputs.attention_pattern is not None:
            return super()._attend(layers, block, projections, inputs)
        contexts, at, keys = [], f"model.layers.{block}.self_attn", self.keys(block, inputs)
        size = self.chunk(block, inputs.sequence)
        chunks, rest = divmod(inputs.sequence, size)
        prefill = (at, chunks, size, size), (f"{at}.last_chunk", 1, rest, rest)
        for name, number, queries, seen in prefill if inputs.phase == "prefill" else ((at, 1, inputs.queries, keys),):
            if queries:
                layers.attention(
                    name, self.num_attention_heads, self.key_heads, self.width, queries, seen, inputs.attention == "fused", number,
                    projections, causal=True,
                )  # fmt: skip
                contexts.append(layers[-1].name)
        return tuple(contexts)

    def has_experts(self, block: int) -> bool:
        """Whether a block has experts instead of one feed-forward network."""
        return (block + 1) % self.interleave_moe_layer_step == 0

    def _add_feed_forward(self, layers: LayerListBuilder, block: int, positions: int) -> None:
        name, hidden = f"model.layers.{block}", self.hidden_size
        at, norm = f"{name}.feed_forward", f"{name}.post_attention_layernorm"
        layers.norm(norm, hidden, positions, hidden)
        if not self.has_experts(block):
            add_gated_unit(layers, at, hidden, self.intermediate_size_mlp, positions)
            return
        add_gated_unit(layers, f"{at}.shared_expert", hidden, self.intermediate_size, positions)
        add_router(layers, f"{at}.router", self.num_local_experts, hidden, positions, reads=(norm,))
        add_experts(
            layers, at, hidden, self.intermediate_size, positions, self.num_local_experts, self.num_experts_per_tok,
            units=("gate_up_proj",), reads=(norm, f"{at}.router"), adds=f"{at}.shared_expert.down_proj",
        )  # fmt: skip


class Llama4Vision(ImageTower):
    """Patches and a learned token, which is dropped behind the blocks; neighbouring patches become one token (pixel shuffle)."""

    model_type: Literal["llama4_vision_model"] = "llama4_vision_model"
    pixel_shuffle_ratio: float = Field(0.5, gt=0, le=1)
    projector_input_dim: PositiveInt = 4096
    projector_output_dim: PositiveInt = 4096

    blocks: ClassVar[str] = "model.layers"
    norms: ClassVar[tuple[str, str]] = ("input_layernorm", "post_attention_layernorm")
    projections: ClassVar[tuple[str, str, str, str]] = ("q_proj", "k_proj", "v_proj", "o_proj")

    @property
    def image_tokens(self) -> int:
        """Tokens that an image becomes."""
        return round(self.patches * self.pixel_shuffle_ratio**2)

    def build_layers(self, inputs: AttentionInputs) -> list[LayerRow]:
        layers, hidden, tokens = LayerListBuilder(inputs), self.hidden_size, self.patches + 1
        embedded = tokens * hidden  # positions; the learned token has the elements of the bias, which the projection of patches lacks
        layers.patch_embedding("patch_embedding.linear", hidden, self.num_channels, self.patch_size, self.image_size, embedded)
        layers.norm("layernorm_pre", hidden, tokens, 2 * hidden, residual=False)
        self._add_blocks(layers, tokens, inputs)
        layers.norm("layernorm_post", hidden, tokens, 2 * hidden)
        shuffled = round(hidden / self.pixel_shuffle_ratio**2)
        layers.linear("vision_adapter.mlp.fc1", self.projector_input_dim, shuffled, self.image_tokens, bias=False)
        layers.activation("vision_adapter.mlp.activation_fn", self.projector_input_dim * self.image_tokens)
        layers.linear("vision_adapter.mlp.fc2", self.projector_output_dim, self.projector_input_dim, self.image_tokens, bias=False)
        return layers


class Llama4(ImageTextNetwork):
    model_type: Literal["llama4"]
    text_config: Llama4Text
    vision_config: Llama4Vision

    @property
    def tokens_per_image(self) -> int:
        return self.vision_config.image_tokens

    def build_image_part(self, inputs: ImageTextInputs) -> LayerListBuilder:
        layers, tower = LayerListBuilder(inputs), self.vision_config
        layers.extend(name_part(IMAGE_PART, tower.build_layers(inputs)))
        hidden = self.text_config.hidden_size
        layers.linear("multi_modal_projector.linear_1", hidden, tower.projector_output_dim, tower.image_tokens, bias=False)
        return layers

    def build_language_model(self, inputs: ImageTextInputs) -> list[LayerRow]:
        return self.text_config.build_layers(inputs)
