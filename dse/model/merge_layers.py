"""Merge layers whose work is proportional: their times have a constant ratio on every design, so that one layer replaces them.

Repeated blocks are proportional, and so are layers that only move bytes. The merge is an exact transformation of the evaluator's input: the
time of a layer under an execution scales with its work (and overhead), so that proportional layers take the same execution.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

SIGNIFICANT_BITS = 44  # of the ratios that are compared: relative differences of 1e-13 are rounding


@dataclass(frozen=True, eq=False)
class LayerMerge:
    """Which layers are merged. `group`: the merged layer that each layer belongs to; `first`: one layer of each merged layer."""

    group: Int[np.ndarray, "layer"]
    first: Int[np.ndarray, "merged"]

    def total(self, values: Float[np.ndarray, "layer ..."]) -> Float[np.ndarray, "merged ..."]:
        """Sum of `values` over the layers of each merged layer."""
        totals = np.zeros((len(self.first), *values.shape[1:]))
        np.add.at(totals, self.group, values)
        return totals


def merge_proportional(
    work: Float[np.ndarray, "sample layer execution term"],
    legal: Bool[np.ndarray, "layer execution"],
    overhead: Float[np.ndarray, "overhead_sample layer execution"] | None = None,
    proportional: Sequence[np.ndarray] = (),
    equal: Sequence[np.ndarray] = (),
) -> LayerMerge:
    """Find the layers that are proportional in all samples and have the same legal executions.

    `proportional` are further arrays [layer, ...] that have to be proportional to the work, `equal` those that have to be equal.
    The overhead of a layer with one legal execution is a constant, so it need not be proportional.
    """
    by_layer = np.moveaxis(work, 1, 0).reshape(len(legal), -1)
    scale = by_layer.max(axis=1, initial=0.0)
    scale = np.where(scale > 0, scale, 1.0)[:, None]
    columns = [_round_bits(np.reshape(values, (len(legal), -1)) / scale) for values in (by_layer, *proportional)]
    if overhead is not None:
        several = (legal.sum(axis=1) > 1)[:, None]
        columns.append(np.where(several, _round_bits(np.moveaxis(overhead, 1, 0).reshape(len(legal), -1) / scale), 0.0))
    rows = np.concatenate([*columns, legal, *(np.reshape(values, (len(legal), -1)) for values in equal)], axis=1)
    _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return LayerMerge(group.ravel(), first)


def _round_bits(values: np.ndarray) -> np.ndarray:
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(np.ldexp(mantissa, SIGNIFICANT_BITS)), exponent - SIGNIFICANT_BITS)
