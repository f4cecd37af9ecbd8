"""Join the rows of a workload's tables into variants: layer densities, accuracies, and counts of stored elements."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.networks.layers import LayerArrays, PerLayer
from dse.sparsity.pattern import Pattern
from dse.workload.schema import AccuracyRow, Description, Metric, StoredRow, UnionRow, VariantRow
from dse.workload.variant import Variant
from dse.workload.workload import Workload

Row = TypeVar("Row", VariantRow, AccuracyRow, StoredRow, UnionRow)
LayerStatistic = TypeVar("LayerStatistic", StoredRow, UnionRow)
Column = TypeVar("Column", Pattern, int)
MAX_SPARSITY_DIFFERENCE = 0.02  # between the sparsity of a uniform N:M variant and that of its pattern
FIX_STATISTICS = "trace the network again, or remove statistics/"


class LocatedRow(NamedTuple, Generic[Row]):
    """A row of a table, and where it is."""

    file: Path
    line: int
    row: Row


class VariantKey(NamedTuple):
    """Identifies a variant of a workload."""

    method: str
    pattern: Pattern
    nominal_sparsity: float

    @classmethod
    def from_row(cls, row: VariantRow | AccuracyRow | StoredRow | UnionRow) -> "VariantKey":
        return cls(row.method, row.pattern, row.sparsity)

    def __str__(self) -> str:
        return f"{self.method} {self.pattern} {self.nominal_sparsity:g}"


LayerRows = list[LocatedRow[VariantRow]]


def join_variants(
    workload: Workload,
    layer_rows: LayerRows,
    accuracy_rows: list[LocatedRow[AccuracyRow]],
    stored_rows: list[LocatedRow[StoredRow]],
    union_rows: list[LocatedRow[UnionRow]],
) -> tuple[Variant, ...]:
    """Make a variant for each method, pattern and sparsity in the tables; raises InputError with every problem."""
    layer_rows_by_key: dict[VariantKey, LayerRows] = {}
    for located in layer_rows:
        layer_rows_by_key.setdefault(VariantKey.from_row(located.row), []).append(located)
    problems = ProblemCollector()
    accuracies = _accuracies_by_key(accuracy_rows, layer_rows_by_key.keys(), workload.description, problems)
    stored_elements = _stored_elements_by_key(workload.layers, stored_rows, layer_rows_by_key, problems)
    union_densities = _union_densities_by_key(workload.layers, union_rows, layer_rows_by_key, problems)
    variants: list[Variant] = []
    for key, rows in layer_rows_by_key.items():
        with problems.collect():
            variants.append(_traced_variant(workload, key, rows, stored_elements.get(key, {}), union_densities.get(key, {})))
    variants += [_uniform_variant(workload, key) for key, row in accuracies.items() if row.densities == "uniform"]
    problems.raise_if_any()
    return tuple(_with_accuracy(variant, accuracies.get(_key_of(variant)), workload.description) for variant in variants)


def _key_of(variant: Variant) -> VariantKey:
    return VariantKey(variant.method, variant.pattern, variant.nominal_sparsity)


def _accuracies_by_key(
    rows: list[LocatedRow[AccuracyRow]], traced: Collection[VariantKey], description: Description, problems: ProblemCollector
) -> dict[VariantKey, AccuracyRow]:
    """Accuracies by variant. A row that belongs to no variant would be missing from every result, so it is a problem."""
    accuracies: dict[VariantKey, AccuracyRow] = {}
    for file, line, row in rows:
        key = VariantKey.from_row(row)
        with problems.collect(file, line):
            if key in accuracies:
                raise InputError("this accuracy is given twice", "keep one row")
            _check_densities(row, key, traced)
            _check_metric(row.metric, description.metrics)
            accuracies[key] = row
    return accuracies


def _check_densities(row: AccuracyRow, key: VariantKey, traced: Collection[VariantKey]) -> None:
    """Raise InputError if the layer densities that an accuracy claims are missing, or are there although it claims none."""
    if row.densities != "uniform":
        if key not in traced:
            fix = f"{did_you_mean(key, map(str, traced))} (or densities 'uniform', if only a total is known)"
            raise InputError(f"there is no variant '{key}'", fix)
        return
    if key in traced:
        raise InputError(f"'{key}' is traced, so its densities are known", "write densities 'traced'")
    density = row.pattern.density
    if density is not None and abs(1 - row.sparsity - density) > MAX_SPARSITY_DIFFERENCE:
        what = f"the sparsity of {row.pattern} is {1 - density:g}, not {row.sparsity:g}"
        raise InputError(what, "write the sparsity of the pattern", key="sparsity")


def _check_metric(metric: str | None, metrics: Mapping[str, Metric]) -> None:
    if metric is not None and metric not in metrics:
        fix = f"{did_you_mean(metric, metrics)} (workload.yaml: metric, other_metrics)"
        raise InputError(f"unknown metric '{metric}'", fix, key="metric")


def _stored_elements_by_key(
    layers: LayerArrays, rows: list[LocatedRow[StoredRow]], layer_rows: Mapping[VariantKey, LayerRows], problems: ProblemCollector
) -> dict[VariantKey, dict[Pattern, PerLayer]]:
    """Elements that patterns store of each traced variant, of one copy of its weights; NaN where a pattern does not fit the mask."""
    index = _layer_index(layers)
    nnz = {(key, located.row.layer): located.row.nnz for key, rows_of_key in layer_rows.items() for located in rows_of_key}

    def read(key: VariantKey, row: StoredRow) -> tuple[Pattern, float, str]:
        if (key, row.layer) not in nnz or row.layer not in index:
            raise InputError(f"no variant '{key}' of a layer '{row.layer}'", FIX_STATISTICS)
        if row.elements < nnz[key, row.layer]:
            raise InputError(f"{row.stored_as} cannot store '{row.layer}' in {row.elements:g} elements", FIX_STATISTICS)
        return row.stored_as, row.elements / layers.experts[index[row.layer]], f"what {row.stored_as} stores of '{row.layer}'"

    return _layer_columns(layers, rows, read, problems)


def _union_densities_by_key(
    layers: LayerArrays, rows: list[LocatedRow[UnionRow]], layer_rows: Mapping[VariantKey, LayerRows], problems: ProblemCollector
) -> dict[VariantKey, dict[int, PerLayer]]:
    """Share of the inputs of each traced variant that groups of tokens need, by their number; NaN where it was not counted."""
    index = _layer_index(layers)
    has_density = {
        (key, located.row.layer) for key, of_key in layer_rows.items() for located in of_key if located.row.activation_density is not None
    }

    def read(key: VariantKey, row: UnionRow) -> tuple[int, float, str]:
        if (key, row.layer) not in has_density or row.layer not in index:
            raise InputError(f"no variant '{key}' has an activation_density of a layer '{row.layer}'", FIX_STATISTICS)
        return row.tokens, row.union_density, f"what {row.tokens} tokens need of '{row.layer}'"

    return _layer_columns(layers, rows, read, problems)


def _layer_columns(
    layers: LayerArrays,
    rows: list[LocatedRow[LayerStatistic]],
    read: Callable[[VariantKey, LayerStatistic], tuple[Column, float, str]],
    problems: ProblemCollector,
) -> dict[VariantKey, dict[Column, PerLayer]]:
    """Numbers of layers as columns [layer] by variant; NaN where no row gives one. `read`: column, number and description of a row."""
    index, columns_by_key = _layer_index(layers), dict[VariantKey, dict[Column, PerLayer]]()
    for file, line, row in rows:
        key = VariantKey.from_row(row)
        with problems.collect(file, line):
            column, number, description = read(key, row)
            values = columns_by_key.setdefault(key, {}).setdefault(column, np.full(len(layers), np.nan))
            if not np.isnan(values[index[row.layer]]):
                raise InputError(f"{description} is given twice", FIX_STATISTICS)
            values[index[row.layer]] = number
    return columns_by_key


def _traced_variant(
    workload: Workload,
    key: VariantKey,
    rows: LayerRows,
    stored_elements: dict[Pattern, PerLayer],
    union_densities: dict[int, PerLayer],
) -> Variant:
    """A variant whose nonzeros were counted layer by layer."""
    layers = workload.layers
    return Variant(
        workload.name, layers, *key, _densities(layers, rows, prunable_is_declared=workload.description.network is None),
        stored_elements=stored_elements, activation_density=_activation_densities(layers, rows), row_spread=_row_spread(layers, rows),
        touched_columns=_touched_columns(layers, rows), run_on=workload.run_on, runtime=workload.runtime, union_densities=union_densities,
    )  # fmt: skip


def _uniform_variant(workload: Workload, key: VariantKey) -> Variant:
    """A variant of which only the total sparsity is known: the same density for each prunable layer, all that an N:M allows."""
    pattern, layers = key.pattern, workload.layers
    density = np.full(len(layers), 1 - key.nominal_sparsity) if pattern.density is None else workload.own_density(pattern)
    return Variant(
        workload.name, layers, *key, np.where(layers.prunable, density, 1.0), activation_density=layers.activation_density,
        densities_from="uniform", run_on=workload.run_on, runtime=workload.runtime,
    )  # fmt: skip


def _with_accuracy(variant: Variant, row: AccuracyRow | None, description: Description) -> Variant:
    if row is None:
        return replace(variant, metric=description.metric.name)
    return replace(
        variant, accuracy=row.value, dense_accuracy=_nan_if_none(row.dense_value), accuracy_low=_nan_if_none(row.low),
        accuracy_high=_nan_if_none(row.high), accuracy_kind=row.kind, accuracy_source=row.source,
        metric=row.metric or description.metric.name, densities_from="" if row.densities == "traced" else row.densities,
        combined_with=row.combined_with,
    )  # fmt: skip


def _nan_if_none(value: float | None) -> float:
    return np.nan if value is None else value


def _layer_index(layers: LayerArrays) -> dict[str, int]:
    return {name: position for position, name in enumerate(layers.name)}


def _densities(layers: LayerArrays, rows: LayerRows, prunable_is_declared: bool) -> PerLayer:
    """Density of each layer's weights; 1 for a layer without a row. Raises InputError.

    `prunable_is_declared`: layers.csv says which layers are prunable, so the rows must agree. A formula only knows which
    layers usually are.
    """
    index, density, seen, problems = _layer_index(layers), np.ones(len(layers)), set[str](), ProblemCollector()
    for file, line, row in rows:
        with problems.collect(file, line, "layer"):
            if row.layer not in index:
                raise InputError(f"unknown layer '{row.layer}'", did_you_mean(row.layer, index))
            if row.layer in seen:
                raise InputError(f"layer '{row.layer}' is given twice in one variant", "keep one row")
            seen.add(row.layer)
        with problems.collect(file, line, "nnz"):
            if row.layer in index:
                density[index[row.layer]] = _density(layers, index[row.layer], row, prunable_is_declared)
    problems.raise_if_any()
    return density


def _density(layers: LayerArrays, layer: int, row: VariantRow, prunable_is_declared: bool) -> float:
    size = layers.weights[layer] * layers.experts[layer]
    if row.nnz > size:
        what = f"density {row.nnz / max(size, 1):.4g} is above 1 ({row.nnz:g} nonzeros in {size:g} weights)"
        raise InputError(what, "write at most m x k nonzeros")
    if prunable_is_declared and row.nnz < size and not layers.prunable[layer]:
        raise InputError(f"layer '{row.layer}' is pruned, but not prunable", "set prunable in layers.csv, or write all its weights")
    allowed = row.pattern.max_nonzeros(layers.m[layer], layers.k[layer]) * layers.experts[layer]
    if allowed < row.nnz < size:
        raise InputError(f"{row.nnz:g} nonzeros are more than {row.pattern} allows", f"write at most {allowed:g}")
    return float(row.nnz / size) if size else 1.0


def _activation_densities(layers: LayerArrays, rows: LayerRows) -> PerLayer:
    """Density of each layer's inputs; that of the network where the rows give none."""
    counted = {row.layer: row.activation_density for _, _, row in rows if row.activation_density is not None}
    return np.array([counted.get(name, usual) for name, usual in zip(layers.name, layers.activation_density, strict=True)])


def _row_spread(layers: LayerArrays, rows: LayerRows) -> PerLayer:
    """Standard deviation over mean of the nonzeros in a row; NaN where it was not counted."""
    counted = {row.layer: row.row_std / row.row_mean for _, _, row in rows if row.row_std is not None and row.row_mean}
    return np.array([counted.get(name, np.nan) for name in layers.name])


def _touched_columns(layers: LayerArrays, rows: LayerRows) -> PerLayer:
    """Share of the columns with any nonzero; NaN where it was not counted. Raises InputError."""
    index, share, problems = _layer_index(layers), np.full(len(layers), np.nan), ProblemCollector()
    for file, line, row in rows:
        if row.columns_touched is None:
            continue
        layer, what = index[row.layer], f"{row.columns_touched:g} columns with nonzeros"
        with problems.collect(file, line, "columns_touched"):
            if row.columns_touched > layers.k[layer]:
                raise InputError(f"{what} in a matrix of {layers.k[layer]:g}", "write at most k columns")
            if row.columns_touched * layers.m[layer] * layers.experts[layer] < row.nnz:
                raise InputError(f"{what} cannot hold {row.nnz:g} nonzeros", "write the number of columns with any nonzero")
        share[layer] = row.columns_touched / layers.k[layer]
    problems.raise_if_any()
    return share
