"""Traffic of the layers of a network against on-chip capacity, with or without fusion.

Every layer is a matrix product (`dse.model.capacity`); a convolution is the product of its filters with the unrolled input, and tiles of
its input overlap. Layer tables do not contain the geometry of convolutions: kernels are assumed square, and padded to keep the size if the
number of uses of an input element is a square number. With fusion, activations stay on chip between layers if they fit
(`dse.model.fusion`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from dse.base.dtype import OperandDtypes
from dse.model import traffic
from dse.model.attention_scores import attention_scores
from dse.model.capacity import Product, attainable_bytes, lower_bound_bytes
from dse.model.executions import Execution
from dse.model.fusion import Fusion
from dse.model.needed_inputs import input_uses, needed_input_share, skips_empty_columns
from dse.model.stored_weights import StoredWeights, expansion_in_memory
from dse.model.work import computed_share
from dse.networks.layers import LayerArrays, PerLayer
from dse.schema.model_options import ModelOptions
from dse.sparsity.columns import shared_column_choices
from dse.sparsity.kinds import Structured
from dse.sparsity.pattern import FloatOrArray
from dse.workload import Variant

Bytes = Float[np.ndarray, "layer execution"]


@dataclass(frozen=True, eq=False)
class Reuse:
    """The matrix products of a network variant under each execution, whose traffic depends on the on-chip capacity."""

    product: Product  # fields are arrays [layer, execution]
    has_product: Bool[np.ndarray, "layer"]
    has_weights: Bool[np.ndarray, "layer"]
    layers: LayerArrays  # for one sample
    count: PerLayer  # how often each layer runs, at the batch size
    kernel_k: Float[np.ndarray, "layer execution"]  # columns of A as kernels see it: k, or the expanded k
    expansion: Float[np.ndarray, "layer execution"]  # of the inputs by a pass in memory; 0 without one

    @classmethod
    def of(
        cls,
        layers: LayerArrays,
        variant: Variant,
        pairs: Sequence[tuple[StoredWeights, Execution]],
        dtype: OperandDtypes,
        options: ModelOptions,
    ) -> "Reuse":
        """The products of `layers` (at the batch size) under each execution, with the weights as it stores them."""
        products = [_layer_products(layers, variant, stored, execution, dtype, options) for stored, execution in pairs]
        names = [field.name for field in fields(Product)]
        columns = {name: np.stack([np.broadcast_to(getattr(one, name), len(layers)) for one in products], axis=1) for name in names}
        expansion = np.stack([expansion_in_memory(stored, execution) for stored, execution in pairs], axis=1)
        kernel_k = np.stack([layers.k * (s.column_share if e.is_expanded else 1.0) for s, e in pairs], axis=1)
        return cls(Product(**columns), layers.has_flops, layers.has_weights, variant.layers, layers.count, kernel_k, expansion)

    @cached_property
    def _distinct_products(self) -> tuple[Product, Int[np.ndarray, "layer execution"]]:
        """Products that differ, and the index among them of each layer and execution."""
        columns = [column.ravel() for column in vars(self.product).values()]
        rows, index = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        return Product(*rows.T), index.reshape(self.product.a_bytes.shape)

    def attainable(self, capacity: float) -> Bytes:
        """Bytes that the best known schedule moves [B]."""
        return self._evaluate(attainable_bytes, capacity) + self._pass_bytes * self.product.needed_upper

    def lower_bound(self, capacity: float) -> Bytes:
        """Bytes that no schedule can beat, without fusion [B]."""
        return self._evaluate(lower_bound_bytes, capacity) + self._pass_bytes * self.product.needed_lower

    def _evaluate(self, traffic_of: Callable[[Product, float], FloatOrArray], capacity: float) -> Bytes:
        products, index = self._distinct_products
        return np.where(self.has_product[:, None], traffic_of(products, capacity)[index], self.product.compulsory_bytes)

    def fused_attainable(self, capacity: float) -> Bytes:
        """Bytes if activations stay on chip as `Fusion` says [B]; layers that are not fused move as many as without fusion."""
        if self.fusion is None:
            return self.attainable(capacity)
        on_chip = self.fusion.on_chip_tensors(capacity)
        unwritten = on_chip & (self.layers.cache_elements == 0)  # the key-value cache is written even if the tensor stays on chip
        read = self._weights + self._inputs * self.fusion.read_share(on_chip)[:, None]
        written = np.where(unwritten[:, None], 0.0, self.product.c_bytes)
        return np.where(self.fusion.moves_operands_once(on_chip)[:, None], read + written, self.attainable(capacity))

    @property
    def fused_lower_bound(self) -> Bytes:
        """Bytes that no schedule can beat, however layers are fused [B]: the weights, and the inputs and outputs of the network.

        Repeats of a layer, and experts, may read and write the same tensor.
        """
        first, last = self._network_ends
        instances = (np.where(self.layers.kind == "matmul", 1.0, self.layers.count) * self.layers.active)[:, None]
        read = np.where(first[:, None], self._needed_inputs, 0.0)
        written = np.where(last[:, None], self.product.c_bytes, 0.0)
        return self._weights + (read + written) / instances

    @cached_property
    def fusion(self) -> Fusion | None:
        """The tensors between layers with their bytes under the execution that needs most; None if the layer graph is unknown."""
        if self.layers.graph is None:
            return None
        tensor_bytes = (self.product.c_bytes * self.count[:, None]).max(axis=1)
        row_bytes = np.minimum(self.product.a_bytes, self.product.c_bytes).max(axis=1) / self.product.m[:, 0]
        return Fusion(self.layers, self.layers.graph, tensor_bytes, np.where(self.has_product, row_bytes, 0.0))

    @property
    def _pass_bytes(self) -> Bytes:
        """Bytes that activation passes read and write if every input is needed [B]; B of the product is the expanded one."""
        share_read = np.divide(1.0, self.expansion, out=np.zeros_like(self.expansion), where=self.expansion > 0)
        return np.where(self.expansion > 0, self.product.b_bytes * (1 + share_read), 0.0)

    @property
    def _weights(self) -> Bytes:
        return np.where(self.has_weights[:, None], self.product.a_bytes, 0.0)

    @property
    def _inputs(self) -> Bytes:
        """Bytes of the operands, except weights, that a schedule reads [B]."""
        return self.product.a_bytes + self.product.b_bytes * self.product.needed_upper - self._weights

    @property
    def _needed_inputs(self) -> Bytes:
        """Bytes of the operands, except weights, that every schedule reads [B]."""
        return self.product.a_bytes + self.product.b_bytes * self.product.needed_lower - self._weights

    @property
    def _network_ends(self) -> tuple[Bool[np.ndarray, "layer"], Bool[np.ndarray, "layer"]]:
        """The layers that read the network's input and write its output; without a graph, the first and the last."""
        if self.fusion is not None:
            return self.fusion.network_ends
        number = np.arange(len(self.has_weights))
        return number == 0, number == len(self.has_weights) - 1


def _layer_products(
    layers: LayerArrays, variant: Variant, stored: StoredWeights, execution: Execution, dtype: OperandDtypes, options: ModelOptions
) -> Product:
    """The products of all layers under one execution, each field [layer] or a number."""
    operands = traffic.operand_bytes(layers, variant, stored, execution, dtype, options)
    needed = needed_input_share(layers, variant, execution, options)
    expansion = np.maximum(expansion_in_memory(stored, execution), 1.0)
    computed = attention_scores(layers, execution.run).layers_as_computed(layers)
    m, k, n = computed.m * traffic.output_share(layers, variant, execution), computed.k * expansion, layers.n
    # In a product of two activations, A is a share of the inputs.
    a_width = m * k * traffic.cache_width_ratio(layers, dtype)
    a_inputs = np.where(layers.kind == "matmul", a_width / (a_width + k * n), 0.0) * operands.inputs
    uses, max_uses_per_side = input_uses(variant.layers) if options.activations == "implicit" else (np.ones(len(layers)),) * 2
    density = np.where(layers.has_weights, np.clip(stored.elements / (m * k), 1e-12, 1.0), 1.0)
    b_bytes = (operands.inputs - a_inputs) * expansion
    return Product(
        m, k, n, operands.weights + a_inputs, b_bytes, operands.outputs, density=density, groups=layers.groups,
        uses=uses, max_uses_per_side=max_uses_per_side, sample_columns=np.where(layers.kind == "conv", variant.layers.n, 1.0),
        computed_share=computed_share(layers, variant, execution) * layers.keys / computed.keys,
        needed_lower=needed.lower, needed_upper=needed.upper,
        **_shared_columns(layers, variant, execution, density, variant.density / expansion, options),
    )  # fmt: skip


def _shared_columns(
    layers: LayerArrays, variant: Variant, execution: Execution, density: PerLayer, nonzero: PerLayer, options: ModelOptions
) -> dict[str, PerLayer]:
    """The fields of `Product` that say how rows of A share columns; if no column is skipped, everything stored counts as nonzero.

    `density`, `nonzero`: the shares of the columns that the kernel reads that are stored, and that are nonzero.
    """
    skipping = variant.is_pruned & skips_empty_columns(variant, execution, options)
    keeps_whole_rows = isinstance(variant.pattern, Structured) and variant.pattern.axis == "row"
    shared = shared_column_choices(variant.pattern, layers.m / layers.groups, layers.k, np.clip(nonzero, 1e-12, 1.0))
    independent = {"stripe_rows": 1.0, "stripe_share": 1.0, "band_rows": 1.0, "band_share": 1.0, "element_share": density}
    together = {
        "stripe_rows": shared.rows,
        "stripe_share": shared.share,
        "band_rows": shared.band_rows,
        "band_share": shared.band_share,
        "element_share": shared.element_share,
    }
    return {name: np.where(skipping & (not keeps_whole_rows), together[name], independent[name]) for name in independent}
