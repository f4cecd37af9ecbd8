"""W of the memories where on-chip capacity counts: the products that the layers of a network are, and the bytes that they move.

A convolution is the product of its filters with the unrolled input, and its input is read as often as tiles with a rim need.
Its geometry is not in the tables; kernels are taken as square, and as padded to keep the size where the uses of an element are a
square number. With `fusion`, activations stay in a memory between layers where they fit (see `dse.model.fusion`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dse.base.dtype import OperandDtypes
from dse.model import traffic, work
from dse.model.capacity import Product, attainable, bound
from dse.model.fusion import Fusion
from dse.model.inputs import input_uses, needed, skips_columns
from dse.model.peak import Execution
from dse.networks.layers import LayerArrays
from dse.schema.model_options import ModelOptions
from dse.sparsity.columns import shared_column_choices
from dse.sparsity.kinds import Structured
from dse.workload import Variant

PerLayer = Float[np.ndarray, "layer"]
Bytes = Float[np.ndarray, "layer execution"]


@dataclass(frozen=True, eq=False)
class Reuse:
    """The products of a network state under each execution, and which layers have products and weights at all."""

    product: Product  # of arrays [layer, execution]
    multiplies: Bool[np.ndarray, "layer"]
    weighted: Bool[np.ndarray, "layer"]
    layers: LayerArrays  # of one sample
    count: PerLayer  # how often each layer runs at the batch

    @classmethod
    def of(
        cls,
        layers: LayerArrays,
        variant: Variant,
        pairs: Sequence[tuple[work.Stored, Execution]],
        dtype: OperandDtypes,
        options: ModelOptions,
    ) -> "Reuse":
        found = [_product(layers, variant, stored, execution, dtype, options) for stored, execution in pairs]
        names = [field.name for field in fields(Product)]
        columns = {name: np.stack([np.broadcast_to(getattr(one, name), len(layers)) for one in found], axis=1) for name in names}
        return cls(Product(**columns), layers.has_flops, layers.has_weights, variant.layers, layers.count)

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
        """Bytes where activations stay in the memory as `Fusion` says [B]; other layers move what they do alone."""
        if self.fusion is None:
            return self.attainable(capacity)
        held = self.fusion.held(capacity)
        stays = held & (self.layers.cache_elements == 0)  # what is cached is written as well
        moved = self._weights + self._inputs * self.fusion.share_read(held)[:, None] + np.where(stays[:, None], 0.0, self.product.c)
        return np.where(self.fusion.streams(held)[:, None], moved, self.attainable(capacity))

    @property
    def fused_bound(self) -> Bytes:
        """Bytes that every schedule moves, layers fused in whatever way: weights, what the network reads and what it writes [B].

        Repeats of a layer, and experts, may read and write one tensor.
        """
        first, last = self._ends
        once = (np.where(self.layers.kind == "matmul", 1.0, self.layers.count) * self.layers.active)[:, None]
        read, written = np.where(first[:, None], self._least_inputs, 0.0), np.where(last[:, None], self.product.c, 0.0)
        return self._weights + (read + written) / once

    @cached_property
    def fusion(self) -> Fusion | None:
        """Tensors and what they take, of the execution that takes most; None where it is not known which layer reads which."""
        if self.layers.graph is None:
            return None
        size = (self.product.c * self.count[:, None]).max(axis=1)
        rows = np.minimum(self.product.a, self.product.c).max(axis=1) / self.product.m[:, 0]
        return Fusion(self.layers, self.layers.graph, size, np.where(self.multiplies, rows, 0.0))

    @property
    def _weights(self) -> Bytes:
        return np.where(self.weighted[:, None], self.product.a, 0.0)

    @property
    def _inputs(self) -> Bytes:
        """What a schedule reads of both operands beside weights [B]."""
        return self.product.a + self.product.b * self.product.most - self._weights

    @property
    def _least_inputs(self) -> Bytes:
        return self.product.a + self.product.b * self.product.least - self._weights

    @property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        if self.fusion is not None:
            return self.fusion.ends
        number = np.arange(len(self.weighted))
        return number == 0, number == len(self.weighted) - 1


def _product(
    layers: LayerArrays, variant: Variant, stored: work.Stored, execution: Execution, dtype: OperandDtypes, options: ModelOptions
) -> Product:
    weights, inputs, outputs = traffic.parts(layers, variant, stored, execution, dtype, options)
    read = needed(layers, variant, execution, options)
    m, k, n = layers.m * traffic.written_share(layers, variant, execution), layers.k, layers.n
    pair = layers.kind == "matmul"  # both operands are activations
    of_a = np.where(pair, m * k / (m * k + k * n), 0.0) * inputs
    uses, reach = input_uses(variant.layers) if options.activations == "implicit" else (np.ones(len(layers)),) * 2
    density = np.where(layers.has_weights, np.clip(stored.elements / (m * k), 1e-12, 1.0), 1.0)
    return Product(
        m, k, n, weights + of_a, inputs - of_a, outputs, density=density,
        groups=layers.groups, uses=uses, reach=reach, sample=np.where(layers.kind == "conv", variant.layers.n, 1.0),
        done=work.activations_done(layers, variant, execution), least=read.least, most=read.most,
        **_shared_columns(layers, variant, execution, density, options),
    )  # fmt: skip


def _shared_columns(
    layers: LayerArrays, variant: Variant, execution: Execution, density: PerLayer, options: ModelOptions
) -> dict[str, PerLayer]:
    """How the rows of A share columns, as `Product` takes it; where nothing is skipped, all that is stored counts as nonzero."""
    skipping = layers.has_weights & (variant.density < 1) & skips_columns(variant, execution, options)
    whole_rows = isinstance(variant.pattern, Structured) and variant.pattern.axis == "row"
    own = shared_column_choices(variant.pattern, layers.m / layers.groups, layers.k, np.clip(variant.density, 1e-12, 1.0))
    plain = {"stripe_rows": 1.0, "stripe_share": 1.0, "band_rows": 1.0, "band_share": 1.0, "element_share": density}
    given = {"stripe_rows": own.rows, "stripe_share": own.share} | {name: getattr(own, name) for name in list(plain)[2:]}
    return {name: np.where(skipping & (not whole_rows), given[name], plain[name]) for name in plain}
