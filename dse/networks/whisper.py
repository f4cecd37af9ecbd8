"""Whisper: two convolutions and an encoder of 30 s of sound, and a decoder that attends to it (Radford et al. 2022, arXiv 2212.04356)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import BlockCount, NetworkInputs, PositiveInt, check_heads, check_positions
from dse.networks.encoder_decoder import (
    AttentionModule,
    DecoderInputs,
    EncoderDecoder,
    add_attention,
    add_cross_attention,
    add_decoder_self_attention,
)
from dse.networks.layer_list import LayerListBuilder
from dse.sparsity.attention.kinds import FULL

KERNEL, STRIDE = 3, 2  # of the convolutions over time; the second has the stride (section 2.2)


class Whisper(EncoderDecoder):
    model_type: Literal["whisper"]
    vocab_size: PositiveInt
    num_mel_bins: PositiveInt
    d_model: PositiveInt
    encoder_layers: BlockCount
    encoder_attention_heads: PositiveInt
    encoder_ffn_dim: PositiveInt
    decoder_layers: BlockCount
    decoder_attention_heads: PositiveInt
    decoder_ffn_dim: PositiveInt
    max_source_positions: PositiveInt = 1500  # outputs of the encoder, for 30 s of sound; shorter sound is padded
    max_target_positions: PositiveInt = 448

    inputs: ClassVar[type[NetworkInputs]] = DecoderInputs

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        for heads in (self.encoder_attention_heads, self.decoder_attention_heads):
            check_heads(self.d_model, heads)
        return self

    def attention(self, heads: int) -> AttentionModule:
        names = ("q_proj", "k_proj", "v_proj", "out_proj")
        return AttentionModule(self.d_model, heads, self.d_model // heads, names, (True, False, True, True))

    def _build_encoder(self, inputs: DecoderInputs) -> LayerListBuilder:
        layers, tokens, hidden = LayerListBuilder(inputs), self.max_source_positions, self.d_model
        for name, channels, outputs, learned in (
            ("conv1", self.num_mel_bins, STRIDE * tokens, 0),
            ("conv2", hidden, tokens, tokens * hidden),
        ):
            layers.append_layer(
                f"encoder.{name}", kind="conv", m=hidden, k=channels * KERNEL, n=outputs, input_elements=channels * STRIDE * tokens,
                other_parameters=hidden + learned,
            )  # fmt: skip
            layers.activation(f"encoder.{name}.act", hidden * outputs)
        pattern, module = inputs.encoder_pattern or FULL, self.attention(self.encoder_attention_heads)
        pattern.check_context(tokens)
        for block in range(self.encoder_layers):
            at = f"encoder.layers.{block}"
            layers.norm(f"{at}.self_attn_layer_norm", hidden, tokens, 2 * hidden)
            add_attention(layers, f"{at}.self_attn", module, tokens, tokens, inputs, pattern)
            self._add_feed_forward(layers, at, self.encoder_ffn_dim, tokens)
        layers.norm("encoder.layer_norm", hidden, tokens, 2 * hidden)
        return layers

    def _add_decoder(self, layers: LayerListBuilder, inputs: DecoderInputs) -> LayerListBuilder:
        check_positions(inputs.target, self.max_target_positions, "target")
        queries, hidden, encoded, module = inputs.queries, self.d_model, layers[-1].name, self.attention(self.decoder_attention_heads)
        positions = self.max_target_positions * hidden  # the head shares the token table
        layers.elementwise("decoder.embed_tokens", 2 * queries * hidden, queries * hidden, positions, reads=("input",))
        for block in range(self.decoder_layers):
            at = f"decoder.layers.{block}"
            layers.norm(f"{at}.self_attn_layer_norm", hidden, queries, 2 * hidden)
            add_decoder_self_attention(layers, f"{at}.self_attn", module, inputs)
            layers.norm(f"{at}.encoder_attn_layer_norm", hidden, queries, 2 * hidden)
            add_cross_attention(layers, f"{at}.encoder_attn", module, self.max_source_positions, inputs, encoded)
            self._add_feed_forward(layers, at, self.decoder_ffn_dim, queries)
        layers.norm("decoder.layer_norm", hidden, queries, 2 * hidden)
        layers.linear("proj_out", self.vocab_size, hidden, inputs.scored, bias=False, prunable=False)
        return layers

    def _add_feed_forward(self, layers: LayerListBuilder, name: str, inner: int, positions: int) -> None:
        layers.norm(f"{name}.final_layer_norm", self.d_model, positions, 2 * self.d_model)
        layers.linear(f"{name}.fc1", inner, self.d_model, positions)
        layers.activation(f"{name}.activation_fn", inner * positions)
        layers.linear(f"{name}.fc2", self.d_model, inner, positions)
