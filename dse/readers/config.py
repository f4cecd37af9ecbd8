"""config.json of a published model: the layers follow from its sizes by arithmetic, nothing is downloaded or run."""

import json
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from dse.errors import BadInput, Problem, suggestion
from dse.network.architecture import Architecture, Inputs
from dse.network.family import FAMILIES
from dse.readers.source import Source, State, understood
from dse.schema import checked, explained


def network(path: Path) -> tuple[Architecture, tuple[str, ...]]:
    """The architecture that a configuration describes, and the keys in it that layers don't depend on; raises BadInput."""
    config = _read(path)
    kinds = {name: family for family in FAMILIES for name in get_args(family.model_fields["model_type"].annotation)}
    kind = config.get("model_type")
    if kind not in kinds:
        raise BadInput([Problem(f"model_type '{kind}' is not known", suggestion(kind, kinds), path)])
    family = kinds[kind]
    sizes = {key: value for key, value in _derived(config).items() if key in family.model_fields and value is not None}
    try:
        return family.model_validate(sizes), tuple(sorted(config.keys() - sizes.keys()))
    except ValidationError as error:
        raise BadInput(Problem(what, fix, path, path=".".join(map(str, loc))) for loc, what, fix in explained(family, error)) from error


def source(path: Path, inputs: dict[str, Any]) -> Source:
    """The layers of a configuration, run on `inputs`; raises BadInput."""
    found, ignored = network(path)
    asked: Inputs = checked(type(found).inputs, inputs, ("inputs",))
    rows = tuple(found.rows(asked))
    notes = (f"not used of {path.name}: {', '.join(ignored)}",) if ignored else ()
    return Source(path, "config.json", rows, (State({}),), understood(rows), notes=notes, network=found)


def _read(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, OSError) as error:
        raise BadInput([Problem(f"not JSON: {error}", "give a config.json", path, getattr(error, "lineno", None))]) from error
    if not isinstance(config, dict):
        raise BadInput([Problem("not a configuration", "give a config.json with a model_type in it", path)])
    return config


def _derived(config: dict[str, Any]) -> dict[str, Any]:
    """What configurations say in other words."""
    derived = dict(config)
    if isinstance(labels := config.get("id2label"), dict):
        derived.setdefault("num_labels", len(labels))
    if config.get("model_type") == "deit":
        derived.setdefault("distilled", True)  # the reference implementation always has the second token
    return derived
