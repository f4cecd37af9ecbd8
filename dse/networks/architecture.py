"""The base class of architectures, and the builder that makes their layers.

An architecture holds the sizes of a published configuration and the formulas that compute its layers. Its fields are named as in the
published configuration files, so that one can be copied. What is not a property of the network but of its use (tokens, phase) is in its
`NetworkInputs`.

All networks are counted in the same way. Biases, batch normalisation and pooling are fused and free, activation functions and positions
too unless the `passes` of a transformer are separate. Layer normalisation with the residual addition before it, softmax and the product of
a gated unit are layers that move bytes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from dse.base.errors import InputError
from dse.base.strict_model import StrictModel, field_error
from dse.networks.config_keys import KEYS, describe_keys
from dse.networks.graph import NETWORK_INPUT, SEPARATOR
from dse.networks.layers import LayerRow, make_layer_row
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


@contextmanager
def validation_errors() -> Iterator[None]:
    """Raise the first problem of an InputError as a validation error, which names the field."""
    try:
        yield
    except InputError as error:
        raise field_error(error.problems[0].message, error.problems[0].fix) from error


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

    optional: ClassVar[frozenset[str]] = frozenset()

    runtime: Runtime = Field(
        "graph", description="graph: the host launches all kernels at once, in no time; eager: one by one, so that it may set the time"
    )

    def listed(self) -> dict[str, object]:
        """The inputs that results list."""
        defaults = {name: field.default for name, field in type(self).model_fields.items()}
        optional = {"runtime", *self.optional}
        return {name: value for name, value in self.model_dump().items() if name not in optional or value != defaults[name]}


class AttentionInputs(NetworkInputs):
    """Inputs of a network with attention."""

    attention: Literal["fused", "unfused"] = Field(
        "fused", description="fused: scores stay on chip (FlashAttention); unfused: scores are written, and softmax is a layer"
    )
    passes: Literal["fused", "separate"] = Field(
        "fused",
        description="fused: activation functions, rotary positions and the conversion of dtypes are free; separate: each is a layer that "
        "moves bytes, as in frameworks that do not fuse them",
    )


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

    optional: ClassVar[frozenset[str]] = frozenset({"attention_pattern", "indexer_heads", "indexer_width", "page"})

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


class LayerListBuilder(list[LayerRow]):
    """A list of layers with methods that append them; layers are named after the modules of the reference implementation.

    A layer reads the output of the layer before it unless `reads` names others. `stream` is the layer whose output carries the residual
    stream. With `separate_passes` a prunable linear layer has a layer before it that quantises its inputs, once for all that read the same,
    and one behind it that scales its outputs; others read the scaled outputs by the name of the linear layer.
    """

    stream = ""

    def __init__(self, separate_passes: bool = False) -> None:
        super().__init__()
        self.separate_passes = separate_passes
        self._converted: dict[str, str] = {}  # by what is converted, the layer that others read instead

    def append_layer(self, name: str, reads: tuple[str, ...] = (), adds: str = "", **columns: object) -> None:
        """Append a layer that reads the outputs of the layers `reads`; `adds`: the layer whose output is added to its result."""
        sources = [self._converted.get(source, source) for source in reads] or [self[-1].name if self else NETWORK_INPUT]
        added = self._converted.get(adds, adds) or None
        self.append(make_layer_row(name=name, reads=SEPARATOR.join(dict.fromkeys(sources)), adds=added, **columns))

    def linear(
        self, name: str, m: float, k: float, n: float, bias: bool = True, reads: tuple[str, ...] = (), prunable: bool = True,
        experts: int = 1, active: int = 1, adds: str = "", **columns: object,
    ) -> None:  # fmt: skip
        """Append a linear layer."""
        is_converted = self.separate_passes and prunable
        if is_converted:
            reads = (self._quantize(reads, k * n),)
        biases = m * experts if bias else 0
        columns |= {"prunable": prunable, "experts": experts, "active": active}
        self.append_layer(name, reads, adds, kind="gemm", m=m, k=k, n=n, other_parameters=biases, **columns)
        if is_converted:
            elements = m * n * active
            self.elementwise(f"{name}.scale", elements, elements, per_channel=True, conversion="outputs")
            self._converted[name] = f"{name}.scale"

    def _quantize(self, reads: tuple[str, ...], elements: float) -> str:
        """Name of the layer that quantises the outputs of the layers `reads`, which is appended if it does not exist."""
        sources = tuple(self._converted.get(source, source) for source in reads) or (self[-1].name,)
        key = f"inputs of {SEPARATOR.join(sources)}"
        if key not in self._converted:
            self._converted[key] = f"{sources[-1]}.quantize"
            self.elementwise(self._converted[key], elements, elements, reads=sources, per_channel=True, conversion="inputs")
        return self._converted[key]

    def conv(
        self, name: str, m: int, channels: int, kernel: int, size: int, stride: int = 1, groups: int = 1, extra: float = 0,
        reads: tuple[str, ...] = (), adds: str = "",
    ) -> int:  # fmt: skip
        """Append a convolution of `channels` x size x size with "same" padding; returns the size of its output.

        `extra`: parameters of biases and norms.
        """
        out = -(-size // stride)
        self.append_layer(
            name, reads, adds, kind="conv", m=m, k=channels // groups * kernel**2, n=out**2, groups=groups,
            input_elements=channels * size**2, other_parameters=extra,
        )  # fmt: skip
        return out

    def patch_embedding(self, name: str, m: int, channels: int, patch: int, size: int, extra: float = 0) -> int:
        """Append a linear layer over each patch x patch tile of an image; returns the number of tiles along a side.

        Incomplete tiles at the edge are dropped.
        """
        return self.conv(name, m, channels, patch, size - size % patch, patch, extra=m + extra)

    def elementwise(
        self,
        name: str,
        read: float,
        written: float,
        parameters: float = 0,
        reads: tuple[str, ...] = (),
        per_channel: bool = False,
        adds: str = "",
        **columns: object,
    ) -> None:
        """Append a layer that moves `read` and `written` elements and has negligible FLOPs."""
        elements = {"input_elements": read, "output_elements": written, "other_parameters": parameters}
        self.append_layer(name, reads, adds, kind="elementwise", per_channel=per_channel, **elements, **columns)

    def activation(self, name: str, elements: float) -> None:
        """Append an activation function if passes are separate; otherwise it is part of the layer before it."""
        if self.separate_passes:
            self.elementwise(name, elements, elements, per_channel=True)

    def norm(self, name: str, width: float, positions: float, parameters: float, residual: bool = True) -> None:
        """Append a normalisation and the residual addition before it, whose sum is written too (pre-norm)."""
        elements = (2 if residual else 1) * width * positions
        self._normalise(name, elements, elements, parameters, residual)

    def add_and_norm(self, name: str, width: float, positions: float, parameters: float) -> None:
        """Append a residual addition and a normalisation; the sum itself is not needed again (post-norm)."""
        self._normalise(name, 2 * width * positions, width * positions, parameters, residual=True)

    def _normalise(self, name: str, read: float, written: float, parameters: float, residual: bool) -> None:
        summed = (self.stream,) if residual and self.stream else ()
        self.elementwise(name, read, written, parameters, reads=(self[-1].name, *summed) if self else ())
        self.stream = name

    def attention(
        self, name: str, heads: int, kv_heads: int, width: int, queries: float, keys: float, fused: bool, windows: float = 1,
        reads: tuple[str, ...] = (), causal: bool = False, value_width: int | None = None, keys_read: float | None = None,
        values_are_keys: bool = False, pattern: AttentionPattern | None = None, context: float = 0,
    ) -> None:  # fmt: skip
        """Append softmax(Q K^T) V. The query heads that share a key head are one product, so the cache is read once.

        Masked scores are counted, because units differ in which they skip. `reads`: the layers that compute Q and K, and last V; default:
        the layer before computes all of them. `value_width`: elements of a value, if not `width`. `keys_read`: keys that all queries
        together read, if those of one query are fewer. `values_are_keys`: the values are part of the keys, which a fused kernel reads
        once. `pattern`: which scores of a sequence of `context` tokens (default: the larger of queries and keys) are not masked; default:
        causal, or full.
        """
        *compared, value = reads or (self[-1].name,) * 3
        count, n, value_width = kv_heads * windows, heads // kv_heads * queries, value_width or width
        scores, read_once = n * keys, keys if keys_read is None else keys_read
        product = {"kind": "matmul", "n": n, "count": count, "prunable": False}
        product |= {"queries": queries, "sequences": windows, "causal": causal, "context": context}
        product["scores"] = pattern or (CAUSAL if causal else FULL)
        operands, values = width * (n + read_once), 0 if values_are_keys and fused else value_width * read_once
        scores_written = 0 if fused else scores
        self.append_layer(
            f"{name}.scores", tuple(compared), m=keys, k=width, input_elements=operands, output_elements=scores_written,
            read_keys=read_once, **product,
        )  # fmt: skip
        if not fused:
            self.elementwise(f"{name}.softmax", scores * count, scores * count)
        read, elements = (self[-1].name, value), {"input_elements": values + scores_written, "output_elements": value_width * n}
        self.append_layer(
            f"{name}.context", read, m=value_width, k=keys, key_axis="k", read_keys=values / value_width, **elements, **product
        )
