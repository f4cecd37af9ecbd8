"""Read files of weights or masks: one file or folder is one network state, `METHOD/SPARSITY/...` are several."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.input_file import check_regular
from dse.networks.layers import LayerRow
from dse.readers.named_tensors import network_from_tensors
from dse.readers.numpy_files import read_numpy
from dse.readers.parsed_network import NamedTensors, NetworkState, ParsedNetwork, WeightTensor
from dse.readers.pytorch.checkpoint import read_checkpoint
from dse.readers.safetensors import read_safetensors
from dse.readers.smtx import read_smtx

TENSOR_READERS: dict[str, Callable[[Path], NamedTensors]] = {
    ".smtx": read_smtx,
    ".npz": read_numpy,
    ".npy": read_numpy,
    ".safetensors": read_safetensors,
    ".pt": read_checkpoint,
    ".pth": read_checkpoint,
    ".bin": read_checkpoint,
}


def read_tensors(file: Path) -> NamedTensors:
    """Read one file by the ending of its name; raises InputError."""
    return TENSOR_READERS[file.suffix.lower()](file)


def list_weight_files(folder: Path) -> list[Path]:
    """The files of weights in a folder and below it."""
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix.lower() in TENSOR_READERS)


def read_weights(path: Path) -> ParsedNetwork:
    """Read one file, or all files below a folder, as a network; raises InputError with the problems of all files."""
    if path.is_file():
        return network_from_tensors(path, path.suffix[1:].lower(), read_tensors(path))
    files_by_folder: dict[Path, list[Path]] = {}
    for file in list_weight_files(path):
        files_by_folder.setdefault(file.parent, []).append(file)
    problems, networks = ProblemCollector(), {}
    for folder, files in files_by_folder.items():
        with problems.collect(folder):
            networks[folder] = network_from_tensors(folder, "folder of weights", merge_files(files))
    problems.raise_if_any()
    states = tuple(_network_state(folder, network, len(networks)) for folder, network in networks.items())
    largest = max(networks.values(), key=lambda network: len(network.layers))
    return ParsedNetwork(
        path, "folder of weights", _merge_layers(path, networks, largest), states, largest.operators, largest.shared, largest.notes,
        parameters=largest.parameters,
    )  # fmt: skip


def merge_files(files: list[Path]) -> NamedTensors:
    """The tensors of several files, such as shards; raises InputError with the problems of all files, and if two have one name."""
    problems, shared = ProblemCollector(), ()
    tensors: dict[str, WeightTensor] = {}
    file_of: dict[str, Path] = {}
    for file in files:
        with problems.collect(file):
            check_regular(file)
            named = read_tensors(file)
            for name in named.tensors.keys() & tensors.keys():
                fix = "keep one of them, or give each network state its own folder"
                problems.add(Problem(f"'{name}' is in {file_of[name].name} as well", fix, file))
            file_of |= dict.fromkeys(named.tensors, file)
            tensors.update(named.tensors)
            shared += named.shared
    problems.raise_if_any()
    return NamedTensors(tensors, shared)


def read_shards(index: Path) -> NamedTensors:
    """The tensors of all shards that an index (`*.index.json`) lists; raises InputError."""
    check_regular(index)
    try:
        shard_of = {str(name): index.parent / Path(shard).name for name, shard in json.loads(index.read_bytes())["weight_map"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError("not an index of shards", "give the .index.json that came with them", index) from error
    shards = sorted(set(shard_of.values()))
    if unknown := [shard for shard in shards if shard.suffix.lower() not in TENSOR_READERS]:
        raise InputError(f"'{unknown[0].name}' is not a shard", "give the .index.json that came with them", index)
    named = merge_files(shards)
    if missing := sorted(shard_of.keys() - named.tensors.keys()):
        raise InputError(f"no shard has '{missing[0]}'", "give the shards that came with the index", index)
    return named


def _network_state(folder: Path, network: ParsedNetwork, states: int) -> NetworkState:
    """The state of one folder: its name is the nominal sparsity, that of the folder above the method; else its name is the method."""
    weights = network.states[0].weights
    try:
        sparsity = float(folder.resolve().name)
    except ValueError:
        return NetworkState(weights, method=folder.name if states > 1 else None)
    if not 0 <= sparsity <= 1:
        raise InputError(f"the folder's name, {folder.name}, is not a sparsity", "rename it to a number from 0 to 1", folder)
    return NetworkState(weights, method=folder.resolve().parent.name, sparsity=sparsity)


def _merge_layers(path: Path, networks: Mapping[Path, ParsedNetwork], largest: ParsedNetwork) -> tuple[LayerRow, ...]:
    """The layers of all states, in the order of the largest; raises InputError if they are not of one network."""
    rows: dict[str, tuple[LayerRow, Path]] = {}
    problems = ProblemCollector()
    for folder, network in networks.items():
        for row in network.layers:
            first, first_folder = rows.setdefault(row.name, (row, folder))
            if (first.m, first.k) != (row.m, row.k):
                sizes = f"{row.m:g} x {row.k:g}, but {first.m:g} x {first.k:g} in {first_folder.relative_to(path)}"
                problems.add(Problem(f"layer '{row.name}' is {sizes}", "trace one network at a time", folder))
    problems.raise_if_any()
    return tuple(rows[name][0] for name in dict.fromkeys([*(row.name for row in largest.layers), *rows]))
