"""What a graph's operators become: one row for each that multiplies or that moves bytes between other kernels.

The same operator gives the same row whatever file it is read from: weighted layers are named after their weight
tensor, the others by kind and order ("matmul_1", "softmax_1"). Sizes are of one sample: `batch` is the number of samples
that the graph was exported for.
"""

from collections import Counter
from math import prod

from dse.networks.layers import LayerRow

Shape = tuple[int, ...]


def layer_name(tensor: str) -> str:
    """A weighted layer is called as its module: 'encoder.0.q.weight' belongs to 'encoder.0.q'."""
    return tensor.removesuffix(".weight").removesuffix("_weight")


def linear(name: str, weight: Shape, outputs: Shape, batch: int) -> LayerRow:
    """`weight` is [m, k], `outputs` [..., m]."""
    m, k = weight
    return LayerRow(name=name, kind="gemm", m=m, k=k, n=prod(outputs[:-1]) / batch)


def convolution(name: str, weight: Shape, inputs: Shape, outputs: Shape, groups: int, batch: int) -> LayerRow:
    """`weight` is [m, channels of a group, *kernel], `inputs` and `outputs` [batch, channels, *space]."""
    return LayerRow(
        name=name, kind="conv", m=weight[0], k=prod(weight[1:]), n=prod(outputs[2:]) * outputs[0] / batch,
        groups=groups, input_elements=prod(inputs) / batch,
    )  # fmt: skip


class Unweighted:
    """Rows of the operators without weights, numbered by kind in the order in which they run."""

    def __init__(self, batch: int):
        self.batch, self._met = batch, Counter[str]()

    def _name(self, kind: str) -> str:
        self._met[kind] += 1
        return f"{kind}_{self._met[kind]}"

    def matmul(self, left: Shape, right: Shape, outputs: Shape) -> LayerRow:
        """[..., m, k] times [..., k, n], both of them activations: one product for each of the leading dimensions."""
        count = prod(outputs[:-2]) / self.batch
        return LayerRow(name=self._name("matmul"), kind="matmul", m=left[-2], k=left[-1], n=right[-1], count=count)

    def bandwidth_bound(self, kind: str, inputs: Shape, outputs: Shape) -> LayerRow:
        """An operator that reads and writes and does little else: `softmax`, `norm`."""
        read, written = prod(inputs) / self.batch, prod(outputs) / self.batch
        return LayerRow(name=self._name(kind), kind="elementwise", input_elements=read, output_elements=written)

    def attention(self, query: Shape, key: Shape, value: Shape) -> list[LayerRow]:
        """softmax(Q K^T) V for [batch, heads, tokens, width], step by step. Query heads that share a key head share its bytes."""
        (batch, heads, queries, width), (_, kv_heads, keys, _) = query, key
        shared = heads // kv_heads
        scores = (batch, kv_heads, shared * queries, keys)
        return [
            self.matmul((batch, kv_heads, shared * queries, width), (batch, kv_heads, width, keys), scores),
            self.bandwidth_bound("softmax", scores, scores),
            self.matmul(scores, value, (batch, kv_heads, shared * queries, value[-1])),
        ]
