"""CLIP and SigLIP: a tower for images and a tower for text, whose outputs are compared; each tower is also a network of its own.

CLIP: Radford et al. 2021, arXiv 2103.00020; SigLIP (attention pooling of images, no mask in texts): Zhai et al. 2023, arXiv 2303.15343.
Texts have the length that the network was trained with (`max_position_embeddings`): shorter ones are padded.
"""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, AttentionInputs, BlockCount, NetworkInputs, PositiveInt, check_heads, check_patches
from dse.networks.encoder_decoder import AttentionModule, add_attention
from dse.networks.layer_list import LayerListBuilder  # fmt: skip
from dse.networks.layers import LayerRow
from dse.networks.multimodal import name_part
from dse.sparsity.attention.kinds import CAUSAL, FULL

WITH_BIASES = (True, True, True, True)


class Tower(Architecture):
    """What towers for images and for text share: pre-norm blocks with biases."""

    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: BlockCount
    num_attention_heads: PositiveInt

    inputs: ClassVar[type[NetworkInputs]] = AttentionInputs
    blocks: ClassVar[str] = "encoder.layers"  # names in the reference implementation
    norms: ClassVar[tuple[str, str]] = ("layer_norm1", "layer_norm2")
    projections: ClassVar[tuple[str, str, str, str]] = ("q_proj", "k_proj", "v_proj", "out_proj")

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        check_heads(self.hidden_size, self.num_attention_heads)
        return self

    @property
    def attention(self) -> AttentionModule:
        width = self.hidden_size // self.num_attention_heads
        return AttentionModule(self.hidden_size, self.num_attention_heads, width, self.projections, WITH_BIASES)

    def _add_blocks(self, layers: LayerListBuilder, tokens: int, inputs: AttentionInputs, causal: bool = False) -> None:
        hidden = self.hidden_size
        for block in range(self.num_hidden_layers):
            at, (first, second) = f"{self.blocks}.{block}", self.norms
            layers.norm(f"{at}.{first}", hidden, tokens, 2 * hidden)
            add_attention(layers, f"{at}.self_attn", self.attention, tokens, tokens, inputs, CAUSAL if causal else FULL)
            layers.norm(f"{at}.{second}", hidden, tokens, 2 * hidden)
            self._add_perceptron(layers, f"{at}.mlp", tokens)

    def _add_perceptron(self, layers: LayerListBuilder, at: str, tokens: int) -> None:
        layers.linear(f"{at}.fc1", self.intermediate_size, self.hidden_size, tokens)
        layers.activation(f"{at}.activation_fn", self.intermediate_size * tokens)
        layers.linear(f"{at}.fc2", self.hidden_size, self.intermediate_size, tokens)


class ImageTower(Tower):
    image_size: PositiveInt
    patch_size: PositiveInt
    num_channels: PositiveInt = 3

    @model_validator(mode="after")
    def _check_image(self) -> Self:
        check_patches(self.image_size, self.patch_size)
        return self

    @property
    def patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2


class CLIPVision(ImageTower):
    """Patches and a learned token, whose last state is the output."""

    model_type: Literal["clip_vision_model"] = "clip_vision_model"

    def build_layers(self, inputs: AttentionInputs) -> list[LayerRow]:
        layers, hidden, tokens = LayerListBuilder(inputs), self.hidden_size, self.patches + 1
        embedded = tokens * hidden  # positions; the learned token has the elements of the bias, which the projection of patches lacks
        layers.patch_embedding("embeddings.patch_embedding", hidden, self.num_channels, self.patch_size, self.image_size, embedded)
        layers.norm("pre_layrnorm", hidden, tokens, 2 * hidden, residual=False)  # spelt as in the reference implementation
        self._add_blocks(layers, tokens, inputs)
        layers.norm("post_layernorm", hidden, 1, 2 * hidden)
        return layers


class CLIPText(Tower):
    """Causal blocks; the state of the last token is the output."""

    model_type: Literal["clip_text_model"] = "clip_text_model"
    vocab_size: PositiveInt = 49408
    max_position_embeddings: PositiveInt = 77

    is_causal: ClassVar[bool] = True

    def build_layers(self, inputs: AttentionInputs) -> list[LayerRow]:
        layers, hidden, tokens = LayerListBuilder(inputs), self.hidden_size, self.max_position_embeddings
        tables = (self.vocab_size + tokens) * hidden
        layers.elementwise("embeddings", 2 * tokens * hidden, tokens * hidden, tables)
        self._add_blocks(layers, tokens, inputs, self.is_causal)
        layers.norm("final_layer_norm", hidden, tokens, 2 * hidden)
        return layers


class SigLIPVision(ImageTower):
    """Patches without a learned token. The head attends to all of them with one learned query, if `vision_use_head`."""

    model_type: Literal["siglip_vision_model"] = "siglip_vision_model"
    vision_use_head: bool = True

    def build_layers(self, inputs: AttentionInputs) -> list[LayerRow]:
        layers, hidden, tokens = LayerListBuilder(inputs), self.hidden_size, self.patches
        positions = tokens * hidden
        layers.patch_embedding("embeddings.patch_embedding", hidden, self.num_channels, self.patch_size, self.image_size, positions)
        self._add_blocks(layers, tokens, inputs)
        layers.norm("post_layernorm", hidden, tokens, 2 * hidden)
        if self.vision_use_head:
            self._add_head(layers, tokens, inputs)
        return layers

    def _add_head(self, layers: LayerListBuilder, tokens: int, inputs: AttentionInputs) -> None:
        hidden, states = self.hidden_size, layers[-1].name
        layers.elementwise("head.probe", hidden, hidden, hidden, ("input",))
        layers.linear("head.attention.q_proj", hidden, hidden, 1)
        for name in ("head.attention.k_proj", "head.attention.v_proj"):
            layers.linear(name, hidden, hidden, tokens, True, (states,))
        projected = tuple(f"head.attention.{role}_proj" for role in "qkv")
        heads, fused = self.num_attention_heads, inputs.attention == "fused"
        layers.attention("head.attention", heads, heads, hidden // heads, 1, tokens, fused, reads=projected)
        layers.linear("head.attention.out_proj", hidden, hidden, 1)
        layers.norm("head.layernorm", hidden, 1, 2 * hidden, residual=False)
        self._add_perceptron(layers, "head.mlp", 1)


class SigLIPText(CLIPText):
    """Blocks without a mask, and a linear head on the last token."""

    model_type: Literal["siglip_text_model"] = "siglip_text_model"  # type: ignore[assignment]
    vocab_size: PositiveInt = 32000
    max_position_embeddings: PositiveInt = 64
    projection_size: PositiveInt | None = None

    is_causal: ClassVar[bool] = False

    def build_layers(self, inputs: AttentionInputs) -> list[LayerRow]:
        layers = super().build_layers(inputs)
        assert isinstance(layers, LayerListBuilder)
        layers.linear("head", self.projection_size or self.hidden_size, self.hidden_size, 1)
        return layers


class CLIP(Architecture):
    """Both towers, projected to `projection_dim`; the outputs of an image and a text are compared."""

    model_type: Literal["clip"]
    projection_dim: PositiveInt = 512
    text_config: CLIPText
    vision_config: CLIPVision

    inputs: ClassVar[type[NetworkInputs]] = AttentionInputs

    def build_layers(self, inputs: AttentionInputs) -> list[LayerRow]:
        layers, width = LayerListBuilder(inputs), self.projection_dim
        parts: tuple[tuple[str, Tower, str], ...] = (
            ("vision_model", self.vision_config, "visual_projection"), ("text_model", self.text_config, "text_projection"),
        )  # fmt: skip
        for name, tower, projection in parts:
            layers.extend(name_part(name, tower.build_layers(inputs)))
            layers.linear(projection, width, tower.hidden_size, 1, bias=False)
        layers.elementwise("logit_scale", 2 * width, 1, 1, reads=("visual_projection", "text_projection"))
        return layers


class SigLIP(Architecture):
    """Both towers; the outputs of an image and a text are compared, with a learned scale and bias."""

    model_type: Literal["siglip"]
    text_config: SigLIPText
    vision_config: SigLIPVision

    inputs: ClassVar[type[NetworkInputs]] = AttentionInputs

    def build_layers(self, inputs: AttentionInputs) -> list[LayerRow]:
        layers, width = LayerListBuilder(inputs), self.vision_config.hidden_size
        outputs = []
        for name, tower in (("vision_model", self.vision_config), ("text_model", self.text_config)):
            layers.extend(name_part(name, tower.build_layers(inputs)))
            outputs.append(layers[-1].name)
        layers.elementwise("logit_scale", 2 * width, 1, 2, reads=tuple(outputs))
        return layers
