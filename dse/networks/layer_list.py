"""Build the list of layers of a network: methods that append linear layers, convolutions, norms and attentions.

All networks are counted in the same way. Biases, batch normalisation and pooling are fused and free, activation functions and positions
too unless the `passes` of a transformer are separate. Layer normalisation with the residual addition before it, softmax and the product of
a gated unit are layers that move bytes.
"""

from dse.networks.architecture import AttentionInputs
from dse.networks.graph import NETWORK_INPUT, SEPARATOR
from dse.networks.layers import Conversion, LayerRow, make_layer_row
from dse.sparsity.attention.kinds import CAUSAL, FULL
from dse.sparsity.attention.pattern import AttentionPattern


class LayerListBuilder(list[LayerRow]):
    """A list of layers with methods that append them; layers are named after the modules of the reference implementation.

    A layer reads the output of the layer before it unless `reads` names others. `stream` is the layer whose output carries the residual
    stream. With separate passes a prunable linear layer has a conversion before it that quantises its inputs, once for all that read the
    same, and one behind it that scales its outputs; others read the scaled outputs by the name of the linear layer. With a transposed
    layout of pruned layers the two also transpose.
    """

    stream = ""

    def __init__(self, inputs: AttentionInputs | None = None) -> None:
        super().__init__()
        self.separate_passes = inputs is not None and inputs.passes == "separate"
        self._transposes = inputs is not None and inputs.sparse_layout == "transposed"
        self._conversion_names = ("transpose_inputs", "transpose_outputs") if self._transposes else ("quantize", "scale")
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
            reads = (self._convert_inputs(reads, k * n),)
        biases = m * experts if bias else 0
        columns |= {"prunable": prunable, "experts": experts, "active": active}
        self.append_layer(name, reads, adds, kind="gemm", m=m, k=k, n=n, other_parameters=biases, **columns)
        if is_converted:
            self._converted[name] = f"{name}.{self._conversion_names[1]}"
            self._convert(self._converted[name], m * n * active, "outputs")

    def _convert_inputs(self, reads: tuple[str, ...], elements: float) -> str:
        """Name of the layer that converts the outputs of the layers `reads`, which is appended if it does not exist."""
        sources = tuple(self._converted.get(source, source) for source in reads) or (self[-1].name,)
        key = f"inputs of {SEPARATOR.join(sources)}"
        if key not in self._converted:
            self._converted[key] = f"{sources[-1]}.{self._conversion_names[0]}"
            self._convert(self._converted[key], elements, "inputs", sources)
        return self._converted[key]

    def _convert(self, name: str, elements: float, conversion: Conversion, reads: tuple[str, ...] = ()) -> None:
        columns = {"conversion": conversion, "transposes": self._transposes}
        self.elementwise(name, elements, elements, reads=reads, per_channel=True, **columns)

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
