"""What an architecture is: the sizes of a published configuration, and the formulas that make layers of them.

Fields are named as in the published configuration files, so that one can be copied. What is not a property of the
network but of the question (tokens, phase) stands apart, in its `Inputs`.

Every network is counted alike. Biases, activations, batch normalisation, pooling and positions are fused and free; layer
normalisation with the residual addition before it, softmax and the product of a gated unit are layers that move bytes.
"""

from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from dse.base.strict_model import StrictModel, field_error
from dse.networks.graph import NETWORK_INPUT, SEPARATOR
from dse.networks.layers import LayerRow, make_layer_row

PositiveInt = Annotated[int, Field(strict=True, gt=0, le=10**9)]
MAX_BLOCKS = 2000  # of all stages together: ResNet-1202 and DeepNet's 1000 layers are the deepest published
BlockCount = Annotated[int, Field(strict=True, gt=0, le=MAX_BLOCKS)]
PositiveInts = Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=100)]
Scale = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


def _few_blocks(depths: tuple[int, ...]) -> tuple[int, ...]:
    if sum(depths) > MAX_BLOCKS:
        raise field_error(f"{sum(depths)} blocks are more than any network has", f"write depths of at most {MAX_BLOCKS} together")
    return depths


BlockCounts = Annotated[tuple[BlockCount, ...], Field(min_length=1, max_length=100), AfterValidator(_few_blocks)]


def check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise field_error(f"{heads} heads do not divide a width of {width}", "write a number of heads that does")


def check_stages(**sizes: tuple[int, ...]) -> None:
    """That every stage of a network has one of each."""
    (first, depths), *others = sizes.items()
    for name, values in others:
        if len(values) != len(depths):
            raise field_error(f"{len(depths)} {first} but {len(values)} {name}", "write one of each for every stage")


def check_patches(image: int, patch: int) -> None:
    if patch > image:
        raise field_error(f"a patch of {patch} is larger than an image of {image}", "write patch_size <= image_size")


class NetworkInputs(StrictModel):
    """What the network is run on; images have the size of the configuration."""


class AttentionInputs(NetworkInputs):
    attention: Literal["fused", "unfused"] = Field(
        "fused", description="fused: scores stay on chip (FlashAttention); unfused: they are written, and softmax is a layer"
    )


class SequenceInputs(AttentionInputs):
    sequence: int = Field(512, gt=0, le=10**8, description="tokens of a sample")


class GenerationInputs(SequenceInputs):
    sequence: int = Field(2048, gt=0, le=10**8, description="tokens of the prompt (prefill) or of the cache, the new one included (decode)")
    phase: Literal["prefill", "decode"] = Field("prefill", description="prefill: all tokens at once; decode: one new token of each sample")
    logits: Literal["last", "all"] = Field(
        "last",
        description="tokens of each sample that the vocabulary is scored for; last: as in generating text; all: as perplexities need",
    )

    @property
    def queries(self) -> int:
        return self.sequence if self.phase == "prefill" else 1

    @property
    def scored(self) -> int:
        return self.queries if self.logits == "all" else 1


class Architecture(StrictModel, ABC):
    """A family of networks; `rows` are the layers of one, in the order in which they run."""

    inputs: ClassVar[type[NetworkInputs]] = NetworkInputs
    weight_layout: ClassVar[str] = "[m, k]"  # how the reference implementation keeps a matrix

    @abstractmethod
    def build_layers(self, inputs: Any) -> list[LayerRow]:
        """The layers of this network on `inputs` of its own kind."""


class LayerListBuilder(list[LayerRow]):
    """Collects the layers of a network; names follow the modules of the reference implementation.

    A layer reads the one before it, unless `reads` names others. `stream` is the layer whose output carries the residual stream.
    """

    stream = ""

    def append_row(self, name: str, reads: tuple[str, ...] = (), adds: str = "", **sizes: Any) -> None:
        """Append a layer that reads the outputs of some layers above; `adds`: the one whose output is added to its result."""
        sources = reads or ((self[-1].name,) if self else (NETWORK_INPUT,))
        self.append(make_layer_row(name=name, reads=SEPARATOR.join(dict.fromkeys(sources)), adds=adds or None, **sizes))

    def linear(self, name: str, m: float, k: float, n: float, bias: bool = True, reads: tuple[str, ...] = (), **more: Any) -> None:
        extra = m * more.get("experts", 1) if bias else 0
        self.append_row(name, reads, kind="gemm", m=m, k=k, n=n, other_parameters=extra, **more)

    def conv(
        self, name: str, m: int, channels: int, kernel: int, size: int, stride: int = 1, groups: int = 1, extra: float = 0,
        reads: tuple[str, ...] = (), adds: str = "",
    ) -> int:  # fmt: skip
        """A convolution of `channels` x size x size, padded to keep it; returns the size of its output. `extra`: biases, norms."""
        out = -(-size // stride)
        self.append_row(
            name, reads, adds, kind="conv", m=m, k=channels // groups * kernel**2, n=out**2, groups=groups,
            input_elements=channels * size**2, other_parameters=extra,
        )  # fmt: skip
        return out

    def patches(self, name: str, m: int, channels: int, patch: int, size: int, extra: float = 0) -> int:
        """A linear layer over each patch x patch tile; returns the number of tiles along a side."""
        return self.conv(name, m, channels, patch, size - size % patch, patch, extra=m + extra)  # an incomplete tile is left out

    def moved(
        self,
        name: str,
        read: float,
        written: float,
        parameters: float = 0,
        reads: tuple[str, ...] = (),
        per_channel: bool = False,
        **more: Any,
    ) -> None:
        """Work that moves bytes and computes next to nothing."""
        moved = {"input_elements": read, "output_elements": written, "other_parameters": parameters}
        self.append_row(name, reads, kind="elementwise", per_channel=per_channel, **moved, **more)

    def norm(self, name: str, width: float, positions: float, parameters: float, residual: bool = True) -> None:
        """A normalisation, with the residual addition before it, whose sum is written too."""
        moved = (2 if residual else 1) * width * positions
        self._normalise(name, moved, moved, parameters, residual)

    def add_and_norm(self, name: str, width: float, positions: float, parameters: float) -> None:
        """A normalisation after a residual addition, whose sum is not needed again, unlike in a pre-norm block."""
        self._normalise(name, 2 * width * positions, width * positions, parameters, residual=True)

    def _normalise(self, name: str, read: float, written: float, parameters: float, residual: bool) -> None:
        summed = (self.stream,) if residual and self.stream else ()
        self.moved(name, read, written, parameters, reads=(self[-1].name, *summed) if self else ())
        self.stream = name

    def attend(
        self, name: str, heads: int, kv_heads: int, width: int, queries: float, keys: float, fused: bool, windows: float = 1,
        reads: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """softmax(Q K^T) V; the query heads that share a key head are one product, so that the cache is read once.

        Masked (causal) scores are counted: kernels differ in how many they skip. `reads`: the layers that make Q, K and V (default: the one
        before makes all of them).
        """
        query, key, value = reads or (self[-1].name,) * 3
        count, n = kv_heads * windows, heads // kv_heads * queries
        scores, into, out = n * keys, width * (n + keys), width * n
        product = {"kind": "matmul", "n": n, "count": count, "prunable": False}
        read = (into, width * keys) if fused else (into, scores + width * keys)
        wrote = 0 if fused else scores
        self.append_row(f"{name}.scores", (query, key), m=keys, k=width, input_elements=read[0], output_elements=wrote, **product)
        if not fused:
            self.moved(f"{name}.softmax", scores * count, scores * count)
        made = (self[-1].name, value)
        self.append_row(f"{name}.context", made, m=width, k=keys, input_elements=read[1], output_elements=out, **product)
