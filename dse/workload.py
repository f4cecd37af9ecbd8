"""The workload schema: the layers of one network, its pruned variants and their accuracies.

A workload is a folder:

    workload.yaml     name, task, metric and its direction, sources
    layers.csv        name, kind, m, k, n, count, groups, input_elements, output_elements, prunable
    variants/*.csv    method, pattern, sparsity (nominal), layer, nnz, row and column statistics
    accuracy.csv      method, pattern, sparsity (nominal), value, dense_value, source, kind

C[m, n] = A[m, k] B[k, n]. A holds the weights; m counts the output channels of all groups, k one group's
inputs; n is per sample (output pixels or tokens).
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from dse.errors import BadInput, suggestion
from dse.schema import Part, refusal
from dse.sparsity.pattern import DENSE, BlockFamily, Pattern, parse

Size = Annotated[float, Field(gt=0, le=1e15)]  # far beyond any network; products stay finite
Share = Annotated[float, Field(ge=0, le=1)]
LayerKind = Literal["gemm", "conv", "matmul", "elementwise"]
WITH_WEIGHTS = ("gemm", "conv")


class Metric(Part):
    name: str = Field(examples=["top-1 accuracy"])
    unit: str = ""
    direction: Literal["higher", "lower"] = Field("higher", description="which way is better")


class Description(Part):
    """workload.yaml"""

    name: str = Field(min_length=1, examples=["my-network"])
    description: str = ""
    task: str = Field(examples=["image classification, ImageNet"])
    metric: Metric
    sources: tuple[str, ...] = Field(min_length=1, examples=["[https://...]"])
    notes: tuple[str, ...] = ()


class LayerRow(Part):
    """One row of layers.csv; sizes are per sample."""

    name: str
    kind: LayerKind
    m: Size | None = None
    k: Size | None = None
    n: Size | None = None
    count: Size = 1
    groups: Size = 1
    input_elements: Size | None = None
    output_elements: Size | None = None
    prunable: bool = True

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.kind != "elementwise" and None in (self.m, self.k, self.n):
            raise refusal(f"a {self.kind} needs m, k and n", "fill the empty cells")
        if self.m is not None and self.m % self.groups:
            raise refusal(f"{self.groups:g} groups do not divide m = {self.m:g}", "m counts the output channels of all groups")
        if self.kind == "elementwise" and (self.input_elements is None or self.output_elements is None):
            raise refusal("an elementwise layer moves elements", "fill input_elements and output_elements")
        if self.kind == "conv" and self.input_elements is None:
            raise refusal("a convolution reads its own input", "fill input_elements (C_in x H x W)")
        return self


def _no_family(pattern: Pattern) -> Pattern:
    if isinstance(pattern, BlockFamily):
        raise refusal(f"'{pattern}' is a family, no pattern of a network", f"write one of its members, as in '{pattern.base}'")
    return pattern


NetworkPattern = Annotated[Pattern, AfterValidator(_no_family)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class VariantRow(Part):
    method: str
    pattern: NetworkPattern
    sparsity: Share
    layer: str
    nnz: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    row_mean: float | None = None
    row_std: float | None = None
    column_mean: float | None = None
    column_std: float | None = None


class AccuracyRow(Part):
    method: str
    pattern: NetworkPattern
    sparsity: Share
    value: Finite
    dense_value: Finite | None = None
    source: str
    kind: Literal["published", "measured", "estimated"]


@dataclass(frozen=True, eq=False)
class Layers:
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

    def __len__(self) -> int:
        return len(self.name)

    @classmethod
    def of(cls, rows: list[LayerRow]) -> "Layers":
        def column(key: str) -> np.ndarray:
            return np.array([np.nan if (value := getattr(row, key)) is None else value for row in rows], float)

        kind = np.array([row.kind for row in rows])
        m, k, n = (np.nan_to_num(column(key), nan=1.0) for key in ("m", "k", "n"))
        groups = column("groups")
        read_once = k * n * groups + np.where(kind == "matmul", m * k, 0)
        return cls(
            tuple(row.name for row in rows), kind, m, k, n, column("count"), groups,
            np.where(np.isnan(given := column("input_elements")), read_once, given),
            np.where(np.isnan(given := column("output_elements")), m * n, given),
            np.array([row.prunable for row in rows]) & np.isin(kind, WITH_WEIGHTS),
        )  # fmt: skip

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

    def at_batch(self, batch: float) -> "Layers":
        """Samples widen n; a `matmul` has operands of its own for each sample, so there they multiply `count`."""
        matmul = self.kind == "matmul"
        wider = np.where(matmul, 1.0, batch)
        return replace(
            self, n=self.n * wider, count=self.count * np.where(matmul, batch, 1.0),
            input_elements=self.input_elements * wider, output_elements=self.output_elements * wider,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Variant:
    """One pruned state of a network: the density of each layer and, where known, its accuracy."""

    workload: str
    layers: Layers = field(repr=False)
    method: str
    pattern: Pattern
    nominal_sparsity: float
    density: np.ndarray = field(repr=False)
    accuracy: float = np.nan
    dense_accuracy: float = np.nan
    accuracy_kind: str = "none"
    accuracy_source: str = ""
    densities_from: str = ""

    @cached_property
    def sparsity(self) -> float:
        """1 - nnz / size over the prunable weights, as realised [1]."""
        size = self.layers.weights * self.layers.count * self.layers.prunable
        return float(1 - (size * self.density).sum() / max(size.sum(), 1.0))

    def __str__(self) -> str:
        origin = f" from {self.densities_from}" if self.densities_from else ""
        return f"{self.method} {self.pattern} {self.nominal_sparsity:g}{origin}"


@dataclass(frozen=True, eq=False)
class Workload:
    description: Description
    layers: Layers
    variants: tuple[Variant, ...]
    folder: Path
    files: dict[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        return self.description.name

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(variant.method for variant in self.variants))

    @cached_property
    def dense(self) -> Variant:
        """The unpruned network; its accuracy is the dense one of the variants, where they agree."""
        bare = Variant(self.name, self.layers, "dense", DENSE, 0.0, np.ones(len(self.layers)))
        known = [variant for variant in self.variants if np.isfinite(variant.dense_accuracy)]
        if len(values := {variant.dense_accuracy for variant in known}) != 1:
            return bare
        (value,), kinds, sources = values, {v.accuracy_kind for v in known}, {v.accuracy_source for v in known}
        described = {"accuracy_kind": ", ".join(sorted(kinds)), "accuracy_source": "; ".join(sorted(sources))}
        return replace(bare, accuracy=value, dense_accuracy=value, **described)

    def variant(self, method: str, sparsity: float | None = None, pattern: str | None = None) -> Variant:
        """The one variant that matches; `sparsity` matches the nominal, then the realised one to 1e-3. Raises BadInput."""
        if method == "dense":
            return self.dense
        found = self.select(method, sparsity, pattern)
        if len(found) > 1:
            listed = "; ".join(map(str, found))
            raise BadInput.one(f"{len(found)} variants of '{self.name}' match", f"give sparsity or pattern: {listed}")
        return found[0]

    def select(self, method: str, sparsity: float | None = None, pattern: str | None = None) -> list[Variant]:
        """All variants that match, at least one; raises BadInput."""
        if method not in self.methods:
            raise BadInput.one(f"'{self.name}' has no method '{method}'", suggestion(method, self.methods))
        found = self.matching(method, sparsity, pattern)
        if not found:
            listed = "; ".join(str(variant) for variant in self.variants if variant.method == method)
            raise BadInput.one(f"no variant of '{self.name}' matches", f"take one of: {listed}")
        return found

    def matching(self, method: str, sparsity: float | None = None, pattern: str | None = None) -> list[Variant]:
        """All variants that match, maybe none; `sparsity` matches the nominal, then the realised one to 1e-3."""
        wanted = None if pattern is None else parse(pattern)
        found = [v for v in self.variants if v.method == method and wanted in (None, v.pattern)]
        if sparsity is None:
            return found
        nominal = [v for v in found if abs(v.nominal_sparsity - sparsity) < 1e-9]
        return nominal or [v for v in found if abs(v.sparsity - sparsity) <= 1e-3]

    def own_density(self, pattern: Pattern) -> np.ndarray:
        """The density of each layer that a pattern fixes, where it keeps all it may [layer]."""
        return pattern.kept(self.layers.m, self.layers.k) / (self.layers.m * self.layers.k)

    def from_densities(self, pattern: Pattern, density: np.ndarray, nominal: float, origin: str) -> Variant:
        """A hypothetical variant: a pattern at given layer densities, without an accuracy."""
        pruned = np.where(self.layers.prunable, density, 1.0)
        return Variant(self.name, self.layers, "hypothetical", pattern, nominal, pruned, densities_from=origin)
