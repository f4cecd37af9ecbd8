"""The layers of a network that repeat others: an explanation computes the terms of one of each."""

from dataclasses import dataclass, fields, replace

import numpy as np
from jaxtyping import Float, Int

from dse.explaining.side import Side
from dse.networks.layers import LayerArrays
from dse.sparsity.kinds import Structured
from dse.workload import Variant

PER_LAYER = ("density", "activation_density", "row_spread", "touched_columns")  # arrays of a variant, or None
LINKS = ("name", "reads", "adds")  # columns that say which layer it is, and which it is linked to


@dataclass(frozen=True, eq=False)
class LayerKinds:
    """The kinds of layers of a network: `first` is one layer of each, in their order, `kind` the kind of each layer."""

    first: Int[np.ndarray, "kind"]
    kind: Int[np.ndarray, "layer"]

    @classmethod
    def of(cls, side: Side) -> "LayerKinds":
        """The kinds of layers of the network of a side, pruned or dense.

        Each layer is of its own kind where its work depends on its neighbours: if these are pruned by whole channels, or fused. The two
        products of an attention, which one kernel may run, stay side by side, because both decide the kind of each.
        """
        variant = side.variant
        if isinstance(variant.pattern, Structured) or side.options.fusion == "fitting":
            return cls(*[np.arange(len(variant.layers))] * 2)
        rows = _with_neighbours(_rows(variant), variant.layers)
        _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return cls(first[order], np.argsort(order)[kind.ravel()])

    def take_from(self, variant: Variant) -> Variant:
        """A variant of the network with one layer of each kind; the whole variant where no layer repeats another."""
        return variant if len(self.first) == len(self.kind) else _take(variant, self.first)


def _rows(variant: Variant) -> Float[np.ndarray, "layer column"]:
    """All that the terms of a layer depend on."""
    columns = [np.asarray(getattr(variant.layers, field.name)) for field in fields(LayerArrays) if field.name not in LINKS]
    numbers = [column if column.dtype.kind in "fb" else np.unique(column, return_inverse=True)[1].ravel() for column in columns]
    own = [values for name in PER_LAYER if (values := getattr(variant, name)) is not None]
    rows = np.stack([*numbers, *own, *variant.stored_elements.values(), *variant.union_densities.values()], axis=1).astype(float)
    return np.nan_to_num(rows, nan=-1.0)


def _with_neighbours(rows: Float[np.ndarray, "layer column"], layers: LayerArrays) -> Float[np.ndarray, "layer column"]:
    """Rows followed, for the products of an attention, by those of the layers before and behind."""
    in_attention = (layers.queries > 0)[:, None]
    return np.concatenate([rows, *(np.where(in_attention, np.roll(rows, shift, axis=0), 0.0) for shift in (1, -1))], axis=1)


def _take(variant: Variant, index: Int[np.ndarray, "kind"]) -> Variant:
    layers = replace(variant.layers.take(index), reads=(None,) * len(index), adds=(None,) * len(index))
    own = {name: None if (values := getattr(variant, name)) is None else values[index] for name in PER_LAYER}
    stored = {pattern: elements[index] for pattern, elements in variant.stored_elements.items()}
    unions = {tokens: densities[index] for tokens, densities in variant.union_densities.items()}
    return replace(variant, layers=layers, stored_elements=stored, union_densities=unions, **own)
