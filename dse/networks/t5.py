"""T5: encoder and decoder with relative positions and without biases (Raffel et al. 2020, arXiv 1910.10683; T5 v1.1: gated units).

The table of relative positions is counted with the first norm of its stack; adding it to the scores is fused and free.
"""

from typing import ClassVar, Literal

from dse.networks.architecture import BlockCount, NetworkInputs, PositiveInt
from dse.networks.encoder_decoder import (
    AttentionModule,
    EncoderDecoder,
    EncoderDecoderInputs,
    add_attention,
    add_cross_attention,
    add_decoder_self_attention,
)
from dse.networks.layer_list import LayerListBuilder
from dse.sparsity.attention.kinds import FULL


class T5(EncoderDecoder):
    model_type: Literal["t5"]
    vocab_size: PositiveInt
    d_model: PositiveInt
    d_kv: PositiveInt
    d_ff: PositiveInt
    num_layers: BlockCount
    num_decoder_layers: BlockCount | None = None
    num_heads: PositiveInt
    relative_attention_num_buckets: PositiveInt = 32
    feed_forward_proj: Literal["relu", "gated-gelu"] = "relu"
    tie_word_embeddings: bool = True

    inputs: ClassVar[type[NetworkInputs]] = EncoderDecoderInputs

    @property
    def attention(self) -> AttentionModule:
        return AttentionModule(self.d_model, self.num_heads, self.d_kv, ("q", "k", "v", "o"))

    def _build_encoder(self, inputs: EncoderDecoderInputs) -> LayerListBuilder:
        layers, tokens = LayerListBuilder(inputs), inputs.sequence
        elements = tokens * self.d_model
        layers.elementwise("shared", elements, elements, 0 if self.tie_word_embeddings else self.vocab_size * self.d_model)
        for block in range(self.num_layers):
            at = f"encoder.block.{block}.layer"
            self._add_norm(layers, f"{at}.0.layer_norm", tokens, is_first=block == 0)
            add_attention(layers, f"{at}.0.SelfAttention", self.attention, tokens, tokens, inputs, inputs.encoder_pattern or FULL)
            self._add_feed_forward(layers, f"{at}.1", tokens)
        self._add_norm(layers, "encoder.final_layer_norm", tokens)
        return layers

    def _add_decoder(self, layers: LayerListBuilder, inputs: EncoderDecoderInputs) -> LayerListBuilder:
        queries, encoded = inputs.queries, layers[-1].name
        layers.elementwise("decoder.embed_tokens", queries * self.d_model, queries * self.d_model, reads=("input",))
        for block in range(self.num_decoder_layers or self.num_layers):
            at = f"decoder.block.{block}.layer"
            self._add_norm(layers, f"{at}.0.layer_norm", queries, is_first=block == 0)
            add_decoder_self_attention(layers, f"{at}.0.SelfAttention", self.attention, inputs)
            self._add_norm(layers, f"{at}.1.layer_norm", queries)
            add_cross_attention(layers, f"{at}.1.EncDecAttention", self.attention, inputs.sequence, inputs, encoded)
            self._add_feed_forward(layers, f"{at}.2", queries)
        self._add_norm(layers, "decoder.final_layer_norm", queries)
        layers.linear("lm_head", self.vocab_size, self.d_model, inputs.scored, bias=False, prunable=False)
        return layers

    def _add_norm(self, layers: LayerListBuilder, name: str, positions: int, is_first: bool = False) -> None:
        table = self.relative_attention_num_buckets * self.num_heads if is_first else 0
        layers.norm(name, self.d_model, positions, self.d_model + table)

    def _add_feed_forward(self, layers: LayerListBuilder, name: str, positions: int) -> None:
        self._add_norm(layers, f"{name}.layer_norm", positions)
        at, elements = f"{name}.DenseReluDense", self.d_ff * positions
        if self.feed_forward_proj == "relu":
            layers.linear(f"{at}.wi", self.d_ff, self.d_model, positions, bias=False)
            layers.activation(f"{at}.act", elements)
        else:
            halves, read = (f"{at}.wi_0", f"{at}.wi_1"), (layers[-1].name,)
            for half in halves:
                layers.linear(half, self.d_ff, self.d_model, positions, False, read)
            layers.elementwise(f"{at}.product", 2 * elements, elements, reads=halves, per_channel=True)
        layers.linear(f"{at}.wo", self.d_model, self.d_ff, positions, bias=False)
