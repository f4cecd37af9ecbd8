"""W of the memories where on-chip capacity counts: the products that the layers of a network are, and the bytes that they move.

A convolution is the product of its filters with the unrolled input, and its input is read as often as tiles with a rim need.
Its geometry is not in the tables; kernels are taken as square, and as padded to keep the size where the uses of an element are a
square number. With `fusion`, activations that fill less than half of a memory stay there from one layer to the next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dse.dtype import Dtype
from dse.model import traffic, work
from dse.model.capacity import Product, attainable, bound
from dse.model.options import Counting
from dse.model.peak import Execution
from dse.network.layers import Layers
from dse.workload import Variant

PerLayer = Float[np.ndarray, "layer"]
Bytes = Float[np.ndarray, "layer execution"]


@dataclass(frozen=True, eq=False)
class Reuse:
    """The products of a network state under each execution, and which layers have products and weights at all."""

    product: Product  # of arrays [layer, execution]
    multiplies: Bool[np.ndarray, "layer"]
    weighted: Bool[np.ndarray, "layer"]

    @classmethod
    def of(
        cls, layers: Layers, variant: Variant, pairs: Sequence[tuple[work.Stored, Execution]], dtype: Dtype, activations: Counting
    ) -> "Reuse":
        found = [_product(layers, variant, stored, execution, dtype, activations) for stored, execution in pairs]
        names = [field.name for field in fields(Product)]
        columns = {name: np.stack([np.broadcast_to(getattr(one, name), len(layers)) for one in found], axis=1) for name in names}
        return cls(Product(**columns), layers.has_flops, layers.has_weights)

    @cached_property
    def _distinct(self) -> tuple[Product, np.ndarray]:
        columns = [column.ravel() for column in vars(self.product).values()]
        rows, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        return Product(*rows.T), which.reshape(self.product.a.shape)

    def attainable(self, capacity: float) -> Bytes:
        """Bytes that the best known schedule moves [B]."""
        return self._moved(attainable, capacity)

    def bound(self, capacity: float) -> Bytes:
        """Bytes that every schedule moves [B]."""
        return self._moved(bound, capacity)

    def _moved(self, how: Callable[[Product, float], Any], capacity: float) -> Bytes:
        product, which = self._distinct
        return np.where(self.multiplies[:, None], how(product, capacity)[which], self.product.compulsory)

    def fused_attainable(self, capacity: float) -> Bytes:
        """Bytes where the activations that fill less than half of the memory stay in it [B]; the first layer reads, the last writes."""
        held = [part < capacity / 2 for part in (self._inputs, self.product.c)]
        coming, going = held[0] & ~self._ends[0], held[1] & ~self._ends[1]
        left = self._weights + np.where(coming, 0.0, self._inputs) + np.where(going, 0.0, self.product.c)
        return np.where(coming | going, left, self.attainable(capacity))

    @property
    def fused_bound(self) -> Bytes:
        """Bytes that every schedule moves, layers fused in whatever way: weights, what the network reads and what it writes [B]."""
        first, last = self._ends
        return self._weights + np.where(first, self._inputs, 0.0) + np.where(last, self.product.c, 0.0)

    @property
    def _weights(self) -> Bytes:
        return np.where(self.weighted[:, None], self.product.a, 0.0)

    @property
    def _inputs(self) -> Bytes:
        return self.product.a + self.product.b - self._weights

    @property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        number = np.arange(len(self.weighted))[:, None]
        return number == 0, number == len(self.weighted) - 1


def _product(layers: Layers, variant: Variant, stored: work.Stored, execution: Execution, dtype: Dtype, activations: Counting) -> Product:
    weights, inputs, outputs = traffic.parts(layers, variant, stored, execution, dtype, activations)
    read, written = traffic.compacted(layers, variant, execution)
    m, k, n = layers.m * written, layers.k * stored.columns * read, layers.n
    pair = layers.kind == "matmul"  # both operands are activations
    of_a = np.where(pair, m * k / (m * k + k * n), 0.0) * inputs
    uses, reach = _reuse(variant.layers) if activations == "implicit" else (np.ones(len(layers)),) * 2
    return Product(
        m, k, n, weights + of_a, inputs - of_a, outputs,
        density=np.where(layers.has_weights, np.clip(stored.elements / (m * k), 1e-12, 1.0), 1.0),
        groups=layers.groups, uses=uses, reach=reach, sample=np.where(layers.kind == "conv", variant.layers.n, 1.0),
        done=work.activations_done(layers, variant, execution),
    )  # fmt: skip


def _reuse(layers: Layers) -> tuple[PerLayer, PerLayer]:
    """Uses of an input element of a convolution by one filter, on average, and the root of the most of one sample.

    On average R^2 / stride^2 = k n groups / inputs, less what the edges lack: none with padding that keeps the size.
    """
    conv = layers.kind == "conv"
    uses = np.where(conv, layers.k * layers.n * layers.groups / np.maximum(layers.input_elements, 1.0), 1.0)
    root, side = np.sqrt(uses), np.sqrt(layers.n)
    inside = np.where(root < side, root * (side - 1) / np.maximum(side - root, 1e-9), np.inf)  # were it not padded
    kept = np.abs(root - np.round(root)) < 1e-9
    most = np.where(kept, np.round(root), np.ceil(np.minimum(inside, side) - 1e-9))
    return uses, np.where(conv, np.maximum(most, 1.0), 1.0)
