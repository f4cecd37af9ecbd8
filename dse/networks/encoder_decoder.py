"""Inputs of networks with an encoder and a decoder, their attention, and the parts that a decode step does not run.

Both self-attentions take attention patterns. Cross-attention is full: tokens of the decoder have no positions among those of the encoder.

The encoder runs once a sample, together with the decoder's prompt (prefill), which also computes the keys and values of cross attention.
They stay in the key-value cache. A decode step runs the decoder alone; the parameters of the encoder and of the projections of its outputs
stay in memory: they are one elementwise layer, `encoder`, that moves nothing and holds what the cache has of them.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from dse.base.errors import InputError
from dse.base.strict_model import validation_errors
from dse.networks.architecture import Architecture, AttentionInputs, check_decoder_pattern, check_encoder_pattern
from dse.networks.decoder_attention import pattern_columns
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerArrays, LayerRow, make_layer_row
from dse.sparsity.attention.grammar import AttentionField
from dse.sparsity.attention.kinds import CAUSAL, FULL
from dse.sparsity.attention.pattern import AttentionPattern

ENCODER = "encoder"  # the layer of a decode step that has the parameters of what does not run


class DecoderInputs(AttentionInputs):
    """Inputs of a network whose encoder reads inputs of a fixed size and whose decoder generates text."""

    optional: ClassVar[frozenset[str]] = AttentionInputs.optional | {"attention_pattern", "encoder_pattern"}

    target: int = Field(
        1, gt=0, le=10**8, description="tokens of the decoder: of its prompt (prefill), or of its cache, the new one included (decode)"
    )
    phase: Literal["prefill", "decode"] = Field(
        "prefill", description="prefill: the encoder and the prompt of the decoder; decode: one new token of each sample"
    )
    logits: Literal["last", "all"] = Field(
        "last", description="tokens of the decoder that the vocabulary is scored for; last: as in generating text; all: as for perplexity"
    )

    attention_pattern: AttentionField | None = Field(
        None, description="which keys each token of the decoder attends to in its self-attention, in every block; default: causal",
        examples=["window:64"],
    )  # fmt: skip
    encoder_pattern: AttentionField | None = Field(
        None, description="which keys each token of the encoder attends to, in every block; default: full", examples=["around:127"]
    )

    @model_validator(mode="after")
    def _check_patterns(self) -> Self:
        """Check both patterns; that of the encoder with the length of its input where that is known."""
        with validation_errors():
            if self.attention_pattern is not None:
                _check_not_chosen(self.attention_pattern)
                check_decoder_pattern(self.attention_pattern)
                self.attention_pattern.check_context(self.target)
            if self.encoder_pattern is not None:
                check_encoder_pattern(self.encoder_pattern)
                self._check_encoder_context(self.encoder_pattern)
        return self

    def _check_encoder_context(self, pattern: AttentionPattern) -> None:
        """Raise InputError if the pattern is longer than the input of the encoder; a network checks it that states that length."""

    @property
    def queries(self) -> int:
        """Tokens of a sample that pass through the decoder."""
        return self.target if self.phase == "prefill" else 1

    @property
    def scored(self) -> int:
        """Tokens of a sample that the vocabulary is scored for."""
        return self.queries if self.logits == "all" else 1


class EncoderDecoderInputs(DecoderInputs):
    """Inputs of a network whose encoder reads text."""

    sequence: int = Field(512, gt=0, le=10**8, description="tokens that the encoder reads")

    def _check_encoder_context(self, pattern: AttentionPattern) -> None:
        pattern.check_context(self.sequence)


def _check_not_chosen(pattern: AttentionPattern) -> None:
    if pattern.is_chosen:
        raise InputError(f"this decoder has no layers that choose the keys of '{pattern}'", "write 'causal' or 'window:64'")


class EncoderDecoder(Architecture):
    """A network with an encoder, and a decoder that attends to its outputs."""

    def build_layers(self, inputs: Any) -> list[LayerRow]:
        """The layers of both (prefill), or of the decoder behind one layer that holds what does not run (decode)."""
        every = self._build_encoder(inputs)
        if inputs.phase == "prefill":
            return self._add_decoder(every, inputs)
        decoder = LayerListBuilder(inputs)
        decoder.elementwise(ENCODER, 0, 0)
        running = self._add_decoder(decoder, inputs)
        running[0] = make_idle_layer(ENCODER, self._add_decoder(every, inputs.model_copy(update={"phase": "prefill"})), running)
        return running

    @abstractmethod
    def _build_encoder(self, inputs: Any) -> LayerListBuilder:
        """The layers of the encoder."""

    @abstractmethod
    def _add_decoder(self, layers: LayerListBuilder, inputs: Any) -> LayerListBuilder:
        """`layers` with those of the decoder appended."""


def add_decoder_self_attention(layers: LayerListBuilder, at: str, module: "AttentionModule", inputs: DecoderInputs) -> None:
    """Append the self-attention of a block of the decoder, whose cache holds the tokens that a later one may attend to."""
    pattern = inputs.attention_pattern or CAUSAL
    add_attention(layers, at, module, inputs.queries, inputs.target, inputs, pattern, pattern.cached_keys(inputs.target))


class AttentionModule(NamedTuple):
    """Sizes of an attention, and names of its linear layers with whether they have biases: queries, keys, values, output."""

    hidden: int
    heads: int
    width: int
    names: tuple[str, str, str, str]
    biases: tuple[bool, bool, bool, bool] = (False, False, False, False)

    @property
    def inner(self) -> int:
        return self.heads * self.width


def add_attention(
    layers: LayerListBuilder, at: str, module: AttentionModule, queries: int, context: int, inputs: AttentionInputs,
    pattern: AttentionPattern = FULL, cached: int = 0,
) -> None:  # fmt: skip
    """Append self-attention of the last `queries` of a `context` of tokens, which reads the last layer.

    `cached`: tokens whose keys and values the cache keeps.
    """
    norm = layers[-1].name
    projected = tuple(f"{at}.{name}" for name in module.names[:3])
    for name, bias, tokens in zip(projected, module.biases, (0, cached, cached), strict=False):
        layers.linear(name, module.inner, module.hidden, queries, bias, (norm,), cache_elements=module.inner * tokens)
    _add_products(layers, at, module, queries, context, inputs, projected, pattern)


def add_cross_attention(layers: LayerListBuilder, at: str, module: AttentionModule, keys: int, inputs: DecoderInputs, encoded: str) -> None:
    """Append attention of the decoder to `keys` outputs of the encoder, which the layer `encoded` computes."""
    query, key, value = (f"{at}.{name}" for name in module.names[:3])
    layers.linear(query, module.inner, module.hidden, inputs.queries, module.biases[0])
    if inputs.phase == "prefill":
        for name, bias in zip((key, value), module.biases[1:3], strict=True):
            layers.linear(name, module.inner, module.hidden, keys, bias, (encoded,), cache_elements=module.inner * keys)
    else:
        key = value = ENCODER
    _add_products(layers, at, module, inputs.queries, keys, inputs, (query, key, value), FULL)


def _add_products(
    layers: LayerListBuilder, at: str, module: AttentionModule, queries: int, context: int, inputs: AttentionInputs,
    reads: tuple[str, ...], pattern: AttentionPattern,
) -> None:  # fmt: skip
    columns = pattern_columns(pattern, queries, context)
    layers.attention(at, module.heads, module.heads, module.width, queries, fused=inputs.attention == "fused", reads=reads, **columns)
    layers.linear(f"{at}.{module.names[3]}", module.hidden, module.inner, queries, module.biases[3])


def make_idle_layer(name: str, every: list[LayerRow], running: list[LayerRow]) -> LayerRow:
    """Make one layer that moves nothing of all layers in `every` that do not run: their parameters, and what the cache keeps of them."""
    names = {layer.name for layer in running}
    idle = LayerArrays.from_rows([layer for layer in every if layer.name not in names])
    return make_layer_row(
        name=name, kind="elementwise", input_elements=0, output_elements=0, other_parameters=idle.parameters,
        cache_elements=float(idle.cache_elements.sum()), reads="input",
    )  # fmt: skip
