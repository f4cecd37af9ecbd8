"""What the schemas share: frozen parts that refuse unknown keys, and errors that say what to write instead."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from dse.base.errors import InputError, Problem, did_you_mean

KeyPath = tuple[Any, ...]

MAX_EXPLAINED = 100

# What pydantic calls a mistake -> what to write instead.
_FIXES = {
    "string_type": "write text",
    "dict_type": "write a mapping, 'key: value' on lines of its own",
    "model_type": "write a mapping, 'key: value' on lines of its own",
    "list_type": "write a list, as in '[a, b]'",
    "tuple_type": "write a list, as in '[a, b]'",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "finite_number": "write a finite number",
    "too_short": "write at least one",
    "too_long": "write fewer",
    "string_too_short": "write some text",
    "union_tag_not_found": "say of which kind, as in '{kind: csr}'",
    "string_pattern_mismatch": "write letters, digits and '_' (lower case in a key)",
}
_BOUNDS = {"greater_than": "above", "greater_than_equal": "of at least", "less_than": "below", "less_than_equal": "of at most"}


class StrictModel(BaseModel):
    """A piece of a description."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def field_error(what: str, fix: str) -> PydanticCustomError:
    """An error for a validator to raise, in two halves: what is wrong, what to write instead."""
    return PydanticCustomError("dse", "{what}; {fix}", {"what": what, "fix": fix})


def nested_field_errors(title: str, refusals: list[tuple[KeyPath, PydanticCustomError]]) -> ValidationError:
    """An error for a validator to raise about places inside the part that it validates."""
    details = [InitErrorDetails(type=error, loc=loc, input=None) for loc, error in refusals]
    return ValidationError.from_exception_data(title, details)


def explain_validation_error(model: type[BaseModel], error: ValidationError) -> list[tuple[KeyPath, str, str]]:
    """Each mistake in `error` (of very many the first) as its place, what is wrong, and what to write instead."""
    items = [item for item in error.errors(include_url=False) if not _follows(item)]
    found = [(item["loc"], *_explain(model, item)) for item in items[:MAX_EXPLAINED]]
    if len(items) > MAX_EXPLAINED:
        found.append(((), f"{len(items)} problems, of which {MAX_EXPLAINED} are listed", "fix these first"))
    return found


Model = TypeVar("Model", bound=BaseModel)


def validate_mapping(model: type[Model], data: Any, below: KeyPath = ()) -> Model:
    """`data` that stands in no file, but at the place `below`, as `model`; raises InputError with every problem."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError.from_problems(
            Problem(what, fix, key=".".join(map(str, (*below, *loc)))) for loc, what, fix in explain_validation_error(model, error)
        ) from error


def _follows(item: Any) -> bool:
    """Whether a mistake only follows from another one, which is told: all items of a list wrong, a format whose
    pattern is."""
    return item["type"] == "default_factory_not_called" or (item["type"] == "too_short" and bool(item["input"]))


def _explain(model: type[BaseModel], item: Any) -> tuple[str, str]:
    loc, kind, context, shown = item["loc"], item["type"], item.get("ctx", {}), _short(item["input"])
    explain: dict[str, Callable[[], tuple[str, str]]] = {
        "dse": lambda: (context["what"], context["fix"]),
        "extra_forbidden": lambda: (f"unknown key '{loc[-1]}'", did_you_mean(loc[-1], _known_keys(model, loc[:-1]))),
        "missing": lambda: (f"'{loc[-1]}' is missing", f"add '{loc[-1]}: {_example(model, loc)}'"),
        "literal_error": lambda: (f"'{shown}' is not known here", f"write one of {context['expected']}"),
        "union_tag_invalid": lambda: (f"'{context['tag']}' is not known here", f"write one of {context['expected_tags']}"),
    }
    if kind in explain:
        return explain[kind]()
    if kind in _BOUNDS:
        return f"{shown} is out of range", f"write a number {_BOUNDS[kind]} {next(iter(context.values())):g}"
    return f"'{shown}' cannot stand here ({item['msg']})", _FIXES.get(kind, "see 'dse schema'")


def _short(value: Any) -> str:
    try:
        text = str(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number of too many digits"
    return text if len(text) <= 40 else text[:37] + "..."


def _known_keys(model: type[BaseModel], loc: KeyPath) -> list[str]:
    return sorted({key for node in _nodes(model, loc) for key in node.get("properties", {})})


def _example(model: type[BaseModel], loc: KeyPath) -> str:
    examples = [str(node["examples"][0]) for node in _nodes(model, loc) if node.get("examples")]
    return examples[0] if examples else "..."


@cache
def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _nodes(model: type[BaseModel], loc: KeyPath) -> list[dict[str, Any]]:
    """The nodes of the JSON Schema that may describe `loc`."""
    root = _json_schema(model)
    nodes = _alternatives(root, root)
    for part in loc:
        below = [child for node in nodes for child in _children(node, part)]
        nodes = [alternative for child in below for alternative in _alternatives(root, child)] or nodes
    return nodes


def _children(node: dict[str, Any], part: Any) -> list[dict[str, Any]]:
    if isinstance(part, int):
        return [node["items"]] if isinstance(node.get("items"), dict) else []
    named, patterned = node.get("properties", {}), node.get("patternProperties", {})
    found = [named[part]] if part in named else [*patterned.values(), node.get("additionalProperties")]
    return [child for child in found if isinstance(child, dict)]


def _alternatives(root: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    """`node` with references followed and unions opened."""
    if "$ref" in node:
        return _alternatives(root, root["$defs"][node["$ref"].rsplit("/", 1)[-1]])
    options = [option for key in ("anyOf", "oneOf", "allOf") for option in node.get(key, ())]
    return [node] + [found for option in options for found in _alternatives(root, option)]
