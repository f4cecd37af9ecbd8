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
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field

from dse.errors import BadInput, suggestion
from dse.network.layers import Layers
from dse.schema import Part, refusal
from dse.sparsity.pattern import DENSE, BlockFamily, Pattern, parse

Share = Annotated[float, Field(ge=0, le=1)]


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
