"""Which reader a path needs, and what holds for what any of them brings."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dse.base.errors import InputError, ProblemCollector
from dse.base.input_file import check_regular
from dse.networks.layers import WITH_WEIGHTS, LayerArrays, make_layer_row
from dse.readers import config_json, layer_matching, layer_table, named_tensors, weight_files
from dse.readers.onnx import read_onnx
from dse.readers.parsed_network import ParsedNetwork, check_sizes
from dse.readers.pytorch.network import read_exported_program


@dataclass(frozen=True)
class Hints:
    """What a file may not say by itself."""

    shape: tuple[int, ...] | None = None  # of the first input of a graph
    inputs: dict[str, Any] = field(default_factory=dict)  # of a network made by formulas


def read(path: Path, hints: Hints) -> ParsedNetwork:
    """The network at `path`, by the ending of its name or the contents of a folder; raises InputError."""
    problems = ProblemCollector()
    with problems.collect(path):
        try:
            return _complete(_named(_checked(_read(path, hints))))
        except OSError as error:
            reason = (error.strerror or "cannot be read").lower()
            raise InputError(reason, "give a path that can be read", Path(error.filename or path)) from error
    raise InputError.from_problems(problems.problems)


def _read(path: Path, hints: Hints) -> ParsedNetwork:
    if not path.exists():
        raise InputError("no such file or folder", "give the path of a network", path)
    if path.is_dir():
        return _folder(path, hints)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise InputError(f"no reader for '{path.suffix}'", f"give a folder, or a file that ends in one of {known}", path)
    check_regular(path)
    if path.stat().st_size == 0:
        raise InputError("the file is empty", "give the whole file", path)
    return reader(path, hints)


def _folder(path: Path, hints: Hints) -> ParsedNetwork:
    if (path / "workload.yaml").exists():
        raise InputError("this is a workload already", "sweep it is, or give a network to trace", path)
    if (path / "config.json").exists():
        return _published(path, hints)
    if indices := sorted(path.glob("*.index.json")):
        return _shards(indices[0])
    if weight_files.within(path):
        return weight_files.source(path)
    raise InputError("nothing in this folder can be read", "give one with masks, weights or a config.json", path)


def _published(path: Path, hints: Hints) -> ParsedNetwork:
    """A model's folder: sizes from config.json, masks from the weights beside it."""
    known = config_json.source(path / "config.json", hints.inputs)
    if indices := sorted(path.glob("*.index.json")):
        return layer_matching.on_network(known, _shards(indices[0]))
    beside = [file for file in weight_files.within(path) if file.parent == path]
    best = [file for file in beside if file.suffix == ".safetensors"] or beside  # the same weights are often there twice
    return layer_matching.on_network(known, named_tensors.source(path, "folder of a model", weight_files.gathered(best))) if best else known


def _shards(index: Path) -> ParsedNetwork:
    return named_tensors.source(index.parent, "shards", weight_files.indexed(index))


def _json(path: Path, hints: Hints) -> ParsedNetwork:
    return _shards(path) if path.name.endswith(".index.json") else config_json.source(path, hints.inputs)


READERS: dict[str, Callable[[Path, Hints], ParsedNetwork]] = {
    ".onnx": lambda path, hints: read_onnx(path, hints.shape),
    ".pt2": lambda path, hints: read_exported_program(path),
    ".json": _json,
    **dict.fromkeys((".csv", ".yaml", ".yml"), lambda path, hints: layer_table.source(path)),
    **dict.fromkeys(weight_files.READERS, lambda path, hints: weight_files.source(path)),
}


def _checked(source: ParsedNetwork) -> ParsedNetwork:
    """A network whose layers with weights are none larger than what can be counted; raises InputError with every other one."""
    problems = ProblemCollector()
    for state in source.states:
        for name, weights in state.weights.items():
            with problems.collect(source.path, key=name):
                check_sizes(weights.shape)
    problems.raise_if_any()
    return source


def _named(source: ParsedNetwork) -> ParsedNetwork:
    """Layers under names that a table can hold and that differ."""
    used, rows, names, problems = Counter[str](), [], {}, ProblemCollector()
    for row in source.layers:
        clean = _clean(row.name)
        used[clean] += 1
        named = {"name": clean if used[clean] == 1 else f"{clean}#{used[clean]}"}
        with problems.collect(source.path):
            rows.append(make_layer_row(**{**dict(row), **named}))
        if row.name not in names or row.kind in WITH_WEIGHTS:  # a product of activations may be called like a layer
            names[row.name] = named["name"]
    problems.raise_if_any()
    states = tuple(
        replace(s, weights={names[n]: w for n, w in s.weights.items()}, nonzeros={names[n]: z for n, z in s.nonzeros.items()})
        for s in source.states
    )
    shared = tuple(tuple(names.get(name, name) for name in group) for group in source.shared)
    return replace(source, layers=tuple(rows), states=states, shared=shared)


def _clean(name: str) -> str:
    """On one line, without control characters or halves of characters, and never empty."""
    printable = "".join(letter if letter == " " or (letter.isprintable() and not letter.isspace()) else "_" for letter in name)
    return " ".join(printable.split()) or "unnamed"


def _complete(source: ParsedNetwork) -> ParsedNetwork:
    """Weights that several layers use are one layer's own; parameters that belong to no layer stand in a row that moves nothing."""
    if not any(row.kind in WITH_WEIGHTS for row in source.layers):
        fix = "see that it is the network, and not a part of it"
        raise InputError("nothing in it became a layer with weights", fix, source.path)
    borrowed = {name for group in source.shared for name in group[1:]}
    rows = tuple(row.model_copy(update={"own_weights": False}) if row.name in borrowed else row for row in source.layers)
    rest = (source.parameters or 0) - LayerArrays.from_rows(list(rows)).parameters
    if rest > 0:
        rows += (make_layer_row(name="other_parameters", kind="elementwise", input_elements=0, output_elements=0, other_parameters=rest),)
    return replace(source, layers=rows)
