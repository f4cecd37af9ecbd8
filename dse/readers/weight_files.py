"""Files of weights or masks: one network state a folder, `METHOD/SPARSITY/...` where there are several."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.input_file import check_regular
from dse.networks.layers import LayerRow
from dse.readers import named_tensors, numpy_files, safetensors, smtx
from dse.readers.parsed_network import NamedTensors, NetworkState, ParsedNetwork, WeightTensor
from dse.readers.pytorch import checkpoint as torch_weights

READERS: dict[str, Callable[[Path], NamedTensors]] = {
    ".smtx": lambda path: NamedTensors({path.stem: smtx.weights(path)}),
    ".npz": lambda path: NamedTensors(numpy_files.weights(path), ordered=True),
    ".npy": lambda path: NamedTensors(numpy_files.weights(path)),
    ".safetensors": lambda path: NamedTensors(safetensors.weights(path)),
    ".pt": torch_weights.read,
    ".pth": torch_weights.read,
    ".bin": torch_weights.read,
}


def within(path: Path) -> list[Path]:
    """The files of weights in a folder and below it."""
    return sorted(file for file in path.rglob("*") if file.is_file() and file.suffix.lower() in READERS)


def source(path: Path) -> ParsedNetwork:
    """Every tensor in a file or below a folder; raises InputError with what is wrong in any of them."""
    if path.is_file():
        return named_tensors.source(path, path.suffix[1:].lower(), READERS[path.suffix.lower()](path))
    folders: dict[Path, list[Path]] = {}
    for file in within(path):
        folders.setdefault(file.parent, []).append(file)
    problems, parts = ProblemCollector(), {}
    for folder, files in folders.items():
        with problems.collect(folder):
            parts[folder] = named_tensors.source(folder, "folder of weights", gathered(files))
    problems.raise_if_any()
    states = tuple(_state(folder, part, len(parts)) for folder, part in parts.items())
    most = max(parts.values(), key=lambda part: len(part.layers))
    layers = _common(path, parts, most)
    return ParsedNetwork(path, "folder of weights", layers, states, most.operators, most.shared, most.notes, parameters=most.parameters)


def gathered(files: list[Path]) -> NamedTensors:
    """The tensors of several files, such as shards; raises InputError with every broken file, and where a name comes twice."""
    problems, shared = ProblemCollector(), ()
    found: dict[str, WeightTensor] = {}
    where: dict[str, Path] = {}
    for file in files:
        with problems.collect(file):
            check_regular(file)
            part = READERS[file.suffix.lower()](file)
            for name in part.weights.keys() & found.keys():
                fix = "keep one of them, or give each network state a folder of its own"
                problems.add(Problem(f"'{name}' is in {where[name].name} as well", fix, file))
            where |= dict.fromkeys(part.weights, file)
            found.update(part.weights)
            shared += part.shared
    problems.raise_if_any()
    return NamedTensors(found, shared)


def indexed(index: Path) -> NamedTensors:
    """The tensors that an index (`*.index.json`) names, from all its shards; raises InputError."""
    check_regular(index)
    try:
        named = {str(name): index.parent / Path(shard).name for name, shard in json.loads(index.read_bytes())["weight_map"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError("not an index of shards", "give the .index.json that came with them", index) from error
    shards = sorted(set(named.values()))
    if unknown := [shard for shard in shards if shard.suffix.lower() not in READERS]:
        raise InputError(f"'{unknown[0].name}' is no shard", "give the .index.json that came with them", index)
    found = gathered(shards)
    if missing := sorted(named.keys() - found.weights.keys()):
        raise InputError(f"no shard has '{missing[0]}'", "give the shards that came with the index", index)
    return found


def _state(folder: Path, part: ParsedNetwork, states: int) -> NetworkState:
    """Named by its folders: 'magnitude_pruning/0.5'."""
    weights = part.states[0].weights
    try:
        sparsity = float(folder.resolve().name)
    except ValueError:
        return NetworkState(weights, method=folder.name if states > 1 else None)
    if not 0 <= sparsity <= 1:
        raise InputError(f"the folder's name, {folder.name}, is no sparsity", "rename it to a number from 0 to 1", folder)
    return NetworkState(weights, method=folder.resolve().parent.name, sparsity=sparsity)


def _common(path: Path, parts: Mapping[Path, ParsedNetwork], most: ParsedNetwork) -> tuple[LayerRow, ...]:
    """The layers of all states, which must be of one network, in the order of the state that has most."""
    found: dict[str, tuple[LayerRow, Path]] = {}
    problems = ProblemCollector()
    for folder, part in parts.items():
        for row in part.layers:
            known, where = found.setdefault(row.name, (row, folder))
            if (known.m, known.k) != (row.m, row.k):
                what = f"layer '{row.name}' is {row.m:g} x {row.k:g}, but {known.m:g} x {known.k:g} in {where.relative_to(path)}"
                problems.add(Problem(what, "trace one network at a time", folder))
    problems.raise_if_any()
    return tuple(found[name][0] for name in dict.fromkeys([*(row.name for row in most.layers), *found]))
