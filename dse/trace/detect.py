"""Choose the reader for a path, by the ending of a file or the contents of a folder, and normalise what it returns.

`match_workload` gives the layers of a workload, which says how often each runs, the weights of a file.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dse.base.errors import InputError, ProblemCollector
from dse.base.input_file import check_regular
from dse.networks.layers import WITH_WEIGHTS, LayerArrays, LayerRow, make_layer_row
from dse.readers.config_json import read_config, read_quantization
from dse.readers.layer_matching import match_network
from dse.readers.layer_table import read_layer_table
from dse.readers.named_tensors import network_from_tensors
from dse.readers.onnx import read_onnx
from dse.readers.parsed_network import NetworkState, ParsedNetwork, Shape, check_weight_size, operators_of_layers
from dse.readers.pytorch.network import read_exported_program
from dse.readers.weight_files import TENSOR_READERS, list_weight_files, merge_files, read_shards, read_weights
from dse.workload.workload import Workload


@dataclass(frozen=True)
class ReaderOptions:
    """Sizes that a file may leave open."""

    shape: Shape | None = None  # of the first input of a graph
    inputs: Mapping[str, object] = field(default_factory=dict)  # of a network whose layers are computed by formula


def parse_network(path: Path, options: ReaderOptions | None = None) -> ParsedNetwork:
    """Read the network at `path`; raises InputError."""
    problems = ProblemCollector()
    with problems.collect(path):
        try:
            network = _read(path, options or ReaderOptions())
        except OSError as error:
            reason = (error.strerror or "cannot be read").lower()
            raise InputError(reason, "give a path that can be read", Path(error.filename or path)) from error
        _check_sizes(network)
        return _complete_parameters(_rename_layers(network))
    raise InputError.from_problems(problems.problems)


def _read(path: Path, options: ReaderOptions) -> ParsedNetwork:
    if not path.exists():
        raise InputError("no such file or folder", "give the path of a network", path)
    if path.is_dir():
        return _read_folder(path, options)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"no reader for '{path.suffix}'", f"give a folder, or a file that ends in one of {', '.join(READERS)}", path)
    check_regular(path)
    if path.stat().st_size == 0:
        raise InputError("the file is empty", "give the whole file", path)
    return reader(path, options)


def _read_folder(path: Path, options: ReaderOptions) -> ParsedNetwork:
    if (path / "workload.yaml").exists():
        raise InputError("this is a workload already", "sweep it as it is, or give a network to trace", path)
    if (path / "config.json").exists():
        return _read_published_model(path, options)
    if indices := sorted(path.glob("*.index.json")):
        return _read_index(indices[0])
    if list_weight_files(path):
        return read_weights(path)
    raise InputError("nothing in this folder can be read", "give one with masks, weights or a config.json", path)


def _read_published_model(path: Path, options: ReaderOptions) -> ParsedNetwork:
    """A folder with config.json, which gives the layers, and files of weights, which give the masks."""
    network, quantization = read_config(path / "config.json", options.inputs), read_quantization(path / "config.json")
    if indices := sorted(path.glob("*.index.json")):
        return match_network(network, _read_index(indices[0], quantization))
    files = [file for file in list_weight_files(path) if file.parent == path]
    files = [file for file in files if file.suffix == ".safetensors"] or files  # the same weights are often there in two formats
    if not files:
        return network
    return match_network(network, network_from_tensors(path, "folder of a model", merge_files(files), quantization))


def _read_index(index: Path, quantization: Mapping[str, object] | None = None) -> ParsedNetwork:
    return network_from_tensors(index.parent, "shards", read_shards(index), quantization)


def _read_json(path: Path, options: ReaderOptions) -> ParsedNetwork:
    return _read_index(path) if path.name.endswith(".index.json") else read_config(path, options.inputs)


READERS: dict[str, Callable[[Path, ReaderOptions], ParsedNetwork]] = {
    ".onnx": lambda path, options: read_onnx(path, options.shape),
    ".pt2": lambda path, options: read_exported_program(path),
    ".json": _read_json,
    **dict.fromkeys((".csv", ".yaml", ".yml"), lambda path, options: read_layer_table(path)),
    **dict.fromkeys(TENSOR_READERS, lambda path, options: read_weights(path)),
}


def _check_sizes(network: ParsedNetwork) -> None:
    """Raise InputError with every layer whose weights are too large to be counted."""
    problems = ProblemCollector()
    for state in network.states:
        for name, weights in state.weights.items():
            with problems.collect(network.path, key=name):
                check_weight_size(weights.shape)
    problems.raise_if_any()


def _rename_layers(network: ParsedNetwork) -> ParsedNetwork:
    """Give the layers unique names that a table can hold."""
    uses, rows, new_names, problems = Counter[str](), list[LayerRow](), dict[str, str](), ProblemCollector()
    for row in network.layers:
        name = _printable_name(row.name)
        uses[name] += 1
        name = name if uses[name] == 1 else f"{name}#{uses[name]}"
        with problems.collect(network.path):
            rows.append(make_layer_row(**{**dict(row), "name": name}))
        if row.name not in new_names or row.kind in WITH_WEIGHTS:  # a product of activations may have the name of a layer with weights
            new_names[row.name] = name
    problems.raise_if_any()
    states = tuple(
        replace(
            state,
            weights={new_names[name]: weights for name, weights in state.weights.items()},
            nonzeros={new_names[name]: nonzeros for name, nonzeros in state.nonzeros.items()},
        )
        for state in network.states
    )
    shared = tuple(tuple(new_names.get(name, name) for name in group) for group in network.shared)
    return replace(network, layers=tuple(rows), states=states, shared=shared)


def _printable_name(name: str) -> str:
    """The name on one line, without control characters and lone surrogates, and never empty."""
    printable = "".join(letter if letter == " " or (letter.isprintable() and not letter.isspace()) else "_" for letter in name)
    return " ".join(printable.split()) or "unnamed"


def _complete_parameters(network: ParsedNetwork) -> ParsedNetwork:
    """Count shared weights for one layer only, and add a row (that moves nothing) for the parameters that belong to no layer."""
    if not any(row.kind in WITH_WEIGHTS for row in network.layers):
        raise InputError("it has no layer with weights", "see that it is the network, and not a part of it", network.path)
    borrowers = {name for group in network.shared for name in group[1:]}
    rows = tuple(row.model_copy(update={"own_weights": False}) if row.name in borrowers else row for row in network.layers)
    others = (network.parameters or 0) - LayerArrays.from_rows(list(rows)).parameters
    if others > 0:
        rows += (make_layer_row(name="other_parameters", kind="elementwise", input_elements=0, output_elements=0, other_parameters=others),)
    return replace(network, layers=rows)


def match_workload(workload: Workload, network: ParsedNetwork) -> ParsedNetwork:
    """The layers of a workload with the weights of a network, matched by name and shape; raises InputError."""
    rows, note = tuple(workload.layers.to_rows()), f"layers: as in the workload {workload.description.name}"
    layers = ParsedNetwork(
        workload.folder, "workload", rows, (NetworkState({}),), operators_of_layers(rows), notes=(note,),
        architecture=workload.description.network,
    )  # fmt: skip
    return match_network(layers, network)
