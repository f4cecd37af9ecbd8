"""The native format of a workload: a folder of tables (see `dse.workload` for their columns)."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dse.base.csv_table import read_rows
from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.strict_model import validate_mapping
from dse.base.yaml_document import YamlDocument, load_document
from dse.networks import graph as graphs
from dse.networks.architecture import Architecture
from dse.networks.layers import LayerArrays, LayerRow
from dse.workload import join_tables
from dse.workload.schema import AccuracyRow, Description, StoredRow, VariantRow
from dse.workload.variant import Workload


def load(path: str | Path, inputs: Mapping[str, Any] | None = None) -> Workload:
    """Read a workload folder (or its workload.yaml), run on `inputs`; raises InputError with every problem in all its files."""
    folder = Path(path).parent if Path(path).name == "workload.yaml" else Path(path)
    problems, parts = ProblemCollector(), {}
    with problems.collect():
        parts["document"] = (document := load_document(folder / "workload.yaml"))
        parts["description"] = document.validate(Description)
    with problems.collect():
        parts["layers"] = _layers(folder, parts.get("document"), parts.get("description"), inputs or {})
    tables = {name: _read_all(sorted(folder.glob(pattern)), row, problems) for name, pattern, row in TABLES}
    problems.raise_if_any()
    bare = Workload(parts["description"], parts["layers"], (), folder, _hashes(folder, parts["document"]), inputs or {})
    return replace(bare, variants=join_tables.variants(bare, **tables))


def _read_all(files: list[Path], row: type[BaseModel], problems: ProblemCollector) -> list[Any]:
    """The rows of several tables, each with its file and line."""
    found = []
    for file in files:
        with problems.collect():
            found += [(file, line, record) for line, record in read_rows(file, row)]
    return found


TABLES = (
    ("traced", "variants/*.csv", VariantRow),
    ("accuracies", "accuracy.csv", AccuracyRow),
    ("stored", "statistics/stored.csv", StoredRow),
)


def _layers(folder: Path, document: YamlDocument | None, description: Description | None, inputs: Mapping[str, Any]) -> LayerArrays:
    """From the architecture if there is one, else from layers.csv."""
    if document is None and not (folder / "layers.csv").exists():
        return LayerArrays.from_rows([])  # the description that can't be read may have the network
    if document is None or "network" not in document.data:
        if inputs or (description is not None and description.inputs):
            raise InputError("the layers are a table, which takes no inputs", "leave 'inputs' out, or describe a 'network'")
        return _read_layers(folder / "layers.csv")
    if (folder / "layers.csv").exists():
        what = "the layers are given twice: 'network' here and layers.csv beside it"
        raise InputError.from_problems([document.make_problem(("network",), what, "remove one of them")])
    if description is None or description.network is None:
        return LayerArrays.from_rows([])  # what is wrong with the network has been told
    return _made(description.network, document, description.inputs, inputs)


def _made(network: Architecture, document: YamlDocument, own: Mapping[str, Any], asked: Mapping[str, Any]) -> LayerArrays:
    """By formula, on the inputs of the description with those asked for in their place."""
    model, problems = type(network).inputs, ProblemCollector()
    with problems.collect():
        document.validate(model, dict(own), ("inputs",))
    with problems.collect():
        validate_mapping(model, dict(asked), ("inputs",))
    problems.raise_if_any()
    with problems.collect(*document.locate(("network",))):
        return LayerArrays.from_rows(network.build_layers(model.model_validate({**own, **asked})))
    raise InputError.from_problems(problems.problems)


def _read_layers(path: Path) -> LayerArrays:
    rows = read_rows(path, LayerRow)
    first: dict[str, int] = {}
    problems = ProblemCollector()
    for line, row in rows:
        if row.name in first:
            problems.add(Problem(f"layer '{row.name}' is given twice", f"rename one (the first is on line {first[row.name]})", path, line))
        for column, text in (("reads", row.reads), ("adds", row.adds)):
            with problems.collect(path, line, column):
                graphs.parse_reads(text or graphs.NETWORK_INPUT, dict.fromkeys(first, 0))
        first.setdefault(row.name, line)
    problems.raise_if_any()
    return LayerArrays.from_rows([row for _, row in rows])


def _hashes(folder: Path, document: YamlDocument) -> dict[str, str]:
    tables = [file for pattern in ("layers.csv", *(pattern for _, pattern, _ in TABLES)) for file in sorted(folder.glob(pattern))]
    hashed = {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in tables}
    return {"workload.yaml": document.sha256, **hashed}
