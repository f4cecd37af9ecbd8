"""config.json of a published model: the layers follow from its sizes by arithmetic, nothing is downloaded or run."""

import json
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from dse.base.errors import InputError, Problem, did_you_mean
from dse.base.input_file import check_regular
from dse.base.strict_model import explain_validation_error, validate_mapping
from dse.networks.architecture import Architecture, NetworkInputs
from dse.networks.registry import ARCHITECTURES
from dse.readers.parsed_network import NetworkState, ParsedNetwork, understood


def network(path: Path) -> tuple[Architecture, tuple[str, ...]]:
    """The architecture that a configuration describes, and the keys in it that layers don't depend on; raises InputError."""
    config = _read(path)
    kinds = {name: family for family in ARCHITECTURES for name in get_args(family.model_fields["model_type"].annotation)}
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"model_type '{kind}' is not known", did_you_mean(kind, kinds), path)
    family = kinds[kind]
    sizes = {key: value for key, value in _derived(config).items() if key in family.model_fields and value is not None}
    try:
        return family.model_validate(sizes), tuple(sorted(config.keys() - sizes.keys()))
    except ValidationError as error:
        raise InputError.from_problems(
            Problem(what, fix, path, key=".".join(map(str, loc))) for loc, what, fix in explain_validation_error(family, error)
        ) from error


# What the formulas take for granted, where configurations may say otherwise.
GRANTED = {
    "enable_bias": True, "qkv_bias": True, "tie_word_embeddings": {"gpt2": True, "opt": True}, "downsample_in_first_stage": False,
    "downsample_in_bottleneck": False, "num_block_repeats": [1, 2, 2, 3, 3, 4, 1], "out_channels": [16, 24, 40, 80, 112, 192, 320],
}  # fmt: skip


def _otherwise(path: Path) -> list[str]:
    config, differ = _read(path), []
    for key, value in GRANTED.items():
        granted = value.get(config["model_type"], config.get(key)) if isinstance(value, dict) else value
        if key in config and config[key] != granted:
            differ.append(f"{key} {config[key]} (taken as {granted})")
    return [f"otherwise in {path.name}: {', '.join(differ)}"] if differ else []


def source(path: Path, inputs: dict[str, Any]) -> ParsedNetwork:
    """The layers of a configuration, run on `inputs`; raises InputError."""
    found, ignored = network(path)
    asked: NetworkInputs = validate_mapping(type(found).inputs, inputs, ("inputs",))
    rows = tuple(found.build_layers(asked))
    usual = {key: value for key, value in found.model_dump(exclude=found.model_fields_set).items() if value is not None}
    notes = [f"assumed, since {path.name} does not say: " + ", ".join(f"{key} {value}" for key, value in usual.items())] if usual else []
    notes += _otherwise(path)
    notes += [f"not used of {path.name}: {', '.join(ignored)}"] if ignored else []
    return ParsedNetwork(path, "config.json", rows, (NetworkState({}),), understood(rows), notes=tuple(notes), network=found)


def _read(path: Path) -> dict[str, Any]:
    check_regular(path)
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", "give a config.json", path, getattr(error, "lineno", None)) from error
    if not isinstance(config, dict):
        raise InputError("not a configuration", "give a config.json with a model_type in it", path)
    return config


def _derived(config: dict[str, Any]) -> dict[str, Any]:
    """What configurations say in other words."""
    derived = dict(config)
    if isinstance(labels := config.get("id2label"), dict):
        derived.setdefault("num_labels", len(labels))
    if config.get("model_type") == "deit":
        derived.setdefault("distilled", True)  # the reference implementation always has the second token
    if config.get("use_sliding_window") is False:
        derived.pop("sliding_window", None)
    return derived
