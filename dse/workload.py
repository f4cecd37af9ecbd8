"""The workload schema: the layers of one network, its pruned variants and their accuracies.

A workload is a folder:

    workload.yaml           name, task, metric and its direction, sources; the architecture, if formulas make the layers
    layers.csv              the layers otherwise (see `dse.network.layers`)
    variants/*.csv          method, pattern, sparsity (nominal), layer, nnz, row and column statistics
    accuracy.csv            method, pattern, sparsity (nominal), value, dense_value, source, kind
    statistics/stored.csv   what patterns store of a traced mask: method, pattern, sparsity, layer, stored_as, elements
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field

from dse.errors import BadInput, suggestion
from dse.network.family import Network
from dse.network.layers import Layers
from dse.schema import Part, refusal
from dse.sparsity.pattern import DENSE, BlockFamily, Pattern, parse

Share = Annotated[float, Field(ge=0, le=1)]


class Metric(Part):
    name: str = Field(examples=["top-1 accuracy"])
    unit: str = ""
    direction: Literal["higher", "lower"] = Field("higher", description="which way is better")


class Figure(Part):
    """A published count, and what the network was run on when it was made."""

    value: float = Field(gt=0)
    source: str = Field(min_length=1)
    inputs: dict[str, Any] = Field({})


class Published(Part):
    """What others count, for comparison: every parameter; multiply-adds of one sample."""

    parameters: Figure
    macs: Figure


class Description(Part):
    """workload.yaml"""

    name: str = Field(min_length=1, examples=["my-network"])
    description: str = ""
    task: str = Field(examples=["image classification, ImageNet"])
    metric: Metric
    other_metrics: tuple[Metric, ...] = Field((), description="metrics of accuracies whose row names one")
    sources: tuple[str, ...] = Field(min_length=1, examples=["[https://...]"])
    notes: tuple[str, ...] = ()
    network: Network | None = Field(None, description="a published configuration, of which formulas make the layers")
    inputs: dict[str, Any] = Field({}, description="what the network is run on, unless a sweep says otherwise")
    published: Published | None = None

    @property
    def metrics(self) -> dict[str, Metric]:
        return {metric.name: metric for metric in (self.metric, *self.other_metrics)}


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
    activation_density: Share | None = None


class StoredRow(Part):
    """What a pattern that contains the mask of a layer stores for it, counted from the mask: padding included."""

    method: str
    pattern: NetworkPattern
    sparsity: Share
    layer: str
    stored_as: NetworkPattern
    elements: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AccuracyRow(Part):
    method: str
    pattern: NetworkPattern
    sparsity: Share
    value: Finite
    dense_value: Finite | None = None
    source: str
    kind: Literal["published", "measured", "estimated"]
    metric: str | None = None
    densities: Literal["traced", "uniform"] = "traced"


def labelled(name: str, inputs: Mapping[str, Any]) -> str:
    """'llama-2-7b' run as the description says, 'llama-2-7b (phase=decode)' run otherwise."""
    return f"{name} ({', '.join(f'{key}={value}' for key, value in inputs.items())})" if inputs else name


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
    metric: str = ""
    densities_from: str = ""
    stored: Mapping[Pattern, np.ndarray] = field(default_factory=dict, repr=False)  # elements [layer], NaN where illegal
    activation_density: np.ndarray | None = field(default=None, repr=False)

    @cached_property
    def sparsity(self) -> float:
        """1 - nnz / size over the prunable weights, as realised [1]."""
        size = self.layers.weights * self.layers.copies * self.layers.prunable
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
    inputs: Mapping[str, Any] = field(default_factory=dict)  # those that differ from the description's own

    @property
    def name(self) -> str:
        return labelled(self.description.name, self.inputs)

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(variant.method for variant in self.variants))

    @cached_property
    def dense(self) -> Variant:
        """The unpruned network; its accuracy is the dense one of the variants, where they agree."""
        metric = self.description.metric.name
        bare = Variant(self.name, self.layers, "dense", DENSE, 0.0, np.ones(len(self.layers)), metric=metric)
        known = [variant for variant in self.variants if np.isfinite(variant.dense_accuracy) and variant.metric == metric]
        if len(values := {variant.dense_accuracy for variant in known}) != 1:
            return bare
        (value,), kinds, sources = values, {v.accuracy_kind for v in known}, {v.accuracy_source for v in known}
        described = {"accuracy_kind": ", ".join(sorted(kinds)), "accuracy_source": "; ".join(sorted(sources))}
        return replace(bare, accuracy=value, dense_accuracy=value, **described)

    def variant(self, method: str, sparsity: float | None = None, pattern: str | None = None) -> Variant:
        """The one variant that matches; `sparsity` matches the nominal, then the realised one to 1e-3. Raises BadInput."""
        found = self.select(method, sparsity, pattern)
        if len(found) > 1:
            listed = "; ".join(map(str, found))
            raise BadInput.one(f"{len(found)} variants of '{self.name}' match", f"give sparsity or pattern: {listed}")
        return found[0]

    def select(self, method: str, sparsity: float | None = None, pattern: str | None = None) -> list[Variant]:
        """All variants that match, at least one; raises BadInput."""
        if method == "dense":
            return [self.dense]
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
        metric = self.description.metric.name
        return Variant(self.name, self.layers, "hypothetical", pattern, nominal, pruned, metric=metric, densities_from=origin)
