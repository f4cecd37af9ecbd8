"""The folder of a traced workload, all of it or nothing."""

import csv
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dse.base.errors import InputError
from dse.networks.layers import WITH_WEIGHTS, LayerRow
from dse.readers.parsed_network import ParsedNetwork
from dse.trace.trace import Traced
from dse.workload import tables

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


def check(out: Path, source: Path) -> None:
    """Whether a workload may be written there: raises InputError before the work, not after."""
    place = Path(os.path.abspath(out))
    try:
        if reason := _refused(place, source):
            raise InputError(reason, "give a new folder, or one that 'dse trace' wrote and nothing was added to", out)
    except OSError as error:
        raise InputError((error.strerror or "cannot be used").lower(), "give a folder that can be written", out) from error


def _refused(place: Path, source: Path) -> str:
    kept = [Path.cwd(), Path(os.path.abspath(source)), Path(os.path.realpath(source))]
    if any(place == path or place in path.parents for path in kept):
        return "it holds the source, or the working directory"
    if not re.fullmatch(r"\w[\w .+-]{0,99}", place.name):
        return f"'{place.name}' can't name a workload"
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        return "something else is there already"
    if place.is_dir() and (added := sorted(file.name for file in place.iterdir() if not _ours(file))):
        return f"something else is there already: {', '.join(added[:5])}"
    above = next(folder for folder in place.parents if folder.exists())
    return "" if above.is_dir() and os.access(above, os.W_OK) else f"{above} can't be written to"


FILES, FOLDERS = {"workload.yaml", "layers.csv", "accuracy.csv", REPORT}, {"variants", "statistics"}


def _ours(path: Path) -> bool:
    return path.name in (FOLDERS if path.is_dir() else FILES)


def write(
    out: Path, source: ParsedNetwork, states: list[Traced], report: Mapping[str, Any], about: About, inputs: Mapping[str, Any]
) -> None:
    """Everything goes into a folder beside `out` first and is read once; then it takes the place of `out`. Raises InputError.

    Accuracies that were written by hand stay, unless one is given now.
    """
    place = Path(os.path.abspath(out))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as beside:
            fresh = Path(beside) / place.name
            fresh.mkdir()
            _fill(fresh, place.name, source, [state for state in states if not state.dense], report, about, inputs)
            if (by_hand := place / "accuracy.csv").exists() and about.accuracy is None:
                shutil.copy(by_hand, fresh)
            _check_read(fresh, out)
            if place.exists():
                os.replace(place, Path(beside) / "before")
            os.replace(fresh, place)
    except OSError as error:
        raise InputError(f"can't be written: {(error.strerror or str(error)).lower()}", "give a folder that can", out) from error


def _check_read(fresh: Path, out: Path) -> None:
    """What is written can be read, with accuracies that were there before: otherwise nothing is replaced. Raises InputError."""
    try:
        tables.load(fresh)
    except InputError as error:
        places = [problem.file and out / problem.file.relative_to(fresh) for problem in error.problems]
        raise InputError.from_problems(
            replace(problem, file=place) for problem, place in zip(error.problems, places, strict=True)
        ) from error


def _fill(
    folder: Path, name: str, source: ParsedNetwork, states: list[Traced], report: Mapping[str, Any], about: About, inputs: Mapping[str, Any]
) -> None:
    description = _description(name, source, states, about, inputs)
    (folder / "workload.yaml").write_text(yaml.safe_dump(description, sort_keys=False, allow_unicode=True, width=120))
    (folder / REPORT).write_text(json.dumps(report, indent=2) + "\n")
    if source.network is None:
        _table(folder / "layers.csv", *_layers([_row(row, states) for row in source.layers]))
    for method in dict.fromkeys(state.method for state in states):
        mine = [state for state in states if state.method == method]
        header = (*VARIANT, "layer", "nnz", "row_mean", "row_std", "column_mean", "column_std", "columns_touched", "activation_density")
        _table(folder / "variants" / f"{method}.csv", header, (row for state in mine for row in _variant(state, source.layers)))
    for file, (columns, rows) in STATISTICS.items():
        if any(state.layers for state in states):
            found = ((*_key(state), name, *row) for state in states for name, layer in state.layers.items() for row in rows(layer))
            _table(folder / "statistics" / file, (*VARIANT, "layer", *columns), found)
    if about.accuracy is not None and states:
        header = (*VARIANT, "value", "dense_value", "source", "kind")
        given = (about.accuracy, about.dense_accuracy, "given with the trace", "measured")
        _table(folder / "accuracy.csv", header, [(*_key(state), *given) for state in states])


LAYOUT = "the pattern holds if a convolution's k runs point by point of each channel (channels-first), not channel by channel"


def _description(name: str, source: ParsedNetwork, states: list[Traced], about: About, inputs: Mapping[str, Any]) -> dict[str, Any]:
    metric = {"name": about.metric, "direction": "lower" if about.lower_is_better else "higher"}
    network = source.network and source.network.model_dump(mode="json", exclude_none=True)
    described = {
        "name": name,
        "description": f"traced from {_shown(source.path)} ({source.format})",
        "task": about.task,
        "metric": metric,
        "sources": [f"masks and layers: {_shown(source.path)}, counted by dse trace"],
        "notes": [*source.notes, *(LAYOUT for _ in range(any(state.layout != "channels-last" for state in states)))],
        "network": network,
        "inputs": dict(inputs) if network else None,
    }
    return {key: value for key, value in described.items() if value}


def _row(row: LayerRow, states: list[Traced]) -> LayerRow:
    """A layer that was pruned may be."""
    pruned = any(row.name in state.nonzeros for state in states)
    return row.model_copy(update={"prunable": True}) if pruned and not row.prunable else row


def _shown(path: Path) -> str:
    """The name of a file, where a text can hold it."""
    return path.name.encode("utf-8", "replace").decode()


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
        spread: tuple[float | None, ...] = (None,) * 5
        if layer := state.layers.get(row.name):
            touched = layer.touched if row.experts == row.groups == 1 else None  # experts and groups have columns of their own
            spread = (layer.rows.mean(), layer.rows.std(), layer.columns.mean(), layer.columns.std(), touched)
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
    "stored.csv": (("stored_as", "elements"), lambda layer: layer.stored_elements().items()),
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
