"""The JSON Schema of each kind of description, for editors: every property has a description, its unit and an example."""

from collections.abc import Iterator
from typing import Literal

import yaml
from pydantic.json_schema import JsonSchemaValue
from yamlcore import CoreLoader

from dse.base.units import UNIT_KEYWORD
from dse.schema.accelerator import Accelerator
from dse.schema.sweep import SweepSpec
from dse.workload.schema import Description

Kind = Literal["accelerator", "workload", "sweep", "search"]
SCHEMAS: dict[Kind, type[Accelerator | Description | SweepSpec]] = {
    "accelerator": Accelerator,
    "workload": Description,
    "sweep": SweepSpec,
    "search": SweepSpec,
}
Node = JsonSchemaValue  # of a JSON Schema


def json_schema(kind: Kind) -> Node:
    """The JSON Schema of a kind of description (draft 2020-12); a search is a sweep with the key `search`."""
    schema = SCHEMAS[kind].model_json_schema()
    for node in list(_all_nodes(schema)):
        for name, child in node.get("properties", {}).items():
            node["properties"][name] = _complete(schema, child)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _all_nodes(value: object) -> Iterator[Node]:
    """Every mapping inside a schema."""
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _all_nodes(child)


def _complete(schema: Node, node: Node) -> Node:
    """A property with the unit of its quantity in its description, and with examples as values instead of YAML text."""
    unit = next(filter(None, (part.get(UNIT_KEYWORD) for part in _parts(schema, node))), "")
    description = node.get("description", "") + (f" [{unit}]" if unit else "")
    return {**node, "description": description, "examples": _examples(schema, node)}


def _parts(schema: Node, node: Node) -> Iterator[Node]:
    """The node, the members of its unions and what it refers to, and the values of a mapping with any keys."""
    yield node
    references = [schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]] if "$ref" in node else []
    options = [option for key in ("anyOf", "oneOf") for option in node.get(key, ())]
    for part in (*references, *options, *node.get("patternProperties", {}).values()):
        yield from _parts(schema, part)


def _examples(schema: Node, node: Node) -> list[object]:
    """The examples that the property or its quantity states, otherwise a value that its type allows."""
    stated = next((part["examples"] for part in _parts(schema, node) if part.get("examples")), None)
    if stated is not None:
        return [yaml.load(text, CoreLoader) if isinstance(text, str) else text for text in stated]
    if node.get("type") == "boolean":
        return [not node.get("default")]
    values = [value for part in _parts(schema, node) for value in (*part.get("enum", ()), *([part["const"]] if "const" in part else ()))]
    return [next((value for value in values if value != node.get("default")), node.get("default"))]
