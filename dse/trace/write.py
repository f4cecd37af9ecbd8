"""The folder of a traced workload, all of it or nothing."""

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dse.errors import BadInput, Problem
from dse.network.layers import WITH_WEIGHTS, LayerRow
from dse.readers.source import Source
from dse.trace.trace import Traced

REPORT = "trace.json"
VARIANT = ("method", "pattern", "sparsity")


@dataclass(frozen=True)
class About:
    """What a file of weights does not say about its network."""

    task: str = "not given"
    metric: str = "accuracy"
    lower_is_better: bool = False
    accuracy: float | None = None
    dense_accuracy: float | None = None


def check(out: Path) -> None:
    """Whether a workload may be written there: raises BadInput before the work, not after."""
    if out.exists() and not (out / REPORT).exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput([Problem("something else is there already", "give a new folder, or one that 'dse trace' wrote", out)])
    above = next(folder for folder in (out.absolute().parent, *out.absolute().parents) if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise BadInput([Problem(f"{above} can't be written to", "give a folder that can", out)])


def write(out: Path, source: Source, states: list[Traced], report: Mapping[str, Any], about: About, inputs: Mapping[str, Any]) -> None:
    """Everything goes into a folder beside `out` first, which then takes its place."""
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent))
    try:
        fresh.chmod(0o755)
        _fill(fresh, out.absolute().name, source, [state for state in states if not state.dense], report, about, inputs)
        if out.exists():
            shutil.rmtree(out)
        os.replace(fresh, out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _fill(
    folder: Path, name: str, source: Source, states: list[Traced], report: Mapping[str, Any], about: About, inputs: Mapping[str, Any]
) -> None:
    description = _description(name, source, about, inputs)
    (folder / "workload.yaml").write_text(yaml.safe_dump(description, sort_keys=False, allow_unicode=True, width=120))
    (folder / REPORT).write_text(json.dumps(report, indent=2) + "\n")
    if source.network is None:
        _table(folder / "layers.csv", *_layers(source.layers))
    for method in dict.fromkeys(state.method for state in states):
        mine = [state for state in states if state.method == method]
        header = (*VARIANT, "layer", "nnz", "row_mean", "row_std", "column_mean", "column_std", "activation_density")
        _table(folder / "variants" / f"{method}.csv", header, (row for state in mine for row in _variant(state, source.layers)))
    for file, (columns, rows) in STATISTICS.items():
        if any(state.layers for state in states):
            found = ((*_key(state), name, *row) for state in states for name, layer in state.layers.items() for row in rows(layer))
            _table(folder / "statistics" / file, (*VARIANT, "layer", *columns), found)
    if about.accuracy is not None:
        header = (*VARIANT, "value", "dense_value", "source", "kind")
        _table(
            folder / "accuracy.csv",
            header,
            [(*_key(s), about.accuracy, about.dense_accuracy, "given with the trace", "measured") for s in states],
        )


def _description(name: str, source: Source, about: About, inputs: Mapping[str, Any]) -> dict[str, Any]:
    metric = {"name": about.metric, "direction": "lower" if about.lower_is_better else "higher"}
    network = source.network and source.network.model_dump(mode="json", exclude_none=True)
    described = {
        "name": name,
        "description": f"traced from {source.path.name} ({source.format})",
        "task": about.task,
        "metric": metric,
        "sources": [f"masks and layers: {source.path.name}, counted by dse trace"],
        "notes": list(source.notes),
        "network": network,
        "inputs": dict(inputs) if network else None,
    }
    return {key: value for key, value in described.items() if value}


def _layers(rows: Iterable[LayerRow]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Columns that say something, and the rows."""
    usual = {name: field.default for name, field in LayerRow.model_fields.items()}
    always = ("name", "kind", "m", "k", "n", "count")
    columns = tuple(name for name in usual if name in always or any(getattr(row, name) != usual[name] for row in rows))
    return columns, [tuple(getattr(row, name) for name in columns) for row in rows]


def _key(state: Traced) -> tuple[str, str, float]:
    return (state.method, str(state.pattern), state.nominal)


def _variant(state: Traced, rows: Iterable[LayerRow]) -> Iterator[tuple[Any, ...]]:
    """A row for each layer of which something is known: its mask, the nonzeros of its weights, or those of its input."""
    for row in rows:
        if row.name not in state.nonzeros and row.name not in state.activations:
            continue
        spread: tuple[float | None, ...] = (None,) * 4
        if layer := state.layers.get(row.name):
            spread = (layer.rows.mean(), layer.rows.std(), layer.columns.mean(), layer.columns.std())
        nnz = state.nonzeros.get(row.name, (row.m or 0) * (row.k or 0) * row.experts if row.kind in WITH_WEIGHTS else 0)
        yield (*_key(state), row.name, nnz, *spread, state.activations.get(row.name))


def _histogram(nonzeros: np.ndarray) -> Iterator[tuple[int, int]]:
    yield from zip(*np.unique(nonzeros, return_counts=True), strict=True)


def _blocks(layer: Any) -> Iterator[tuple[str, int, int]]:
    for (rows, columns), histogram in layer.blocks.items():
        for nonzeros in np.flatnonzero(histogram):
            yield f"{rows}x{columns}", int(nonzeros), int(histogram[nonzeros])


STATISTICS = {
    "rows.csv": (("nonzeros", "rows"), lambda layer: _histogram(layer.rows)),
    "columns.csv": (("nonzeros", "columns"), lambda layer: _histogram(layer.columns)),
    "blocks.csv": (("block", "nonzeros", "blocks"), _blocks),
    "stored.csv": (("stored_as", "elements"), lambda layer: layer.stored().items()),
}


def _table(path: Path, header: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    """Numbers in full, whole ones without a point."""
    if isinstance(value, bool):
        return str(value).lower()
    return int(value) if isinstance(value, float) and value.is_integer() else value
