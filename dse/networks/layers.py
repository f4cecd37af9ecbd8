"""The layers of a network: rows as they are written down, columns as the model takes them.

C[m, n] = A[m, k] B[k, n]. A holds the weights; m counts the output channels of all groups, k one group's
inputs; n is per sample (output pixels or tokens).

A mixture of experts is one row with `experts` copies of its weights, of which each position takes `active`. T
positions touch on average D = experts (1 - (1 - active / experts)^T) different copies, if routing is uniform and
independent; each of them sees T active / D positions.

`reads` names the layers whose outputs a layer takes, separated by `;` (`input`: the network's own), and `adds` those that are added
to its result on the way out, as residual connections are in a convolutional network. If every layer has `reads`, the graph is known
(see `dse.networks.graph`). `per_channel`: each output channel of an elementwise layer follows from the same channel of what it reads.
`cache_elements`: elements of a sample that the key-value cache keeps of a layer's outputs, those of earlier tokens included.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator

from dse.base.errors import InputError
from dse.base.strict_model import StrictModel, explain_validation_error, field_error
from dse.networks.graph import LayerGraph

LayerSize = Annotated[float, Field(gt=0, le=1e15)]  # far beyond any network; products stay finite
ElementCount = Annotated[float, Field(ge=0, le=1e15)]
Density = Annotated[float, Field(ge=0, le=1)]
LayerKind = Literal["gemm", "conv", "matmul", "elementwise"]
WITH_WEIGHTS = ("gemm", "conv")
NON_NUMERIC_COLUMNS = ("name", "kind", "prunable", "own_weights", "reads", "adds", "per_channel")


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
        if self.adds is not None and self.reads is None:
            raise field_error("what is added is given, but not what is read", "fill reads")
        if self.active > self.experts:
            raise field_error(f"{self.active:g} of {self.experts:g} experts cannot be active", "write active <= experts")
        return self


def make_layer_row(**fields: Any) -> LayerRow:
    """A row whose sizes were computed from those of a file; raises InputError that names the layer if one is out of range."""
    try:
        return LayerRow(**fields)
    except ValidationError as error:
        places = [(".".join(map(str, loc)), what) for loc, what, _ in explain_validation_error(LayerRow, error)]
        listed = "; ".join(f"{place}: {what}" if place else what for place, what in places)
        raise InputError(f"layer '{fields['name']}' has sizes that are not possible ({listed})", SIZES_FIX) from error


SIZES_FIX = "give the sizes of a network: no layer has more than 1e15 rows, columns or elements"


@dataclass(frozen=True, eq=False)
class LayerArrays:
    """The layers of a network as columns; numbers are float64, since products pass 2**31."""

    name: tuple[str, ...]
    kind: np.ndarray
    m: np.ndarray
    k: np.ndarray
    n: np.ndarray
    count: np.ndarray
    groups: np.ndarray
    input_elements: np.ndarray
    output_elements: np.ndarray
    prunable: np.ndarray
    experts: np.ndarray
    active: np.ndarray
    other_parameters: np.ndarray
    activation_density: np.ndarray
    own_weights: np.ndarray
    reads: tuple[str | None, ...]
    adds: tuple[str | None, ...]
    per_channel: np.ndarray
    cache_elements: np.ndarray

    def __len__(self) -> int:
        return len(self.name)

    @classmethod
    def from_rows(cls, rows: list[LayerRow]) -> "LayerArrays":
        names = [field.name for field in fields(cls) if field.name not in NON_NUMERIC_COLUMNS]
        columns = {name: np.array([np.nan if (v := getattr(row, name)) is None else v for row in rows], float) for name in names}
        kind = np.array([row.kind for row in rows])
        columns |= {name: np.nan_to_num(columns[name], nan=1.0) for name in ("m", "k", "n")}
        for name, usual in _moved_once(kind, *(columns[name] for name in ("m", "k", "n", "groups"))).items():
            columns[name] = np.where(np.isnan(columns[name]), usual, columns[name])
        prunable = np.array([row.prunable for row in rows], bool) & np.isin(kind, WITH_WEIGHTS)
        own = np.array([row.own_weights for row in rows], bool)
        reads, adds = tuple(row.reads for row in rows), tuple(row.adds for row in rows)
        per_channel = np.array([row.per_channel for row in rows], bool)
        return cls(
            name=tuple(row.name for row in rows), kind=kind, prunable=prunable, own_weights=own, per_channel=per_channel,
            reads=reads, adds=adds, **columns,
        )  # fmt: skip

    def to_rows(self) -> list[LayerRow]:
        """As they would be written down: what follows from the rest is left out."""
        usual = _moved_once(self.kind, self.m, self.k, self.n, self.groups)
        return [self._row(number, usual) for number in range(len(self))]

    def _row(self, number: int, usual: Mapping[str, np.ndarray]) -> LayerRow:
        kind = self.kind[number]
        names = LayerRow.model_fields.keys() - set(NON_NUMERIC_COLUMNS) - ({"m", "k", "n"} if kind == "elementwise" else set())
        given = {name: float(getattr(self, name)[number]) for name in names}
        for name, values in usual.items():
            if given[name] == values[number] and kind != "elementwise" and (kind, name) != ("conv", "input_elements"):
                del given[name]
        prunable, own = bool(self.prunable[number]) or kind not in WITH_WEIGHTS, bool(self.own_weights[number])
        links = {"reads": self.reads[number], "adds": self.adds[number], "per_channel": bool(self.per_channel[number])}
        return LayerRow.model_validate({"name": self.name[number], "kind": kind, "prunable": prunable, "own_weights": own} | links | given)

    @cached_property
    def graph(self) -> LayerGraph | None:
        """Which layer reads the output of which; None unless every layer says so."""
        return LayerGraph.from_names(self.name, self.reads, self.adds)

    @property
    def has_weights(self) -> np.ndarray:
        return np.isin(self.kind, WITH_WEIGHTS)

    @property
    def has_flops(self) -> np.ndarray:
        return self.kind != "elementwise"

    @property
    def weights(self) -> np.ndarray:
        """Weight elements of one instance of each layer [layer]."""
        return np.where(self.has_weights, self.m * self.k, 0.0)

    @property
    def copies(self) -> np.ndarray:
        """Weight matrices of each layer that memory has to hold: repeats, all experts, none that another layer owns [layer]."""
        return self.count * self.experts * self.own_weights

    @property
    def instances(self) -> np.ndarray:
        """Outputs of each layer that exist at once: those of all heads and of all active experts, but of one repeat [layer]."""
        return np.where(self.kind == "matmul", self.count, self.active)

    @property
    def parameters(self) -> float:
        """All parameters of the network: weights, biases, norms, embeddings."""
        return float((self.weights * self.copies + self.other_parameters * self.count).sum())

    @property
    def macs(self) -> float:
        """Multiply-adds of one sample, nothing skipped."""
        return float((np.where(self.has_flops, self.m * self.k * self.n, 0.0) * self.active * self.count).sum())

    def at_batch(self, batch: float) -> "LayerArrays":
        """Samples widen n and spread over the experts; a `matmul` has operands of its own for each sample, so there
        they multiply `count`."""
        matmul = self.kind == "matmul"
        wider = np.where(matmul, 1.0, batch)
        touched = self.experts * (1 - (1 - self.active / self.experts) ** np.where(matmul, 1.0, self.n * wider))
        wider = wider * self.active / touched
        return replace(
            self, n=self.n * wider, count=self.count * np.where(matmul, batch, 1.0) * touched,
            input_elements=self.input_elements * wider, output_elements=self.output_elements * wider,
        )  # fmt: skip


def _moved_once(kind: np.ndarray, m: np.ndarray, k: np.ndarray, n: np.ndarray, groups: np.ndarray) -> dict[str, np.ndarray]:
    """Elements that a layer reads beside its weights and writes, each of them once, where nothing else is said."""
    return {"input_elements": k * n * groups + np.where(kind == "matmul", m * k, 0), "output_elements": m * n}
