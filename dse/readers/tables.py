"""The native format of a workload: a folder of tables (see `dse.workload` for their columns)."""

import hashlib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from dse.document import Document, read
from dse.errors import BadInput, Collector, Problem, suggestion
from dse.network.layers import LayerRow, Layers
from dse.readers.rows import read_rows
from dse.sparsity.pattern import Pattern
from dse.workload import AccuracyRow, Description, Variant, VariantRow, Workload

Trace = tuple[Path, int, VariantRow]
Accuracy = tuple[Path, int, AccuracyRow]
State = tuple[str, Pattern, float]  # method, pattern, nominal sparsity


def load(path: str | Path) -> Workload:
    """Read a workload folder (or its workload.yaml); raises BadInput with every problem in all its files."""
    folder = Path(path).parent if Path(path).name == "workload.yaml" else Path(path)
    problems, parts = Collector(), {}
    with problems.at():
        parts["document"] = (document := read(folder / "workload.yaml"))
        parts["description"] = document.validate(Description)
    with problems.at():
        parts["layers"] = _read_layers(folder / "layers.csv")
    traces, accuracies = [], []
    for file in sorted((folder / "variants").glob("*.csv")):
        with problems.at():
            traces += [(file, line, row) for line, row in read_rows(file, VariantRow)]
    if (folder / "accuracy.csv").exists():
        with problems.at():
            accuracies = [(folder / "accuracy.csv", line, row) for line, row in read_rows(folder / "accuracy.csv", AccuracyRow)]
    problems.raise_all()
    description, layers = parts["description"], parts["layers"]
    variants = _variants(description.name, layers, traces, accuracies)
    return Workload(description, layers, variants, folder, _hashes(folder, parts["document"]))


def _read_layers(path: Path) -> Layers:
    rows = read_rows(path, LayerRow)
    first: dict[str, int] = {}
    problems = Collector()
    for line, row in rows:
        if row.name in first:
            problems.add(Problem(f"layer '{row.name}' is given twice", f"rename one (the first is on line {first[row.name]})", path, line))
        first.setdefault(row.name, line)
    problems.raise_all()
    return Layers.of([row for _, row in rows])


def _hashes(folder: Path, document: Document) -> dict[str, str]:
    tables = [folder / "layers.csv", folder / "accuracy.csv", *sorted((folder / "variants").glob("*.csv"))]
    hashed = {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in tables if file.exists()}
    return {"workload.yaml": document.sha256, **hashed}


def _variants(workload: str, layers: Layers, traces: list[Trace], accuracies: list[Accuracy]) -> tuple[Variant, ...]:
    """Group trace rows into variants and join their accuracies by (method, pattern, nominal sparsity)."""
    grouped: dict[State, list[Trace]] = {}
    for trace in traces:
        row = trace[2]
        grouped.setdefault((row.method, row.pattern, row.sparsity), []).append(trace)
    problems = Collector()
    known = _known_accuracies(accuracies, grouped.keys(), problems)
    variants: list[Variant] = []
    for (method, pattern, sparsity), rows in grouped.items():
        with problems.at():
            variant = Variant(workload, layers, method, pattern, sparsity, _densities(layers, rows))
            variants.append(_with_accuracy(variant, known.get((method, pattern, sparsity))))
    problems.raise_all()
    return tuple(variants)


def _known_accuracies(accuracies: list[Accuracy], traced: Collection[State], problems: Collector) -> dict[State, AccuracyRow]:
    """Accuracies by the state they belong to; a row that belongs to none would vanish from every result, so it is a mistake."""
    known: dict[State, AccuracyRow] = {}
    for file, line, row in accuracies:
        state = (row.method, row.pattern, row.sparsity)
        if state in known:
            problems.add(Problem("this accuracy is given twice", "keep one row", file, line))
        elif state not in traced:
            fix = suggestion(_spoken(state), map(_spoken, traced))
            problems.add(Problem(f"no variant is '{_spoken(state)}'", fix, file, line))
        known[state] = row
    return known


def _spoken(state: State) -> str:
    return f"{state[0]} {state[1]} {state[2]:g}"


def _with_accuracy(variant: Variant, row: AccuracyRow | None) -> Variant:
    if row is None:
        return variant
    dense = np.nan if row.dense_value is None else row.dense_value
    return replace(variant, accuracy=row.value, dense_accuracy=dense, accuracy_kind=row.kind, accuracy_source=row.source)


def _densities(layers: Layers, traces: list[Trace]) -> np.ndarray:
    """nnz / size of each layer [layer], 1 where the trace is silent; raises BadInput."""
    index = {name: position for position, name in enumerate(layers.name)}
    density = np.ones(len(layers))
    problems, seen = Collector(), set()
    for file, line, row in traces:
        with problems.at(file, line, "layer"):
            if row.layer not in index:
                raise BadInput.one(f"unknown layer '{row.layer}'", suggestion(row.layer, index))
            if row.layer in seen:
                raise BadInput.one(f"layer '{row.layer}' is given twice in one variant", "keep one row")
            seen.add(row.layer)
        with problems.at(file, line, "nnz"):
            if row.layer in index:
                density[index[row.layer]] = _density(layers, index[row.layer], row)
    problems.raise_all()
    return density


def _density(layers: Layers, layer: int, row: VariantRow) -> float:
    size = layers.weights[layer]
    if row.nnz > size:
        what = f"density {row.nnz / max(size, 1):.4g} is above 1 ({row.nnz:g} nonzeros in {size:g} weights)"
        raise BadInput.one(what, "write at most m x k nonzeros")
    if row.nnz < size and not layers.prunable[layer]:
        raise BadInput.one(f"layer '{row.layer}' is pruned, but not prunable", "set prunable in layers.csv, or write all its weights")
    most = row.pattern.kept(layers.m[layer], layers.k[layer])
    if most < row.nnz < size:
        raise BadInput.one(f"{row.nnz:g} nonzeros are more than {row.pattern} keeps", f"write at most {most:g}")
    return float(row.nnz / size) if size else 1.0
