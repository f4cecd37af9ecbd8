"""A variant: a network pruned to some sparsity, with the density of each layer and, where known, its accuracy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from dse.base.table_format import html_table
from dse.networks.architecture import Runtime
from dse.networks.layers import LayerArrays, LayerMask
from dse.sparsity.pattern import Pattern
from dse.workload.accuracy_drop import AccuracyDrop


@dataclass(frozen=True, eq=False, repr=False)
class Variant:
    """One network pruned by some method to some pattern and sparsity: the density of each layer and, where known, its accuracy.

    Attributes:
        method: how the network was pruned; `hypothetical` if nobody pruned it.
        pattern: the pattern that its masks have, such as 2:4.
        nominal_sparsity: the sparsity that its source states [1]; `sparsity` is the realised one.
        density: share of the weights that is nonzero [1], of shape [layer].
        accuracy: in the unit of `metric`; NaN where unknown.
        accuracy_low, accuracy_high: 90% interval of `accuracy`; NaN where the source gives none.
        dense_accuracy: that of the unpruned network of the same source; NaN where unknown.
        accuracy_kind: `published`, `measured`, `estimated`, `interpolated, ...`, `assumed` or `none`.
        assumed_drop: the accuracy drop that a specification assumes; None where it states none.

    Examples:
        >>> import dse
        >>> pruned = dse.load_workload("resnet50").variant("magnitude_pruning", sparsity=0.9)
        >>> pruned
        Variant(resnet50: magnitude_pruning unstructured, sparsity 0.9, accuracy 73.91, 54 layers)
        >>> pruned.density.shape
        (54,)
        >>> round(pruned.dense_accuracy - pruned.accuracy, 2)  # points of top-1 accuracy lost
        2.78
    """

    workload: str
    layers: LayerArrays
    method: str
    pattern: Pattern
    nominal_sparsity: float
    density: Float[np.ndarray, " layer"]  # share of the weights that is nonzero
    accuracy: float = np.nan
    dense_accuracy: float = np.nan
    accuracy_low: float = np.nan
    accuracy_high: float = np.nan
    accuracy_kind: str = "none"
    accuracy_source: str = ""
    combined_with: str = ""  # what the accuracy includes beyond pruning, and the dense accuracy does not
    metric: str = ""
    densities_from: str = ""  # origin of the layer densities; empty if they were counted
    stored_elements: Mapping[Pattern, Float[np.ndarray, " layer"]] = field(default_factory=dict)  # counted; NaN where a mask does not fit
    activation_density: Float[np.ndarray, " layer"] | None = None
    row_spread: Float[np.ndarray, " layer"] | None = None  # standard deviation over mean of the nonzeros in a row; NaN where not counted
    run_on: str = ""  # inputs that the layers are for, as in 'phase=decode, sequence=4096'
    touched_columns: Float[np.ndarray, " layer"] | None = None  # share of the columns with any nonzero; NaN where not counted
    union_densities: Mapping[int, Float[np.ndarray, " layer"]] = field(default_factory=dict)
    """Share of the inputs that any of so many consecutive tokens needs, by their number; NaN where not counted."""
    runtime: Runtime = "graph"  # whether the host launches all kernels at once, or one by one (eager)
    assumed_drop: AccuracyDrop | None = None

    @cached_property
    def sparsity(self) -> float:
        """Realised sparsity: 1 - nnz / size over the prunable weights [1]."""
        size = self.layers.weights * self.layers.copies * self.layers.prunable
        return float(1 - (size * self.density).sum() / max(size.sum(), 1.0))

    @property
    def is_pruned(self) -> LayerMask:
        """Whether a layer has weights of which some are zero."""
        return self.layers.has_weights & (self.density < 1)

    @property
    def input_density(self) -> Float[np.ndarray, " layer"]:
        """Share of each layer's inputs that is nonzero: counted on this variant, otherwise that of the network."""
        return self.layers.activation_density if self.activation_density is None else self.activation_density

    @property
    def accuracy_text(self) -> str:
        """The metric with its interval and kind, as in 'top-1 accuracy 75.2 (74.8 to 75.6), estimated'; 'dense' of the dense network.

        Of an assumed accuracy: 'assumed to drop by 0.5 points', or 'assumed to be accurate enough' where no drop is stated.
        """
        if self.method == "dense":
            return "dense"
        if self.is_assumed:
            return f"assumed to drop by {self.assumed_drop}" if self.assumed_drop else "assumed to be accurate enough"
        if not np.isfinite(self.accuracy):
            return "no accuracy"
        interval = f" ({self.accuracy_low:.4g} to {self.accuracy_high:.4g})" if np.isfinite(self.accuracy_low) else ""
        return f"{self.metric or 'accuracy'} {self.accuracy:.4g}{interval}, {self.accuracy_kind}"

    @property
    def has_inferred_accuracy(self) -> bool:
        """Whether nobody measured or published the accuracy: it is estimated, interpolated between points of a curve, or assumed."""
        return any(kind in self.accuracy_kind for kind in ("estimated", "interpolated", "assumed"))

    @property
    def is_assumed(self) -> bool:
        """Whether the accuracy is an assumption of a specification: a stated drop, or that it is high enough."""
        return self.accuracy_kind == "assumed"

    @property
    def assumed_points(self) -> float:
        """The accuracy drop that is assumed, in points of the metric; NaN where none is, or where it needs an unknown dense accuracy."""
        return self.assumed_drop.in_unit(False, self.dense_accuracy) if self.assumed_drop else np.nan

    @property
    def has_even_density(self) -> bool:
        """Whether the density is that of the pattern, or one that all layers have: the sparsity says it."""
        return self.densities_from == "own" or self.densities_from.startswith("uniform ")

    def __str__(self) -> str:
        origin = f" from {self.densities_from}" if self.densities_from and not self.has_even_density else ""
        return f"{self.method} {self.pattern} {self.nominal_sparsity:g}{origin}"

    def __repr__(self) -> str:
        accuracy = f"accuracy {self.accuracy:.4g}" if np.isfinite(self.accuracy) else "no accuracy"
        return (
            f"Variant({self.workload}: {self.method} {self.pattern}, sparsity {self.sparsity:.4g}, {accuracy}, {len(self.layers)} layers)"
        )

    def _repr_html_(self) -> str:
        """A table of this variant, for notebooks."""
        rows = [
            ("method", self.method),
            ("pattern", self.pattern),
            ("sparsity", self.sparsity),
            (self.metric or "accuracy", self.accuracy),
            *([("90% interval", f"{self.accuracy_low:.4g} to {self.accuracy_high:.4g}")] if np.isfinite(self.accuracy_low) else []),
            ("dense network", self.dense_accuracy),
            ("accuracy source", self.accuracy_source),
            ("layers", len(self.layers)),
            ("layer densities", self.densities_from or "counted"),
        ]
        return html_table(f"variant of {self.workload}", (), rows)
