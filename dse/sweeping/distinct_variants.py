"""The variants of a sweep that differ in work: those that differ in labels or accuracy only are evaluated once.

Several methods that prune to the same densities, or one method with several recipes or tasks, give the same layers.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields

import numpy as np

from dse.networks.layers import LayerArrays
from dse.workload import Variant

LABELS = {
    *("method", "nominal_sparsity", "densities_from", "combined_with", "metric"),
    *("accuracy", "accuracy_low", "accuracy_high", "dense_accuracy", "accuracy_kind", "accuracy_source", "assumed_drop"),
}
"""The fields of a variant on which no latency depends."""


def group_equal_variants(variants: Sequence[Variant]) -> list[tuple[int, ...]]:
    """Indices of the variants of each kind of work, in the order of the first of each."""
    groups: dict[Hashable, list[int]] = {}
    for number, variant in enumerate(variants):
        groups.setdefault(_work_key(variant), []).append(number)
    return [tuple(numbers) for numbers in groups.values()]


def _work_key(variant: Variant) -> Hashable:
    """Equal for variants whose layers are stored and executed in the same way."""
    return tuple(_hashable(getattr(variant, field.name)) for field in fields(variant) if field.name not in LABELS)


def _hashable(value: object) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(each)) for key, each in value.items())
    return id(value) if isinstance(value, LayerArrays) else value  # the variants of a workload share their layers
