"""A network with its pruned states."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dse.base.errors import InputError, did_you_mean
from dse.networks.layers import LayerArrays
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import DENSE
from dse.sparsity.pattern import Pattern
from dse.workload.schema import Description


def labelled(name: str, inputs: Mapping[str, Any]) -> str:
    """'llama-2-7b' run as the description says, 'llama-2-7b (phase=decode)' run otherwise."""
    return f"{name} ({', '.join(f'{key}={value}' for key, value in inputs.items())})" if inputs else name


@dataclass(frozen=True, eq=False)
class Variant:
    """One pruned state of a network: the density of each layer and, where known, its accuracy."""

    workload: str
    layers: LayerArrays = field(repr=False)
    method: str
    pattern: Pattern
    nominal_sparsity: float
    density: np.ndarray = field(repr=False)
    accuracy: float = np.nan
    dense_accuracy: float = np.nan
    accuracy_kind: str = "none"
    accuracy_source: str = ""
    combined_with: str = ""  # what the accuracy includes beyond pruning, and the dense one does not
    metric: str = ""
    densities_from: str = ""
    stored: Mapping[Pattern, np.ndarray] = field(default_factory=dict, repr=False)  # elements [layer], NaN where illegal
    activation_density: np.ndarray | None = field(default=None, repr=False)
    row_spread: np.ndarray | None = field(default=None, repr=False)  # deviation of the nonzeros in a row over their mean, NaN unknown
    run_on: str = field(default="", repr=False)  # inputs that the layers were made for, as in 'phase=decode, sequence=4096'
    touched_columns: np.ndarray | None = field(default=None, repr=False)  # share of columns with any nonzero [layer], NaN unknown

    @cached_property
    def sparsity(self) -> float:
        """1 - nnz / size over the prunable weights, as realised [1]."""
        size = self.layers.weights * self.layers.copies * self.layers.prunable
        return float(1 - (size * self.density).sum() / max(size.sum(), 1.0))

    @property
    def activations(self) -> np.ndarray:
        """Share of each layer's inputs that is nonzero: counted on this state, or on the network."""
        return self.layers.activation_density if self.activation_density is None else self.activation_density

    def __str__(self) -> str:
        origin = f" from {self.densities_from}" if self.densities_from else ""
        return f"{self.method} {self.pattern} {self.nominal_sparsity:g}{origin}"


@dataclass(frozen=True, eq=False)
class Workload:
    description: Description
    layers: LayerArrays
    variants: tuple[Variant, ...]
    folder: Path
    files: dict[str, str] = field(repr=False)
    inputs: Mapping[str, Any] = field(default_factory=dict)  # those that differ from the description's own

    @property
    def name(self) -> str:
        return labelled(self.description.name, self.inputs)

    @cached_property
    def all_inputs(self) -> dict[str, Any]:
        """What the layers were made for, defaults included; empty for a table of layers, and for a network that takes no choice."""
        if self.description.network is None:
            return {}
        model = type(self.description.network).inputs
        return model.model_validate({**self.description.inputs, **self.inputs}).model_dump()

    @property
    def unstated_inputs(self) -> list[str]:
        """Which of phase and sequence length, which decide all results, are those of the description or defaults."""
        return [name for name in ("phase", "sequence") if name in self.all_inputs.keys() - self.inputs.keys()]

    @property
    def run_on(self) -> str:
        """All inputs in words, as in 'phase=decode, sequence=4096'."""
        return ", ".join(f"{key}={value}" for key, value in self.all_inputs.items())

    def with_activation_density(self, share: float) -> "Workload":
        """The network if `share` of every layer's inputs were nonzero: an assumption in the place of what was counted."""
        layers = replace(self.layers, activation_density=np.where(self.layers.has_weights, share, 1.0))
        states = tuple(replace(variant, layers=layers, activation_density=None) for variant in self.variants)
        return replace(self, layers=layers, variants=states)

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(variant.method for variant in self.variants))

    @cached_property
    def dense(self) -> Variant:
        """The unpruned network; its accuracy is the dense one of the variants, where they agree."""
        metric = self.description.metric.name
        bare = Variant(self.name, self.layers, "dense", DENSE, 0.0, np.ones(len(self.layers)), metric=metric, run_on=self.run_on)
        known = [variant for variant in self.variants if np.isfinite(variant.dense_accuracy) and variant.metric == metric]
        if len(values := {variant.dense_accuracy for variant in known}) != 1:
            return bare
        (value,), kinds, sources = values, {v.accuracy_kind for v in known}, {v.accuracy_source for v in known}
        described = {"accuracy_kind": ", ".join(sorted(kinds)), "accuracy_source": "; ".join(sorted(sources))}
        return replace(bare, accuracy=value, dense_accuracy=value, **described)

    def variant(self, method: str, sparsity: float | None = None, pattern: str | None = None) -> Variant:
        """The one variant that matches; `sparsity` matches the nominal, then the realised one to 1e-3. Raises InputError."""
        found = self.select(method, sparsity, pattern)
        if len(found) > 1:
            listed = "; ".join(map(str, found))
            raise InputError(f"{len(found)} variants of '{self.name}' match", f"give sparsity or pattern: {listed}")
        return found[0]

    def select(self, method: str, sparsity: float | None = None, pattern: str | None = None) -> list[Variant]:
        """All variants that match, at least one; raises InputError."""
        if method == "dense":
            return [self.dense]
        if method not in self.methods:
            raise InputError(f"'{self.name}' has no method '{method}'", did_you_mean(method, self.methods))
        found = self.matching(method, sparsity, pattern)
        if not found:
            listed = "; ".join(str(variant) for variant in self.variants if variant.method == method)
            raise InputError(f"no variant of '{self.name}' matches", f"take one of: {listed}")
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
        return Variant(
            self.name, self.layers, "hypothetical", pattern, nominal, pruned, metric=metric, densities_from=origin, run_on=self.run_on
        )
