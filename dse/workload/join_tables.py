"""Network states: traced layers, accuracies and counts of what is stored, joined into variants."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.networks.layers import LayerArrays
from dse.sparsity.pattern import Pattern
from dse.workload.schema import AccuracyRow, Description, StoredRow, VariantRow
from dse.workload.variant import Variant, Workload

Traced = tuple[Path, int, VariantRow]
Accuracy = tuple[Path, int, AccuracyRow]
Stored = tuple[Path, int, StoredRow]
State = tuple[str, Pattern, float]  # method, pattern, nominal sparsity


def variants(workload: Workload, traced: list[Traced], accuracies: list[Accuracy], stored: list[Stored]) -> tuple[Variant, ...]:
    """Rows with their places, joined by state: traced layers, accuracies, what is stored. Raises InputError."""
    grouped: dict[State, list[Traced]] = {}
    for entry in traced:
        row = entry[2]
        grouped.setdefault((row.method, row.pattern, row.sparsity), []).append(entry)
    problems = ProblemCollector()
    known = _known_accuracies(accuracies, grouped.keys(), workload.description, problems)
    counted = _counted(workload.layers, stored, grouped, problems)
    found: list[Variant] = []
    for state, entries in grouped.items():
        with problems.collect():
            found.append(_traced(workload, state, entries, counted.get(state, {})))
    found += [_uniform(workload, state) for state, row in known.items() if row.densities == "uniform"]
    problems.raise_if_any()
    joined = (_with_accuracy(variant, known.get(state_of(variant)), workload.description) for variant in found)
    return tuple(replace(variant, run_on=workload.run_on) for variant in joined)


def state_of(variant: Variant) -> State:
    return (variant.method, variant.pattern, variant.nominal_sparsity)


def _known_accuracies(
    accuracies: list[Accuracy], traced: Collection[State], description: Description, problems: ProblemCollector
) -> dict[State, AccuracyRow]:
    """Accuracies by the state they belong to; a row that belongs to none would vanish from every result, so it is a mistake."""
    known: dict[State, AccuracyRow] = {}
    for file, line, row in accuracies:
        state = (row.method, row.pattern, row.sparsity)
        if state in known:
            problems.add(Problem("this accuracy is given twice", "keep one row", file, line))
        elif row.densities != "uniform" and state not in traced:
            fix = f"{did_you_mean(_spoken(state), map(_spoken, traced))} (or densities 'uniform', if only a total is known)"
            problems.add(Problem(f"no variant is '{_spoken(state)}'", fix, file, line))
        elif row.densities == "uniform" and state in traced:
            problems.add(Problem(f"'{_spoken(state)}' is traced, so its densities are known", "write densities 'traced'", file, line))
        elif row.densities == "uniform" and row.pattern.density is not None and abs(1 - row.sparsity - row.pattern.density) > 0.02:
            what = f"{row.pattern} is {1 - row.pattern.density:g} sparse, not {row.sparsity:g}"
            problems.add(Problem(what, "write the sparsity of the pattern", file, line, "sparsity"))
        elif row.metric not in (None, *description.metrics):
            fix = f"{did_you_mean(row.metric, description.metrics)} (workload.yaml: metric, other_metrics)"
            problems.add(Problem(f"unknown metric '{row.metric}'", fix, file, line, "metric"))
        else:
            known[state] = row
    return known


def _counted(
    layers: LayerArrays, stored: list[Stored], traced: Mapping[State, list[Traced]], problems: ProblemCollector
) -> dict[State, dict[Pattern, np.ndarray]]:
    """Elements that patterns store of each traced state [layer], NaN where a pattern can't hold the mask."""
    index = {name: position for position, name in enumerate(layers.name)}
    nonzeros = {(state, entry[2].layer): entry[2].nnz for state, entries in traced.items() for entry in entries}
    found: dict[State, dict[Pattern, np.ndarray]] = {}
    for file, line, row in stored:
        state = (row.method, row.pattern, row.sparsity)
        if (state, row.layer) not in nonzeros or row.layer not in index:
            what = f"no variant '{_spoken(state)}' of a layer '{row.layer}'"
            problems.add(Problem(what, "trace the network again, or remove statistics/", file, line))
            continue
        column = found.setdefault(state, {}).setdefault(row.stored_as, np.full(len(layers), np.nan))
        if row.elements < nonzeros[state, row.layer] or not np.isnan(column[index[row.layer]]):
            what = f"{row.stored_as} can't store '{row.layer}' in {row.elements:g} elements, or is there twice"
            problems.add(Problem(what, "trace the network again, or remove statistics/", file, line))
        column[index[row.layer]] = row.elements / layers.experts[index[row.layer]]  # of one copy
    return found


def _traced(workload: Workload, state: State, entries: list[Traced], stored: dict[Pattern, np.ndarray]) -> Variant:
    layers = workload.layers
    density, activations = _densities(layers, entries, told=workload.description.network is None)
    return Variant(
        workload.name, layers, *state, density, stored=stored, activation_density=activations,
        row_spread=_row_spread(layers, entries), touched_columns=_touched_columns(layers, entries),
    )  # fmt: skip


def _uniform(workload: Workload, state: State) -> Variant:
    """A state of which only the total is known: every prunable layer alike. An N:M fills what it may."""
    _, pattern, sparsity = state
    density = np.full(len(workload.layers), 1 - sparsity) if pattern.density is None else workload.own_density(pattern)
    return Variant(
        workload.name, workload.layers, *state, np.where(workload.layers.prunable, density, 1.0),
        activation_density=workload.layers.activation_density, densities_from="uniform",
    )  # fmt: skip


def _spoken(state: State) -> str:
    return f"{state[0]} {state[1]} {state[2]:g}"


def _with_accuracy(variant: Variant, row: AccuracyRow | None, description: Description) -> Variant:
    if row is None:
        return replace(variant, metric=description.metric.name)
    dense = np.nan if row.dense_value is None else row.dense_value
    return replace(
        variant, accuracy=row.value, dense_accuracy=dense, accuracy_kind=row.kind, accuracy_source=row.source,
        metric=row.metric or description.metric.name, densities_from="" if row.densities == "traced" else row.densities,
        combined_with=row.combined_with,
    )  # fmt: skip


def _densities(layers: LayerArrays, entries: list[Traced], told: bool) -> tuple[np.ndarray, np.ndarray]:
    """Densities of the weights and of the inputs [layer]: where the trace is silent, 1 and the layer's own. Raises InputError.

    `told`: what may be pruned was written down, so that a trace must not differ; a formula only knows what is usual.
    """
    index = {name: position for position, name in enumerate(layers.name)}
    density, activations = np.ones(len(layers)), layers.activation_density.copy()
    sizes, problems, seen = layers.weights * layers.experts, ProblemCollector(), set()
    for file, line, row in entries:
        with problems.collect(file, line, "layer"):
            if row.layer not in index:
                raise InputError(f"unknown layer '{row.layer}'", did_you_mean(row.layer, index))
            if row.layer in seen:
                raise InputError(f"layer '{row.layer}' is given twice in one variant", "keep one row")
            seen.add(row.layer)
            if row.activation_density is not None:
                activations[index[row.layer]] = row.activation_density
        with problems.collect(file, line, "nnz"):
            if row.layer in index:
                density[index[row.layer]] = _density(layers, index[row.layer], row, sizes[index[row.layer]], told)
    problems.raise_if_any()
    return density, activations


def _row_spread(layers: LayerArrays, entries: list[Traced]) -> np.ndarray:
    """Standard deviation of the nonzeros in a row over their mean [layer], NaN where it was not counted."""
    told = {row.layer: row.row_std / row.row_mean for _, _, row in entries if row.row_std is not None and row.row_mean}
    return np.array([told.get(name, np.nan) for name in layers.name])


def _touched_columns(layers: LayerArrays, entries: list[Traced]) -> np.ndarray:
    """Share of the columns that have any nonzero [layer], NaN where it was not counted. Raises InputError."""
    index, share, problems = {name: position for position, name in enumerate(layers.name)}, np.full(len(layers), np.nan), ProblemCollector()
    for file, line, row in entries:
        if row.columns_touched is None:
            continue
        layer, problem = index[row.layer], f"{row.columns_touched:g} columns with nonzeros"
        with problems.collect(file, line, "columns_touched"):
            if row.columns_touched > layers.k[layer]:
                raise InputError(f"{problem} in a matrix of {layers.k[layer]:g}", "write at most k columns")
            if row.columns_touched * layers.m[layer] * layers.experts[layer] < row.nnz:
                raise InputError(f"{problem} can't hold {row.nnz:g}", "write the number of columns with any nonzero")
        share[layer] = row.columns_touched / layers.k[layer]
    problems.raise_if_any()
    return share


def _density(layers: LayerArrays, layer: int, row: VariantRow, size: float, told: bool) -> float:
    if row.nnz > size:
        what = f"density {row.nnz / max(size, 1):.4g} is above 1 ({row.nnz:g} nonzeros in {size:g} weights)"
        raise InputError(what, "write at most m x k nonzeros")
    if told and row.nnz < size and not layers.prunable[layer]:
        raise InputError(f"layer '{row.layer}' is pruned, but not prunable", "set prunable in layers.csv, or write all its weights")
    most = row.pattern.kept(layers.m[layer], layers.k[layer]) * layers.experts[layer]
    if most < row.nnz < size:
        raise InputError(f"{row.nnz:g} nonzeros are more than {row.pattern} keeps", f"write at most {most:g}")
    return float(row.nnz / size) if size else 1.0
