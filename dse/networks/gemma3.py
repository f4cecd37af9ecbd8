"""Gemma 3 with images: a SigLIP tower, whose patches are averaged to 256 tokens an image, and the text network (arXiv 2503.19786)."""

from typing import Literal, Self

from pydantic import model_validator

from dse.base.strict_model import field_error
from dse.networks.architecture import LayerListBuilder, PositiveInt
from dse.networks.clip import SigLIPVision
from dse.networks.gemma import Gemma3Text
from dse.networks.layers import LayerRow
from dse.networks.multimodal import IMAGE_PART, ImageTextInputs, ImageTextNetwork
from dse.networks.parts import name_part


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
        layers, width, tokens = LayerListBuilder(inputs.passes == "separate"), self.vision_config.hidden_size, self.mm_tokens_per_image
        layers.extend(name_part(IMAGE_PART, self.vision_config.build_layers(inputs)))
        at, patches = "multi_modal_projector", self.vision_config.patches
        layers.elementwise(f"{at}.mm_soft_emb_norm", patches * width, tokens * width, width)  # the average and the norm
        layers.linear(f"{at}.mm_input_projection", self.text_config.hidden_size, width, tokens, bias=False, prunable=False)
        return layers

    def build_language_model(self, inputs: ImageTextInputs) -> list[LayerRow]:
        return self.text_config.build_layers(inputs)
