"""A workload: one network with its variants, each of which is the network pruned to some sparsity."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dse.base.errors import InputError, did_you_mean
from dse.base.table_format import html_table
from dse.networks.architecture import NetworkInputs, Runtime
from dse.networks.layers import LayerArrays
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import DENSE
from dse.sparsity.pattern import Pattern
from dse.workload.accuracy_drop import AccuracyDrop
from dse.workload.schema import Description
from dse.workload.variant import Variant


@dataclass(frozen=True, eq=False, repr=False)
class Workload:
    """A network: its layers for some inputs, and its pruned variants with their accuracies.

    Attributes:
        layers: sizes of the layers, an array of shape [layer] for each column of `layers.csv`.
        variants: the pruned variants.
        description: task, metric and sources.
        inputs: what the network is run on, as far as the caller has set it, such as `{"phase": "decode"}`.
        assumed: what a sweep assumes of the network, one of several values, such as `{"activation_density": 0.5}`.

    Examples:
        >>> import dse
        >>> resnet = dse.load_workload("resnet50")
        >>> resnet
        Workload(resnet50: 54 layers, 69 variants)
        >>> resnet.methods[:3]
        ['agp', 'agp_blocks', 'asp']
        >>> [variant.nominal_sparsity for variant in resnet.select_variants("magnitude_pruning")]
        [0.5, 0.7, 0.8, 0.9, 0.95, 0.98]
    """

    description: Description
    layers: LayerArrays
    variants: tuple[Variant, ...]
    folder: Path
    files: dict[str, str]  # SHA-256 of each file that was read
    inputs: Mapping[str, object] = field(default_factory=dict)  # those set by the caller, in place of the description's own
    mapping: Mapping[str, object] | None = None  # the description, if it was not read from a folder
    assumed: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """'llama-2-7b' for the inputs of the description, 'llama-2-7b (phase=decode)' for others."""
        settings = {**self.inputs, **self.assumed}
        return f"{self.description.name} ({_format_inputs(settings)})" if settings else self.description.name

    @cached_property
    def all_inputs(self) -> dict[str, object]:
        """Inputs that the layers are for, defaults included."""
        return self._network_inputs.model_dump()

    @property
    def listed_inputs(self) -> dict[str, object]:
        """Those of all inputs that results list: optional ones only where they are set."""
        return self._network_inputs.listed()

    @cached_property
    def _network_inputs(self) -> NetworkInputs:
        model = NetworkInputs if self.description.network is None else type(self.description.network).inputs
        return model.model_validate({**self.description.inputs, **self.inputs})

    @property
    def runtime(self) -> Runtime:
        """Whether the host launches all kernels at once (graph), or one by one (eager)."""
        return self._network_inputs.runtime

    @property
    def unstated_inputs(self) -> list[str]:
        """Which of `phase` and `sequence` the caller did not set; all results depend on them."""
        return [name for name in ("phase", "sequence") if name in self.all_inputs.keys() - self.inputs.keys()]

    @property
    def run_on(self) -> str:
        """The listed inputs as text, as in 'phase=decode, sequence=4096'."""
        return _format_inputs(self.listed_inputs)

    def contents_sha256(self) -> str:
        """SHA-256 of the layers and variants, which may differ from those of the folder."""
        digest = hashlib.sha256()
        _update_hash(digest, (self.layers, self.variants))
        return digest.hexdigest()

    @property
    def methods(self) -> list[str]:
        """Pruning methods, in the order of the tables."""
        return list(dict.fromkeys(variant.method for variant in self.variants))

    @cached_property
    def dense(self) -> Variant:
        """The unpruned network; its accuracy is the dense accuracy of the variants, if they all agree."""
        metric = self.description.metric.name
        dense = Variant(
            self.name, self.layers, "dense", DENSE, 0.0, np.ones(len(self.layers)), metric=metric, run_on=self.run_on,
            runtime=self.runtime,
        )  # fmt: skip
        sources = [variant for variant in self.variants if np.isfinite(variant.dense_accuracy) and variant.metric == metric]
        if len(values := {variant.dense_accuracy for variant in sources}) != 1:
            return dense
        (value,) = values
        return replace(
            dense, accuracy=value, dense_accuracy=value, accuracy_kind=", ".join(sorted({v.accuracy_kind for v in sources})),
            accuracy_source="; ".join(sorted({v.accuracy_source for v in sources})),
        )  # fmt: skip

    def variant(self, method: str, sparsity: float | None = None, pattern: str | None = None) -> Variant:
        """The one variant that matches; raises InputError that lists the candidates if none or several match.

        `sparsity` matches the nominal sparsity, otherwise the realised one to 1e-3.
        """
        matches = self.select_variants(method, sparsity, pattern)
        if len(matches) > 1:
            listed = "; ".join(map(str, matches))
            raise InputError(f"{len(matches)} variants of '{self.name}' match", f"give sparsity or pattern: {listed}")
        return matches[0]

    def select_variants(self, method: str, sparsity: float | None = None, pattern: str | None = None) -> list[Variant]:
        """All variants that match (see `variant`), at least one; raises InputError."""
        if method == "dense":
            return [self.dense]
        if method not in self.methods:
            raise InputError(f"'{self.name}' has no method '{method}'", did_you_mean(method, self.methods))
        matches = self.find_variants(method, sparsity, pattern)
        if not matches:
            listed = "; ".join(str(variant) for variant in self.variants if variant.method == method)
            raise InputError(f"no variant of '{self.name}' matches", f"take one of: {listed}")
        return matches

    def find_variants(self, method: str, sparsity: float | None = None, pattern: str | None = None) -> list[Variant]:
        """All pruned variants that match (see `variant`); empty if there are none."""
        parsed = None if pattern is None else parse(pattern)
        candidates = [v for v in self.variants if v.method == method and parsed in (None, v.pattern)]
        if sparsity is None:
            return candidates
        nominal = [v for v in candidates if abs(v.nominal_sparsity - sparsity) < 1e-9]
        return nominal or [v for v in candidates if abs(v.sparsity - sparsity) <= 1e-3]

    def own_density(self, pattern: Pattern) -> Float[np.ndarray, " layer"]:
        """Density of each layer that keeps as many weights as a pattern of fixed density allows."""
        return pattern.max_nonzeros(self.layers.m, self.layers.k) / (self.layers.m * self.layers.k)

    def hypothetical_variant(
        self,
        pattern: Pattern,
        density: Float[np.ndarray, " layer"] | float,
        nominal_sparsity: float,
        densities_from: str,
        assumed_drop: AccuracyDrop | None = None,
    ) -> Variant:
        """A variant that nobody trained: a pattern at given layer densities; layers not prunable stay dense.

        It has no accuracy unless an accuracy drop is assumed, and that of the dense network is known.
        """
        variant = Variant(
            self.name, self.layers, "hypothetical", pattern, nominal_sparsity, np.where(self.layers.prunable, density, 1.0),
            metric=self.description.metric.name, densities_from=densities_from, run_on=self.run_on, runtime=self.runtime,
        )  # fmt: skip
        if assumed_drop is None:
            return variant
        dense = self.dense.accuracy
        accuracy = assumed_drop.accuracy(dense, self.description.metric.direction)
        return replace(variant, accuracy=accuracy, dense_accuracy=dense, accuracy_kind="assumed", assumed_drop=assumed_drop)

    def with_activation_density(self, density: float) -> "Workload":
        """A copy of the network in which this share [1] of every layer's inputs is nonzero, instead of the counted shares."""
        layers = replace(self.layers, activation_density=np.where(self.layers.has_weights, density, 1.0))
        variants = tuple(replace(variant, layers=layers, activation_density=None, union_densities={}) for variant in self.variants)
        return replace(self, layers=layers, variants=variants)

    def with_assumed(self, **assumed: object) -> "Workload":
        """A copy whose name states what is assumed of the network."""
        renamed = replace(self, assumed=assumed)
        return replace(renamed, variants=tuple(replace(variant, workload=renamed.name) for variant in self.variants))

    def __repr__(self) -> str:
        return f"Workload({self.name}: {len(self.layers)} layers, {len(self.variants)} variants)"

    def _repr_html_(self) -> str:
        """A table of the pruned variants by method and pattern, for notebooks."""
        groups: dict[tuple[str, Pattern], list[Variant]] = {}
        for variant in self.variants:
            groups.setdefault((variant.method, variant.pattern), []).append(variant)
        caption = f"{self.name}: {self.description.task}; {len(self.layers)} layers, {len(self.variants)} variants"
        header = ("method", "pattern", "variants", "sparsity", self.description.metric.name)
        rows = (
            (*key, len(group), _format_range(v.sparsity for v in group), _format_range(v.accuracy for v in group))
            for key, group in groups.items()
        )
        return html_table(caption, header, rows)


def _format_inputs(inputs: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in inputs.items())


def _format_range(values: Iterable[float]) -> str:
    """'0.5 to 0.9' for the finite values, '0.5' for a single one, '' for none."""
    finite = [value for value in values if np.isfinite(value)]
    return " to ".join(dict.fromkeys(f"{end:.4g}" for end in (min(finite), max(finite)))) if finite else ""


def _update_hash(digest: Any, value: object) -> None:
    """Add a value to a hash: its type, then its shape and numbers, or its parts."""
    digest.update(f"{type(value).__name__} ".encode())
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype} {value.shape} ".encode())
        digest.update(repr(value.tolist()).encode() if value.dtype == object else value.tobytes())
    elif is_dataclass(value):
        _update_hash(digest, tuple(getattr(value, each.name) for each in fields(value)))
    elif isinstance(value, Mapping | tuple):
        for part in value.items() if isinstance(value, Mapping) else value:
            _update_hash(digest, part)
        digest.update(b"end ")
    else:
        digest.update(f"{value!r} ".encode())
