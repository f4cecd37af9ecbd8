"""The JSON Schema that editors use: every property of every kind is described, with the unit of a quantity and a valid example."""

from collections.abc import Iterator
from typing import Any, get_args

import jsonschema
import pytest

from dse.base.units import Quantity
from dse.schema.json_schema import Kind, json_schema

KINDS: tuple[Kind, ...] = get_args(Kind)


def properties(node: object, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property anywhere in a schema, with its place."""
    for key, child in node.items() if isinstance(node, dict) else ():
        if key == "properties":
            yield from ((f"{path}/{name}", described) for name, described in child.items())
        yield from properties(child, f"{path}/{key}")
    for index, child in enumerate(node if isinstance(node, list) else ()):
        yield from properties(child, f"{path}/{index}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_property_has_a_description(kind):
    described = list(properties(json_schema(kind)))
    assert len(described) > 50
    assert [place for place, node in described if len(node.get("description", "")) < 8] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_property_has_an_example_that_is_valid(kind):
    schema = json_schema(kind)
    for place, node in properties(schema):
        assert node.get("examples"), place
        for example in node["examples"]:
            jsonschema.Draft202012Validator({**node, "$defs": schema["$defs"]}).validate(example)


def quantity_kinds(kind: type[Quantity] = Quantity) -> Iterator[type[Quantity]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from quantity_kinds(narrower)


@pytest.mark.parametrize("kind", KINDS)
def test_every_quantity_states_its_unit(kind):
    """References to a quantity with a unit are found by the names of its classes, independently of the schema's own keyword."""
    units = {f"#/$defs/{quantity.__name__}": quantity.unit for quantity in quantity_kinds() if quantity.unit}
    for place, node in properties(json_schema(kind)):
        options = [node, *node.get("anyOf", ()), *node.get("patternProperties", {}).values()]
        for unit in {units[option["$ref"]] for option in options if option.get("$ref") in units}:
            assert node["description"].endswith(f" [{unit}]"), place


def test_a_bandwidth_as_an_editor_shows_it():
    bandwidth = json_schema("accelerator")["$defs"]["Memory"]["properties"]["bandwidth"]
    assert bandwidth["description"] == (
        "rate of reads and writes, which the outermost level needs; it may follow from 'channels', 'width' and 'rate' [B/s]"
    )
    assert bandwidth["examples"] == ["2039 GB/s"]
