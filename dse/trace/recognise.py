"""Which reader a path needs."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dse.errors import BadInput, Collector, Problem
from dse.readers import config, masks, matching, safetensors_file, table, tensors
from dse.readers.onnx import graph as onnx_graph
from dse.readers.pytorch import graph as torch_graph
from dse.readers.pytorch import weights as torch_weights
from dse.readers.source import Operator, Source, Weights


@dataclass(frozen=True)
class Hints:
    """What a file may not say by itself."""

    shape: tuple[int, ...] | None = None  # of the first input of a graph
    inputs: dict[str, Any] = field(default_factory=dict)  # of a network made by formulas


def read(path: Path, hints: Hints) -> Source:
    """The network at `path`, by the ending of its name or the contents of a folder; raises BadInput."""
    if not path.exists():
        raise BadInput([Problem("no such file or folder", "give the path of a network", path)])
    if path.is_dir():
        return _folder(path, hints)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise BadInput([Problem(f"no reader for '{path.suffix}'", f"give a folder, or a file that ends in one of {known}", path)])
    if path.stat().st_size == 0:
        raise BadInput([Problem("the file is empty", "give the whole file", path)])
    return reader(path, hints)


def _folder(path: Path, hints: Hints) -> Source:
    if (path / "workload.yaml").exists():
        raise BadInput([Problem("this is a workload already", "sweep it as it is, or give a network to trace", path)])
    found = {file.suffix for file in path.rglob("*")}
    if (path / "config.json").exists():
        return _published(path, hints)
    if indices := sorted(path.glob("*.safetensors.index.json")):
        return _safetensors(indices[0], hints)
    if ".safetensors" in found:
        return tensors.source(path, "safetensors", _shards(path))
    if found & masks.READERS.keys():
        return masks.source(path)
    raise BadInput([Problem("nothing in this folder can be read", "give one with masks, safetensors or a config.json", path)])


def _shards(path: Path) -> dict[str, Weights]:
    problems, found = Collector(), {}
    for file in sorted(path.glob("*.safetensors")):
        with problems.at():
            found |= safetensors_file.weights(file)
    problems.raise_all()
    return found


def _published(path: Path, hints: Hints) -> Source:
    """A model's folder: sizes from config.json, masks from the weights beside it."""
    known = config.source(path / "config.json", hints.inputs)
    indices = sorted(path.glob("*.safetensors.index.json"))
    weights = safetensors_file.weights(indices[0]) if indices else _shards(path)
    if not weights:
        return known
    return on_network(known, tensors.source(path, "safetensors", weights))


def on_network(known: Source, traced: Source) -> Source:
    """The masks of `traced` on the layers of `known`, which knows how often each one runs; raises BadInput."""
    states, left = [], set()
    stored_as = known.network.stored_as if known.network else "[m, k]"
    for state in traced.states:
        weights, alone = matching.matched(known.layers, state.weights, stored_as)
        states.append(replace(state, weights=weights))
        left |= set(alone)
    if not any(state.weights for state in states):
        fix = f"give the network that they belong to; its layers are called '{known.layers[0].name}' and so on"
        raise BadInput([Problem("no tensor has the name of a layer", fix, traced.path)])
    sizes = {name: weights.shape for state in traced.states for name, weights in state.weights.items()}
    lost = [Operator("tensor", name, "skipped", _elements(sizes[name]), "belongs to no layer of the network") for name in sorted(left)]
    notes = tuple(note for note in traced.notes if note != tensors.ONCE)
    operators = (*known.operators, *(o for o in traced.operators if o.became != "layer"), *lost)
    return Source(traced.path, traced.format, known.layers, tuple(states), operators, traced.shared, known.notes + notes, known.network)


def _elements(shape: tuple[int, ...]) -> float:
    total = 1.0
    for size in shape:
        total *= size
    return total


def _safetensors(path: Path, hints: Hints) -> Source:
    return tensors.source(path, "safetensors", safetensors_file.weights(path))


def _json(path: Path, hints: Hints) -> Source:
    return _safetensors(path, hints) if path.name.endswith(".index.json") else config.source(path, hints.inputs)


def _state_dict(path: Path, hints: Hints) -> Source:
    found = torch_weights.read(path)
    return tensors.source(path, "state dict", found.weights, found.shared)


READERS: dict[str, Callable[[Path, Hints], Source]] = {
    ".csv": lambda path, hints: table.source(path),
    ".yaml": lambda path, hints: table.source(path),
    ".yml": lambda path, hints: table.source(path),
    ".smtx": lambda path, hints: masks.source(path),
    ".npz": lambda path, hints: masks.source(path),
    ".npy": lambda path, hints: masks.source(path),
    ".safetensors": _safetensors,
    ".json": _json,
    ".onnx": lambda path, hints: onnx_graph.read(path, hints.shape),
    ".pt2": lambda path, hints: torch_graph.read(path),
    ".pt": _state_dict,
    ".pth": _state_dict,
    ".bin": _state_dict,
}
