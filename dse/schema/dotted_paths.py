"""Dotted paths such as `memory.dram.bandwidth`, which name the parts of a description."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from dse.base.units import Quantity


def has_child(part: object, name: str) -> bool:
    """Whether a part of a description has a named child (see `children`)."""
    if isinstance(part, BaseModel):
        return not isinstance(part, Quantity) and name in type(part).model_fields
    return isinstance(part, Mapping) and name in part


def children(part: object) -> Mapping[str, object]:
    """The named children of a mapping or a schema; a quantity, a pattern or a plain value has none."""
    if isinstance(part, BaseModel) and not isinstance(part, Quantity):
        return {name: getattr(part, name) for name in type(part).model_fields}
    return part if isinstance(part, Mapping) else {}


def leaf_paths(part: object, prefix: str) -> Iterator[str]:
    """The dotted path of every part at or below `part` that has no children."""
    named = children(part)
    if not named and not isinstance(part, Mapping):
        yield prefix
    for name, child in named.items():
        yield from leaf_paths(child, f"{prefix}.{name}")


def set_value(data: object, path: Sequence[str], value: object) -> dict[str, object]:
    """A copy of nested mappings with `value` at `path`; mappings on the way are added where they are missing."""
    head, *rest = path
    mapping = data if isinstance(data, Mapping) else {}
    return {**mapping, head: set_value(mapping.get(head), rest, value) if rest else value}
