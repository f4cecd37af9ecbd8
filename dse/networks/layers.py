"""The layers of a network: as rows of layers.csv (`LayerRow`), and as columns for the model (`LayerArrays`).

A layer computes C[m, n] = A[m, k] B[k, n]. A holds the weights. m counts the output channels of all groups, k the inputs of one group, and
n the output pixels or tokens of one sample.

A mixture of experts is one row with `experts` copies of its weights, of which each position uses `active`. If routing is uniform and
independent, T positions use on average D = experts (1 - (1 - active / experts)^T) different copies, and each copy is applied to
T active / D positions.

`reads` names the layers whose outputs a layer reads, separated by `;` (`input`: the input of the network). `adds` names the layers whose
outputs are added to its result, as in residual connections. If every layer has `reads`, the graph is known (see `dse.networks.graph`).
`per_channel`: each output channel of an elementwise layer depends only on the same channel of what it reads. `cache_elements`: elements of
a layer's outputs that the key-value cache holds for one sample, those of earlier tokens included. `conversion`: an elementwise layer
quantises the `inputs` of layers with weights, or scales their `outputs`; where operands are not quantised it takes no time, unless it
also `transposes`: kernels of pruned layers then read and write transposed matrices, which it copies (`dse.model.compaction`).

A product of an attention may state `queries`, the query tokens of a sequence (0: not stated), and how many `sequences` of a sample
(windows of an image) attend separately. With `causal` the last query is at the last key, and no query attends to later keys. n then counts
the queries of all heads that share keys, and `count` the key heads of all sequences. `scores` is its attention pattern, `context` the
tokens of a sequence that its positions refer to (0: the larger of queries and keys), and `key_axis` which of its sizes counts the keys:
m of Q K^T, k of the product with the values. These are the most keys that one query attends to; `read_keys` (default: the same) are the
keys whose elements `input_elements` includes, those that any query attends to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Bool, Float, Int
from pydantic import Field, ValidationError, model_validator

from dse.base.errors import InputError
from dse.base.strict_model import StrictModel, explain_validation_error, field_error
from dse.networks.graph import LayerGraph
from dse.sparsity.attention.grammar import AttentionField

LayerSize = Annotated[float, Field(gt=0, le=1e15)]  # far beyond any network, and products stay finite
ElementCount = Annotated[float, Field(ge=0, le=1e15)]
Density = Annotated[float, Field(ge=0, le=1)]
LayerKind = Literal["gemm", "conv", "matmul", "elementwise"]
Conversion = Literal["none", "inputs", "outputs"]
KeyAxis = Literal["m", "k"]
WITH_WEIGHTS = ("gemm", "conv")
FLAG_COLUMNS = ("prunable", "own_weights", "per_channel", "causal", "transposes")
NON_NUMERIC_COLUMNS = (
    *FLAG_COLUMNS,
    "name",
    "kind",
    "reads",
    "adds",
    "conversion",
    "scores",
    "key_axis",
)
PerLayer = Float[np.ndarray, " layer"]
LayerMask = Bool[np.ndarray, " layer"]


class LayerRow(StrictModel):
    """One row of layers.csv; sizes are per sample."""

    name: str
    kind: LayerKind
    m: LayerSize | None = None
    k: LayerSize | None = None
    n: LayerSize | None = None
    count: LayerSize = 1
    groups: LayerSize = 1
    input_elements: ElementCount | None = None
    output_elements: ElementCount | None = None
    prunable: bool = True
    experts: LayerSize = 1
    active: LayerSize = 1
    other_parameters: ElementCount = 0
    activation_density: Density = 1
    own_weights: bool = True
    reads: str | None = None
    adds: str | None = None
    per_channel: bool = False
    cache_elements: ElementCount = 0
    queries: ElementCount = 0
    sequences: LayerSize = 1
    causal: bool = False
    conversion: Conversion = "none"
    transposes: bool = False
    scores: AttentionField | None = None
    context: ElementCount = 0
    read_keys: ElementCount | None = None
    key_axis: KeyAxis = "m"

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.kind != "elementwise" and None in (self.m, self.k, self.n):
            raise field_error(f"a {self.kind} needs m, k and n", "fill the empty cells")
        if self.m is not None and self.m % self.groups:
            raise field_error(f"{self.groups:g} groups do not divide m = {self.m:g}", "m counts the output channels of all groups")
        if self.kind == "elementwise" and (self.input_elements is None or self.output_elements is None):
            raise field_error("an elementwise layer moves elements", "fill input_elements and output_elements")
        if self.kind == "conv" and self.input_elements is None:
            raise field_error("a convolution reads its own input", "fill input_elements (C_in x H x W)")
        if self.per_channel and self.kind != "elementwise":
            raise field_error(f"a {self.kind} mixes channels", "set per_channel for an elementwise layer only")
        if self.conversion != "none" and self.kind != "elementwise":
            raise field_error(f"a {self.kind} converts nothing", "set conversion for an elementwise layer only")
        if self.transposes and (self.conversion == "none" or self.reads is None):
            raise field_error("'transposes' is set for a layer that is not a conversion, or without 'reads'", "fill conversion and reads")
        if self.adds is not None and self.reads is None:
            raise field_error("'adds' is given, but not 'reads'", "fill reads")
        if self.queries and (self.kind != "matmul" or (self.n or 0) % self.queries or self.count % self.sequences):
            message = f"{self.queries:g} queries in {self.sequences:g} sequences do not divide the columns and the count of a matmul"
            raise field_error(message, "write queries that divide n, and sequences that divide count")
        if self.scores is not None and not self.queries:
            raise field_error("'scores' is given, but not 'queries'", "fill queries: the tokens of a sequence that attend")
        if self.active > self.experts:
            raise field_error(f"{self.active:g} of {self.experts:g} experts cannot be active", "write active <= experts")
        return self


SIZES_FIX = "give the sizes of a network: no layer has more than 1e15 rows, columns or elements"


def make_layer_row(**fields: object) -> LayerRow:
    """Make a row from computed sizes; raises InputError that names the layer if a size is out of range."""
    try:
        return LayerRow.model_validate(fields)
    except ValidationError as error:
        messages = [(".".join(map(str, loc)), message) for loc, message, _ in explain_validation_error(LayerRow, error)]
        listed = "; ".join(f"{key}: {message}" if key else message for key, message in messages)
        raise InputError(f"layer '{fields['name']}' has sizes that are not possible ({listed})", SIZES_FIX) from error


@dataclass(frozen=True, eq=False)
class LayerArrays:
    """The layers of a network as columns [layer]; numbers are float64, because products exceed 2^31."""

    name: tuple[str, ...]
    kind: np.ndarray
    m: PerLayer
    k: PerLayer
    n: PerLayer
    count: PerLayer
    groups: PerLayer
    input_elements: PerLayer
    output_elements: PerLayer
    prunable: LayerMask
    experts: PerLayer
    active: PerLayer
    other_parameters: PerLayer
    activation_density: PerLayer
    own_weights: LayerMask
    reads: tuple[str | None, ...]
    adds: tuple[str | None, ...]
    per_channel: LayerMask
    cache_elements: PerLayer
    queries: PerLayer
    sequences: PerLayer
    causal: LayerMask
    conversion: np.ndarray
    transposes: LayerMask
    scores: np.ndarray  # text of the attention pattern; empty without one
    context: PerLayer
    read_keys: PerLayer
    key_axis: np.ndarray

    def __len__(self) -> int:
        return len(self.name)

    @classmethod
    def from_rows(cls, rows: list[LayerRow]) -> "LayerArrays":
        """Convert rows to columns; element counts that a row leaves out follow from its sizes."""
        numeric = [field.name for field in fields(cls) if field.name not in NON_NUMERIC_COLUMNS]
        columns = {name: np.array([np.nan if (v := getattr(row, name)) is None else v for row in rows], float) for name in numeric}
        kind, conversion, key_axis = (np.array([getattr(row, name) for row in rows]) for name in ("kind", "conversion", "key_axis"))
        columns |= {name: np.nan_to_num(columns[name], nan=1.0) for name in ("m", "k", "n")}
        for name, default in _default_elements(kind, *(columns[name] for name in ("m", "k", "n", "groups"))).items():
            columns[name] = np.where(np.isnan(columns[name]), default, columns[name])
        keys = np.where(key_axis == "m", columns["m"], columns["k"])
        columns["read_keys"] = np.where(np.isnan(columns["read_keys"]), keys, columns["read_keys"])
        flags = {name: np.array([getattr(row, name) for row in rows], bool) for name in FLAG_COLUMNS}
        flags["prunable"] &= np.isin(kind, WITH_WEIGHTS)
        names, reads, adds = (tuple(getattr(row, name) for row in rows) for name in ("name", "reads", "adds"))
        labels = {"kind": kind, "conversion": conversion, "key_axis": key_axis}
        labels["scores"] = np.array(["" if row.scores is None else str(row.scores) for row in rows])
        return cls(name=names, reads=reads, adds=adds, **labels, **flags, **columns)

    def to_rows(self) -> list[LayerRow]:
        """Convert columns to rows; element counts that follow from the sizes are left out."""
        defaults = _default_elements(self.kind, self.m, self.k, self.n, self.groups)
        return [self._to_row(number, defaults) for number in range(len(self))]

    def _to_row(self, number: int, defaults: Mapping[str, PerLayer]) -> LayerRow:
        kind = self.kind[number]
        names = LayerRow.model_fields.keys() - set(NON_NUMERIC_COLUMNS) - ({"m", "k", "n"} if kind == "elementwise" else set())
        cells: dict[str, object] = {name: float(getattr(self, name)[number]) for name in names}
        for name, values in defaults.items():
            if cells[name] == values[number] and kind != "elementwise" and (kind, name) != ("conv", "input_elements"):
                del cells[name]
        cells |= {"name": self.name[number], "kind": kind, "reads": self.reads[number], "adds": self.adds[number]}
        cells |= {name: bool(getattr(self, name)[number]) for name in FLAG_COLUMNS}
        cells |= {"conversion": self.conversion[number], "scores": self.scores[number] or None, "key_axis": self.key_axis[number]}
        if cells["read_keys"] == self.keys[number]:
            del cells["read_keys"]
        return LayerRow.model_validate({**cells, "prunable": bool(self.prunable[number]) or kind not in WITH_WEIGHTS})

    @cached_property
    def graph(self) -> LayerGraph | None:
        """Which layer reads the output of which; None unless every layer has `reads`."""
        return LayerGraph.from_names(self.name, self.reads, self.adds)

    @cached_property
    def has_weights(self) -> LayerMask:
        return np.isin(self.kind, WITH_WEIGHTS)

    @property
    def has_flops(self) -> LayerMask:
        return self.kind != "elementwise"

    @property
    def keys(self) -> PerLayer:
        """Keys of the rectangle of each product of an attention [layer]."""
        return np.where(self.key_axis == "m", self.m, self.k)

    @cached_property
    def weights(self) -> PerLayer:
        """Weight elements of one instance of each layer [layer]."""
        return np.where(self.has_weights, self.m * self.k, 0.0)

    @property
    def copies(self) -> PerLayer:
        """Weight matrices of each layer that memory holds: repeats and all experts, without those that another layer owns [layer]."""
        return self.count * self.experts * self.own_weights

    @property
    def instances(self) -> PerLayer:
        """Outputs of each layer that exist at the same time: those of all heads and all active experts, but of one repeat [layer]."""
        return np.where(self.kind == "matmul", self.count, self.active)

    @property
    def parameters(self) -> float:
        """All parameters of the network: weights, biases, norms, embeddings."""
        return float((self.weights * self.copies + self.other_parameters * self.count).sum())

    @property
    def active_weights(self) -> float:
        """Weight elements that one position is multiplied with: of mixtures, those of the experts that it uses."""
        return float((self.weights * self.active * self.count).sum())

    @property
    def macs(self) -> float:
        """Multiply-adds of one sample in the dense network."""
        return float((np.where(self.has_flops, self.m * self.k * self.n, 0.0) * self.active * self.count).sum())

    def take(self, index: Int[np.ndarray, "taken"]) -> "LayerArrays":
        """The layers at some positions."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        taken: dict[str, Any] = {k: v[index] if isinstance(v, np.ndarray) else tuple(v[i] for i in index) for k, v in columns.items()}
        return LayerArrays(**taken)

    def at_batch(self, batch: float) -> "LayerArrays":
        """The layers of a batch: samples widen n and are distributed over the experts.

        A `matmul` has its own operands for each sample, so there they multiply `count`.
        """
        matmul = self.kind == "matmul"
        widening = np.where(matmul, 1.0, batch)
        used_experts = self.experts * (1 - (1 - self.active / self.experts) ** np.where(matmul, 1.0, self.n * widening))
        widening = widening * self.active / used_experts
        return replace(
            self, n=self.n * widening, count=self.count * np.where(matmul, batch, 1.0) * used_experts,
            sequences=self.sequences * np.where(matmul, batch, 1.0),
            input_elements=self.input_elements * widening, output_elements=self.output_elements * widening,
        )  # fmt: skip


def _default_elements(kind: np.ndarray, m: PerLayer, k: PerLayer, n: PerLayer, groups: PerLayer) -> dict[str, PerLayer]:
    """Elements that a layer reads (without weights) and writes if each is moved once."""
    return {"input_elements": k * n * groups + np.where(kind == "matmul", m * k, 0), "output_elements": m * n}
