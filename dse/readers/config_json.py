"""Read config.json of a published model: the layers follow from its sizes by formula, nothing is downloaded or run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from dse.base.errors import InputError, Problem, did_you_mean
from dse.base.input_file import check_regular
from dse.base.strict_model import explain_validation_error, validate_mapping
from dse.networks.architecture import Architecture
from dse.networks.registry import ARCHITECTURES
from dse.readers.parsed_network import NetworkState, ParsedNetwork, operators_of_layers

Config = dict[str, Any]  # the keys of config.json, or those that an architecture uses

# Values that the formulas assume (for some keys by model_type), and that a configuration may contradict.
_ASSUMED = {
    "enable_bias": True, "qkv_bias": True, "tie_word_embeddings": {"gpt2": True, "opt": True}, "downsample_in_first_stage": False,
    "downsample_in_bottleneck": False, "num_block_repeats": [1, 2, 2, 3, 3, 4, 1], "out_channels": [16, 24, 40, 80, 112, 192, 320],
}  # fmt: skip


def read_config(path: Path, inputs: Mapping[str, object]) -> ParsedNetwork:
    """Compute the layers of a configuration for `inputs`; raises InputError."""
    config = _read_json(path)
    architecture = _parse_architecture(path, config)
    rows = tuple(architecture.build_layers(validate_mapping(type(architecture).inputs, dict(inputs), ("inputs",))))
    notes = (_note_defaults(path, architecture), _note_contradictions(path, config), _note_unused(path, config, architecture))
    return ParsedNetwork(
        path, "config.json", rows, (NetworkState({}),), operators_of_layers(rows), notes=tuple(filter(None, notes)),
        architecture=architecture,
    )  # fmt: skip


def read_quantization(path: Path) -> Config:
    """The key `quantization_config` of a configuration, or an empty one; raises InputError."""
    quantization = _read_json(path).get("quantization_config")
    return quantization if isinstance(quantization, dict) else {}


def _read_json(path: Path) -> Config:
    check_regular(path)
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", "give a config.json", path, getattr(error, "lineno", None)) from error
    if not isinstance(config, dict):
        raise InputError("not a configuration", "give a config.json with a model_type in it", path)
    return config


def _parse_architecture(path: Path, config: Config) -> Architecture:
    architectures = {name: model for model in ARCHITECTURES for name in get_args(model.model_fields["model_type"].annotation)}
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in architectures:
        raise InputError(f"model_type '{model_type}' is not known", did_you_mean(model_type, architectures), path)
    model = architectures[model_type]
    try:
        return model.model_validate(_sizes(config, model))
    except ValidationError as error:
        raise InputError.from_problems(
            Problem(what, fix, path, key=".".join(map(str, loc))) for loc, what, fix in explain_validation_error(model, error)
        ) from error


def _sizes(config: Config, model: type[Architecture]) -> Config:
    """The keys of a configuration that its architecture uses, those included that follow from other keys."""
    derived = dict(config)
    if isinstance(labels := config.get("id2label"), dict):
        derived.setdefault("num_labels", len(labels))
    if config.get("model_type") == "deit":
        derived.setdefault("distilled", True)  # the reference implementation always has the second token
    if "num_experts" in model.model_fields and "num_local_experts" in config:
        derived.setdefault("num_experts", config["num_local_experts"])  # its name since Transformers 5
    if config.get("use_sliding_window") is False:
        derived.pop("sliding_window", None)
    used = {key: value for key, value in derived.items() if key in model.model_fields and value is not None}
    parts = {key: part for key, value in used.items() if isinstance(value, dict) and (part := _part(model, key)) is not None}
    return used | {key: _sizes(used[key], part) for key, part in parts.items()}


def _part(model: type[Architecture], key: str) -> type[Architecture] | None:
    """The architecture of a part of a network, if `key` has its configuration."""
    kinds = (model.model_fields[key].annotation, *get_args(model.model_fields[key].annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Architecture)), None)


def _note_defaults(path: Path, architecture: Architecture) -> str:
    """Sizes that the configuration leaves out."""
    defaults = _defaults(architecture)
    listed = ", ".join(f"{key} {value}" for key, value in defaults.items())
    return f"what {path.name} leaves out: {listed}" if defaults else ""


def _defaults(architecture: Architecture) -> Config:
    """Sizes that were not given, those of parts by dotted names."""
    dumped = architecture.model_dump(exclude=architecture.model_fields_set)
    defaults = {key: value for key, value in dumped.items() if value is not None}
    for key in architecture.model_fields_set:
        if isinstance(part := getattr(architecture, key), Architecture):
            defaults |= {f"{key}.{name}": value for name, value in _defaults(part).items()}
    return defaults


def _note_contradictions(path: Path, config: Config) -> str:
    """Values that differ from those that the formulas assume."""
    different = []
    for key, value in _ASSUMED.items():
        assumed = value.get(config["model_type"], config.get(key)) if isinstance(value, dict) else value
        if key in config and config[key] != assumed:
            different.append(f"{key} {config[key]} (taken as {assumed})")
    return f"{path.name} differs from the formulas: {', '.join(different)}" if different else ""


def _note_unused(path: Path, config: Config, architecture: Architecture) -> str:
    """Keys that the layers do not depend on."""
    unused = sorted(_unused(config, _sizes(config, type(architecture))))
    return f"keys of {path.name} that the layers do not depend on: {', '.join(unused)}" if unused else ""


def _unused(config: Config, sizes: Config) -> list[str]:
    """Keys of a configuration that are not among its sizes, those of parts by dotted names."""
    nested = {key for key, value in sizes.items() if isinstance(value, dict)}
    return [*(config.keys() - sizes.keys()), *(f"{key}.{name}" for key in nested for name in _unused(config[key], sizes[key]))]
