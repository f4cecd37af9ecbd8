"""Load a workload from its folder (see `dse.workload` for the files)."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.input_file import read_rows
from dse.base.strict_model import validate_mapping
from dse.base.yaml_document import YamlDocument, load_document
from dse.networks import graph
from dse.networks.architecture import Architecture, NetworkInputs
from dse.networks.layers import LayerArrays, LayerRow
from dse.workload.join_tables import LocatedRow, Row, join_variants
from dse.workload.schema import AccuracyRow, Description, StoredRow, UnionRow, VariantRow
from dse.workload.workload import Workload

LayerStatistics = TypeVar("LayerStatistics", VariantRow, StoredRow, UnionRow)
VARIANT_FILES, ACCURACY_FILES, STORED_FILES = "variants/*.csv", "accuracy.csv", "statistics/stored.csv"
UNION_FILES = "statistics/activation_tokens.csv"


def load(path: str | Path, inputs: Mapping[str, object] | None = None) -> Workload:
    """Load a workload from its folder or workload.yaml; raises InputError with the problems of all its files.

    `inputs` replace those of the description, for a network whose layers are computed by formula.
    """
    folder = Path(path).parent if Path(path).name == "workload.yaml" else Path(path)
    document, description, layers, problems = None, None, None, ProblemCollector()
    with problems.collect():
        document = load_document(folder / "workload.yaml")
        description = document.validate(Description)
    with problems.collect():
        layers = _load_layers(folder, document, description, inputs or {})
    layer_rows = _read_tables(folder, VARIANT_FILES, VariantRow, problems)
    accuracy_rows = _read_tables(folder, ACCURACY_FILES, AccuracyRow, problems)
    stored_rows = _read_tables(folder, STORED_FILES, StoredRow, problems)
    union_rows = _read_tables(folder, UNION_FILES, UnionRow, problems)
    if problems.problems or document is None or description is None or layers is None:
        raise InputError.from_problems(problems.problems)
    network = Workload(description, layers, (), folder, _hash_files(folder, document), inputs or {})
    idle = _idle_layers(description, document, layers, inputs or {})
    layer_rows, stored_rows = _of_other_layers(layer_rows, idle), _of_other_layers(stored_rows, idle)
    variants = join_variants(network, layer_rows, accuracy_rows, stored_rows, _of_other_layers(union_rows, idle))
    return replace(network, variants=variants)


def check_copy(copy: Path, folder: Path) -> None:
    """Load the copy of a workload that is to be put at `folder`; raises InputError with problems of the files in `folder`."""
    try:
        load(copy)
    except InputError as error:
        files = [problem.file and folder / problem.file.relative_to(copy) for problem in error.problems]
        raise InputError.from_problems(replace(problem, file=file) for problem, file in zip(error.problems, files, strict=True)) from error


def _idle_layers(description: Description, document: YamlDocument, layers: LayerArrays, inputs: Mapping[str, object]) -> set[str]:
    """Names of layers that the network has on the inputs of its description, but not on `inputs`: a decode step runs no encoder."""
    if description.network is None or not inputs:
        return set()
    return set(_compute_layers(description.network, document, description.inputs, {}).name) - set(layers.name)


def _of_other_layers(rows: list[LocatedRow[LayerStatistics]], layers: Collection[str]) -> list[LocatedRow[LayerStatistics]]:
    """The rows of a table that are of none of these layers."""
    return [located for located in rows if located.row.layer not in layers]


def load_mapping(document: YamlDocument, inputs: Mapping[str, object] | None = None) -> Workload:
    """Make a workload without variants from a description that is in no folder; raises InputError if it has no `network`."""
    description = document.validate(Description)
    if description.network is None:
        what, fix = "a description outside a folder has no layers without 'network'", "add 'network', or give the path of a workload folder"
        raise InputError.from_problems([document.make_problem(("network",), what, fix)])
    layers = _compute_layers(description.network, document, description.inputs, inputs or {})
    return Workload(description, layers, (), document.path.parent, {"workload.yaml": document.sha256}, inputs or {}, document.data)


def _read_tables(folder: Path, pattern: str, model: type[Row], problems: ProblemCollector) -> list[LocatedRow[Row]]:
    """Read the rows of all files that match a glob pattern; the problems of each file are collected."""
    rows: list[LocatedRow[Row]] = []
    for file in sorted(folder.glob(pattern)):
        with problems.collect():
            rows += [LocatedRow(file, line, row) for line, row in read_rows(file, model)]
    return rows


def _load_layers(folder: Path, document: YamlDocument | None, description: Description | None, inputs: Mapping[str, object]) -> LayerArrays:
    """Compute the layers from the architecture in the description if there is one, otherwise read layers.csv."""
    if document is None and not (folder / "layers.csv").exists():
        return LayerArrays.from_rows([])  # the architecture may be in the description, whose problems are reported already
    if document is None or "network" not in document.data:
        described = {} if description is None else description.inputs
        if {*inputs, *described} - {"runtime"}:
            raise InputError("the layers are a table, which takes no inputs but 'runtime'", "leave 'inputs' out, or describe a 'network'")
        _check_inputs(NetworkInputs, document, described, inputs)
        return _read_layer_table(folder / "layers.csv")
    if (folder / "layers.csv").exists():
        what = "the layers are given twice: by 'network' here and by layers.csv"
        raise InputError.from_problems([document.make_problem(("network",), what, "remove one of them")])
    if description is None or description.network is None:
        return LayerArrays.from_rows([])  # the problems of the architecture are reported already
    return _compute_layers(description.network, document, description.inputs, inputs)


def _compute_layers(
    network: Architecture, document: YamlDocument, described_inputs: Mapping[str, object], inputs: Mapping[str, object]
) -> LayerArrays:
    """Compute the layers of an architecture on the described inputs, of which `inputs` replace some."""
    model, problems = type(network).inputs, ProblemCollector()
    _check_inputs(model, document, described_inputs, inputs)
    with problems.collect(*document.locate(("network",))):
        return LayerArrays.from_rows(network.build_layers(model.model_validate({**described_inputs, **inputs})))
    raise InputError.from_problems(problems.problems)


def _check_inputs(
    model: type[NetworkInputs], document: YamlDocument | None, described_inputs: Mapping[str, object], inputs: Mapping[str, object]
) -> None:
    """Raise InputError for inputs, described or given, that the network does not have."""
    problems = ProblemCollector()
    with problems.collect():
        if document is not None:
            document.validate(model, dict(described_inputs), ("inputs",))
    with problems.collect():
        validate_mapping(model, dict(inputs), ("inputs",))
    problems.raise_if_any()


def _read_layer_table(path: Path) -> LayerArrays:
    rows, problems = read_rows(path, LayerRow), ProblemCollector()
    line_of: dict[str, int] = {}
    for line, row in rows:
        if row.name in line_of:
            fix = f"rename one (the first is on line {line_of[row.name]})"
            problems.add(Problem(f"layer '{row.name}' is given twice", fix, path, line))
        for column, names in (("reads", row.reads), ("adds", row.adds)):
            with problems.collect(path, line, column):
                graph.parse_reads(names or graph.NETWORK_INPUT, dict.fromkeys(line_of, 0))  # raises if a name is not that of a layer above
        line_of.setdefault(row.name, line)
    problems.raise_if_any()
    return LayerArrays.from_rows([row for _, row in rows])


def _hash_files(folder: Path, document: YamlDocument) -> dict[str, str]:
    """SHA-256 of every file of the workload, by its path in the folder."""
    patterns = ("layers.csv", VARIANT_FILES, ACCURACY_FILES, STORED_FILES, UNION_FILES)
    files = [file for pattern in patterns for file in sorted(folder.glob(pattern))]
    hashes = {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    return {"workload.yaml": document.sha256, **hashes}
