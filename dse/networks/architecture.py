"""The base class of architectures, and the inputs that they run on.

An architecture holds the sizes of a published configuration and the formulas that compute its layers. Its fields are named as in the
published configuration files, so that one can be copied. What is not a property of the network but of its use (tokens, phase) is in its
`NetworkInputs`.
"""

from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from dse.base.errors import InputError
from dse.base.strict_model import StrictModel, field_error, validation_errors
from dse.networks.config_keys import KEYS, describe_keys
from dse.networks.layers import LayerRow
from dse.sparsity.attention.grammar import AttentionField
from dse.sparsity.attention.kinds import CAUSAL, FULL, TokenUnion
from dse.sparsity.attention.pattern import AttentionPattern

PositiveInt = Annotated[int, Field(strict=True, gt=0, le=10**9)]
Runtime = Literal["eager", "graph"]
MAX_BLOCKS = 2000  # of all stages together: ResNet-1202 and DeepNet's 1000 layers are the deepest published
BlockCount = Annotated[int, Field(strict=True, gt=0, le=MAX_BLOCKS)]
PositiveInts = Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=100)]
Multiplier = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


def _check_depths(depths: tuple[int, ...]) -> tuple[int, ...]:
    if sum(depths) > MAX_BLOCKS:
        raise field_error(f"{sum(depths)} blocks are more than any network has", f"write depths of at most {MAX_BLOCKS} together")
    return depths


BlockCounts = Annotated[tuple[BlockCount, ...], Field(min_length=1, max_length=100), AfterValidator(_check_depths)]


def check_heads(width: int, heads: int) -> None:
    """Raise a validation error unless the heads divide the width."""
    if width % heads:
        raise field_error(f"{heads} heads do not divide a width of {width}", "write a number of heads that does")


def check_stages(**sizes: tuple[int, ...]) -> None:
    """Raise a validation error unless all sizes are given for the same number of stages."""
    (first, depths), *others = sizes.items()
    for name, values in others:
        if len(values) != len(depths):
            raise field_error(f"{len(depths)} {first} but {len(values)} {name}", "write one of each for every stage")


def check_patches(image: int, patch: int) -> None:
    """Raise a validation error if a patch is larger than the image."""
    if patch > image:
        raise field_error(f"a patch of {patch} is larger than an image of {image}", "write patch_size <= image_size")


def check_positions(tokens: int, limit: int, name: str = "sequence") -> None:
    """Raise InputError if a network runs on more `tokens` (the input `name`) than it has learned positions."""
    if tokens > limit:
        raise InputError(
            f"{tokens} tokens, but the network has {limit} learned positions", f"write {name} <= {limit}", key=f"inputs.{name}"
        )


def check_encoder_pattern(pattern: AttentionPattern) -> None:
    """Raise InputError if the self-attention of an encoder cannot have such a pattern."""
    if pattern.is_chosen:
        raise InputError(f"an encoder has no layers that choose the keys of '{pattern}'", "write 'full' or 'around:64'")


def check_decoder_pattern(pattern: AttentionPattern) -> None:
    """Raise InputError if the self-attention of a decoder cannot have such a pattern."""
    if not pattern.is_causal and pattern != FULL:
        raise InputError(f"'{pattern}' attends to later tokens, which do not exist yet", "write 'causal' or 'window:4096'")


class NetworkInputs(StrictModel):
    """What a network runs on; images have the size that the configuration states.

    Results list all inputs, those in `optional` only where they are set.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"runtime"})

    runtime: Runtime = Field(
        "graph", description="graph: the host launches all kernels at once, in no time; eager: one by one, so that it may set the time"
    )

    def listed(self) -> dict[str, object]:
        """The inputs that results list."""
        defaults = {name: field.default for name, field in type(self).model_fields.items()}
        return {name: value for name, value in self.model_dump().items() if name not in self.optional or value != defaults[name]}


class AttentionInputs(NetworkInputs):
    """Inputs of a network with attention."""

    optional: ClassVar[frozenset[str]] = NetworkInputs.optional | {"sparse_layout"}

    attention: Literal["fused", "unfused"] = Field(
        "fused", description="fused: scores stay on chip (FlashAttention); unfused: scores are written, and softmax is a layer"
    )
    passes: Literal["fused", "separate"] = Field(
        "fused",
        description="fused: activation functions, rotary positions and the conversion of dtypes are free; separate: each is a layer that "
        "moves bytes, as in frameworks that do not fuse them",
    )
    sparse_layout: Literal["same", "transposed"] = Field(
        "same",
        description="same: kernels of pruned layers read and write activations as those of dense layers do; transposed: they take "
        "transposed matrices, so that separate passes copy the inputs and the outputs of every pruned layer",
    )

    @model_validator(mode="after")
    def _check_layout(self) -> Self:
        if self.sparse_layout == "transposed" and self.passes == "fused":
            raise field_error("'sparse_layout: transposed' copies activations in passes, which are fused", "add 'passes: separate'")
        return self


class SequenceInputs(AttentionInputs):
    """Inputs of an encoder."""

    sequence: int = Field(512, gt=0, le=10**8, description="tokens of a sample")
    attention_pattern: AttentionField | None = Field(
        None, description="which keys each token attends to, in every block; default: as the configuration says", examples=["window:4096"]
    )

    @model_validator(mode="after")
    def _check_pattern(self) -> Self:
        if self.attention_pattern is not None:
            with validation_errors():
                self._check_kind(self.attention_pattern)
                self.attention_pattern.check_context(self.sequence)
        return self

    def _check_kind(self, pattern: AttentionPattern) -> None:
        """Raise InputError if the network cannot have such a pattern."""
        check_encoder_pattern(pattern)


class GenerationInputs(SequenceInputs):
    """Inputs of a decoder that generates text."""

    optional: ClassVar[frozenset[str]] = SequenceInputs.optional | {"attention_pattern", "indexer_heads", "indexer_width", "page"}

    sequence: int = Field(2048, gt=0, le=10**8, description="tokens of the prompt (prefill) or of the cache, the new one included (decode)")
    phase: Literal["prefill", "decode"] = Field("prefill", description="prefill: all tokens at once; decode: one new token of each sample")
    logits: Literal["last", "all"] = Field(
        "last",
        description="tokens of each sample that the vocabulary is scored for; last: as in generating text; all: as for perplexity",
    )
    indexer_heads: int = Field(
        64, gt=0, le=10**6, description="heads that score the tokens of a top-k pattern (DeepSeek-V3.2, arXiv 2512.02556: 64)"
    )
    indexer_width: int = Field(
        128, gt=0, le=10**6, description="width of the keys that these heads share (DeepSeek-V3.2, arXiv 2512.02556: 128)"
    )
    page: int = Field(1, gt=0, le=10**8, description="tokens of a page of the key-value cache, which occupies whole pages")

    def _check_kind(self, pattern: AttentionPattern) -> None:
        check_decoder_pattern(pattern)

    def pattern_of(self, window: int | None) -> AttentionPattern:
        """The attention pattern of a block whose configuration limits it to the last `window` tokens (None: all)."""
        return self.attention_pattern or (CAUSAL if window is None else TokenUnion(window=window))

    def cached_tokens(self, keys: int) -> int:
        """Tokens that the key-value cache has room for if it holds `keys` of them."""
        return -(-keys // self.page) * self.page

    @property
    def queries(self) -> int:
        """Tokens of a sample that pass through the network."""
        return self.sequence if self.phase == "prefill" else 1

    @property
    def scored(self) -> int:
        """Tokens of a sample that the vocabulary is scored for."""
        return self.queries if self.logits == "all" else 1


class Architecture(StrictModel, ABC):
    """A family of networks."""

    inputs: ClassVar[type[NetworkInputs]] = NetworkInputs
    weight_layout: ClassVar[str] = "[m, k]"  # of a matrix in the reference implementation

    @abstractmethod
    def build_layers(self, inputs: Any) -> list[LayerRow]:
        """The layers of this network for `inputs`, in execution order."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described, kinds = handler(schema), {name: field.annotation for name, field in cls.model_fields.items()}
        parts = {name: kind.make_example() for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Architecture)}
        describe_keys(handler.resolve_ref_schema(described).get("properties", {}), parts)
        return described

    @classmethod
    def make_example(cls) -> dict[str, object]:
        """An example of the keys that a configuration of this architecture needs."""
        required = {name: field.annotation for name, field in cls.model_fields.items() if field.is_required()}
        return {name: get_args(kind)[0] if name == "model_type" else KEYS[name][1] for name, kind in required.items()}
