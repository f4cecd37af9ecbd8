"""Gemma 2 and the text network of Gemma 3: blocks that alternate between a window and all tokens, with norms before and behind.

Gemma 2: arXiv 2408.00118 (soft caps on scores and logits, table 1); Gemma 3: arXiv 2503.19786 (five blocks with a window to one without,
queries and keys normalised instead of capped). Soft caps are counted as activation functions: fused and free.
With images: a SigLIP tower, whose patches are averaged to 256 tokens an image.
"""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.base.strict_model import field_error
from dse.networks.architecture import GenerationInputs, PositiveInt
from dse.networks.clip import SigLIPVision
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow
from dse.networks.llama import AlternatingLlama, add_gated_unit
from dse.networks.multimodal import IMAGE_PART, ImageTextInputs, ImageTextNetwork, name_part


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


class Gemma3(ImageTextNetwork):
    model_type: Literal["gemma3"]
    text_config: Gemma3Text
    vision_config: SigLIPVision
    mm_tokens_per_image: PositiveInt = 256

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        if self.vision_config.patches % self.mm_tokens_per_image:
            message = f"{self.vision_config.patches} patches cannot be averaged to {self.mm_tokens_per_image} tokens"
            raise field_error(message, "write mm_tokens_per_image that divides the patches of an image")
        return self

    @property
    def tokens_per_image(self) -> int:
        return self.mm_tokens_per_image

    def build_image_part(self, inputs: ImageTextInputs) -> LayerListBuilder:
        layers, width, tokens = LayerListBuilder(inputs), self.vision_config.hidden_size, self.mm_tokens_per_image
        layers.extend(name_part(IMAGE_PART, self.vision_config.build_layers(inputs)))
        at, patches = "multi_modal_projector", self.vision_config.patches
        layers.elementwise(f"{at}.mm_soft_emb_norm", patches * width, tokens * width, width)  # the average and the norm
        layers.linear(f"{at}.mm_input_projection", self.text_config.hidden_size, width, tokens, bias=False, prunable=False)
        return layers

    def build_language_model(self, inputs: ImageTextInputs) -> list[LayerRow]:
        return self.text_config.build_layers(inputs)
