"""The layer rows that operators of a graph become: one for each that multiplies, or that moves data between other kernels.

An operator becomes the same row in every file format: layers with weights are named after their weight tensor,
others by kind and order ("matmul_1", "softmax_1"). Sizes are per sample; `batch` is the number of samples that the graph was
exported for.
"""

from collections import Counter
from math import prod

from dse.networks.layers import LayerRow
from dse.readers.parsed_network import Shape


def layer_name(tensor: str) -> str:
    """The name of a layer with weights is that of its module: 'encoder.0.q' for the tensor 'encoder.0.q.weight'."""
    return tensor.removesuffix(".weight").removesuffix("_weight")


def linear_row(name: str, weight: Shape, outputs: Shape, batch: int) -> LayerRow:
    """A linear layer: `weight` is [m, k], `outputs` [..., m]."""
    m, k = weight
    return LayerRow(name=name, kind="gemm", m=m, k=k, n=prod(outputs[:-1]) / batch)


def convolution_row(name: str, weight: Shape, inputs: Shape, outputs: Shape, groups: int, batch: int) -> LayerRow:
    """A convolution: `weight` is [m, channels of a group, *kernel], `inputs` and `outputs` [batch, channels, *space]."""
    return LayerRow(
        name=name, kind="conv", m=weight[0], k=prod(weight[1:]), n=prod(outputs[2:]) * outputs[0] / batch,
        groups=groups, input_elements=prod(inputs) / batch,
    )  # fmt: skip


def row_macs(row: LayerRow) -> float:
    """Multiply-adds of a layer read from a graph [per sample]."""
    return 0.0 if row.kind == "elementwise" else float((row.m or 0) * (row.k or 0) * (row.n or 0) * row.count)


class UnweightedRows:
    """Makes the rows of operators without weights, numbered by kind in the order in which they run."""

    def __init__(self, batch: int):
        self.batch, self._counts = batch, Counter[str]()

    def _next_name(self, kind: str) -> str:
        self._counts[kind] += 1
        return f"{kind}_{self._counts[kind]}"

    def matmul(self, left: Shape, right: Shape, outputs: Shape) -> LayerRow:
        """[..., m, k] times [..., k, n], both activations: one product for each index of the leading dimensions."""
        count = prod(outputs[:-2]) / self.batch
        return LayerRow(name=self._next_name("matmul"), kind="matmul", m=left[-2], k=left[-1], n=right[-1], count=count)

    def bandwidth_bound(self, kind: str, inputs: Shape, outputs: Shape) -> LayerRow:
        """An operator that reads and writes and computes little: `softmax`, `norm`."""
        read, written = prod(inputs) / self.batch, prod(outputs) / self.batch
        return LayerRow(name=self._next_name(kind), kind="elementwise", input_elements=read, output_elements=written)

    def attention(self, query: Shape, key: Shape, value: Shape) -> list[LayerRow]:
        """softmax(Q K^T) V of [batch, heads, tokens, width], step by step; query heads that share a key head read it once."""
        (batch, heads, queries, width), (_, kv_heads, keys, _) = query, key
        rows = heads // kv_heads * queries
        scores = (batch, kv_heads, rows, keys)
        return [
            self.matmul((batch, kv_heads, rows, width), (batch, kv_heads, width, keys), scores),
            self.bandwidth_bound("softmax", scores, scores),
            self.matmul(scores, value, (batch, kv_heads, rows, value[-1])),
        ]


def einsum_macs(equation: str, shapes: list[Shape]) -> float:
    """Multiply-adds of an einsum: one for each combination of indices. Raises ValueError if the equation does not fit the shapes."""
    sizes: dict[str, int] = {}
    for term, shape in zip(equation.partition("->")[0].replace(" ", "").split(","), shapes, strict=True):
        for index, size in zip(_term_indices(term, len(shape)), shape, strict=True):
            sizes[index] = max(size, sizes.get(index, 1))
    return float(prod(sizes.values()))


def _term_indices(term: str, dimensions: int) -> list[str]:
    """The letters of one operand; the dimensions of an ellipsis are numbered from the last, since they align to the right."""
    before, ellipsis, after = term.partition("...")
    hidden = range(dimensions - len(before) - len(after), 0, -1) if ellipsis else ()
    return [*before, *(str(place) for place in hidden), *after]
