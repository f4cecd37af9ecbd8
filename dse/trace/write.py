"""Write the folder of a traced workload, all of it or nothing."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from dse.base.errors import InputError
from dse.base.output_file import temporary_path
from dse.networks.layers import WITH_WEIGHTS, LayerRow
from dse.readers.parsed_network import ParsedNetwork
from dse.trace.coverage import CoverageReport
from dse.trace.statistics_tables import KEY_COLUMNS, TableRow, state_key, write_statistics, write_table
from dse.trace.trace import TracedState
from dse.workload import tables

REPORT = "trace.json"
FILES, FOLDERS = {"workload.yaml", "layers.csv", "accuracy.csv", REPORT}, {"variants", "statistics"}
FIX_DESTINATION = "give a new folder, or one that 'dse trace' wrote and nothing was added to"
VARIANT_COLUMNS = ("layer", "nnz", "row_mean", "row_std", "column_mean", "column_std", "columns_touched", "activation_density")
ACCURACY_COLUMNS = ("value", "dense_value", "source", "kind", "low", "high")
REQUIRED_LAYER_COLUMNS = ("name", "kind", "m", "k", "n", "count")
LAYOUT_NOTE = "the pattern holds if a convolution's k runs point by point of each channel (channels-first), not channel by channel"


@dataclass(frozen=True)
class WorkloadDetails:
    """What a file of weights does not hold: task, metric and accuracies of a workload, and texts in place of those of a trace.

    `accuracies` are rows of accuracy.csv, for workloads with several measured variants.
    """

    task: str = "not given"
    metric: str = "accuracy"
    lower_is_better: bool = False
    accuracy: float | None = None
    dense_accuracy: float | None = None
    unit: str = ""
    description: str = ""
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    accuracies: tuple[TableRow, ...] = ()


def check_destination(out: Path, source: Path) -> None:
    """Raise InputError, before any work is done, if no workload may be written to `out`."""
    folder = Path(os.path.abspath(out))
    try:
        if reason := _why_refused(folder, source):
            raise InputError(reason, FIX_DESTINATION, out)
    except OSError as error:
        raise InputError((error.strerror or "cannot be used").lower(), "give a folder that can be written", out) from error


def _why_refused(folder: Path, source: Path) -> str:
    protected = [Path.cwd(), Path(os.path.abspath(source)), Path(os.path.realpath(source))]
    if any(folder == path or folder in path.parents for path in protected):
        return "it holds the source, or the working directory"
    if not re.fullmatch(r"\w[\w .+-]{0,99}", folder.name):
        return f"'{folder.name}' is not a valid name of a workload"
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return "something else is there already"
    if folder.is_dir() and (others := sorted(file.name for file in folder.iterdir() if not _is_of_trace(file))):
        return f"something else is there already: {', '.join(others[:5])}"
    existing = next(parent for parent in folder.parents if parent.exists())
    return "" if existing.is_dir() and os.access(existing, os.W_OK) else f"{existing} cannot be written to"


def _is_of_trace(path: Path) -> bool:
    return path.name in (FOLDERS if path.is_dir() else FILES)


def write_workload(
    out: Path,
    network: ParsedNetwork,
    states: list[TracedState],
    report: CoverageReport,
    details: WorkloadDetails,
    inputs: Mapping[str, object],
) -> None:
    """Write the workload to a temporary folder, load it once as a check, then put it in the place of `out`. Raises InputError.

    An accuracy.csv that is there stays, unless an accuracy is given now.
    """
    folder = Path(os.path.abspath(out))
    try:
        with temporary_path(folder) as new_folder:
            new_folder.mkdir()
            _write_files(new_folder, network, [state for state in states if not state.is_dense], report, details, inputs)
            if (accuracies := folder / "accuracy.csv").exists() and details.accuracy is None:
                shutil.copy(accuracies, new_folder)
            tables.check_copy(new_folder, out)
            if folder.exists():
                os.replace(folder, new_folder.with_name("previous"))
            os.replace(new_folder, folder)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be written: {reason}", "give a folder that can be written", out) from error


def _write_files(
    folder: Path,
    network: ParsedNetwork,
    states: list[TracedState],
    report: CoverageReport,
    details: WorkloadDetails,
    inputs: Mapping[str, object],
) -> None:
    description = _make_description(folder.name, network, states, details, inputs)
    (folder / "workload.yaml").write_text(yaml.safe_dump(description, sort_keys=False, allow_unicode=True, width=120))
    (folder / REPORT).write_text(json.dumps(report, indent=2) + "\n")
    if network.architecture is None:
        write_table(folder / "layers.csv", *_layer_table([_set_prunable(row, states) for row in network.layers]))
    for method in dict.fromkeys(state.method for state in states):
        rows = (row for state in states if state.method == method for row in _variant_rows(state, network.layers))
        write_table(folder / "variants" / f"{method}.csv", (*KEY_COLUMNS, *VARIANT_COLUMNS), rows)
    write_statistics(folder / "statistics", states)
    accuracies = list(details.accuracies)
    if details.accuracy is not None:
        values = (details.accuracy, details.dense_accuracy, "given with the trace", "measured", None, None)
        accuracies += [(*state_key(state), *values) for state in states]
    if accuracies:
        write_table(folder / "accuracy.csv", (*KEY_COLUMNS, *ACCURACY_COLUMNS), accuracies)


def _make_description(
    name: str, network: ParsedNetwork, states: list[TracedState], details: WorkloadDetails, inputs: Mapping[str, object]
) -> dict[str, object]:
    """workload.yaml"""
    source = network.path.name.encode("utf-8", "replace").decode()
    architecture = network.architecture and network.architecture.model_dump(mode="json", exclude_none=True)
    metric = {"name": details.metric, "direction": "lower" if details.lower_is_better else "higher"}
    if details.unit:
        metric["unit"] = details.unit
    description = {
        "name": name,
        "description": details.description or f"traced from {source} ({network.format})",
        "task": details.task,
        "metric": metric,
        "sources": list(details.sources) or [f"masks and layers: {source}, counted by dse trace"],
        "notes": [*details.notes, *network.notes, *([LAYOUT_NOTE] if any(state.layout != "channels-last" for state in states) else [])],
        "network": architecture,
        "inputs": dict(inputs) if architecture else None,
    }
    return {key: value for key, value in description.items() if value}


def _set_prunable(row: LayerRow, states: list[TracedState]) -> LayerRow:
    """A layer that was pruned is prunable."""
    pruned = any(row.name in state.nonzeros for state in states)
    return row.model_copy(update={"prunable": True}) if pruned and not row.prunable else row


def _layer_table(rows: list[LayerRow]) -> tuple[tuple[str, ...], list[TableRow]]:
    """The columns in which some layer differs from the default, and the rows."""
    defaults = {name: field.default for name, field in LayerRow.model_fields.items()}
    columns = tuple(
        name for name in defaults if name in REQUIRED_LAYER_COLUMNS or any(getattr(row, name) != defaults[name] for row in rows)
    )
    return columns, [tuple(getattr(row, name) for name in columns) for row in rows]


def _variant_rows(state: TracedState, rows: Iterable[LayerRow]) -> Iterator[TableRow]:
    """A row for each layer of which something was counted: its mask, the nonzeros of its weights, or those of its input."""
    for row in rows:
        activations = state.activations.get(row.name)
        if row.name not in state.nonzeros and activations is None:
            continue
        spread: tuple[float | None, ...] = (None,) * 5
        if mask := state.statistics.get(row.name):
            touched = mask.occupied_columns if row.experts == row.groups == 1 else None  # each expert and each group has its own columns
            spread = (mask.rows.mean(), mask.rows.std(), mask.columns.mean(), mask.columns.std(), touched)
        weights = (row.m or 0) * (row.k or 0) * row.experts if row.kind in WITH_WEIGHTS else 0
        yield (*state_key(state), row.name, state.nonzeros.get(row.name, weights), *spread, activations and activations.density)
