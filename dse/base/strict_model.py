"""The base class of all schemas, and validation errors that say what to write instead."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from dse.base.errors import InputError, Problem, did_you_mean

Item = TypeVar("Item")
KeyPath = tuple[str | int, ...]  # keys and positions from the top of a document to a value in it

MAX_EXPLAINED = 100  # errors of one document

# By pydantic's error type: what to write instead.
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
    "union_tag_not_found": "state the kind, as in '{kind: csr}'",
    "string_pattern_mismatch": "write letters, digits and '_' (lower case in a key)",
}
_BOUNDS = {"greater_than": "above", "greater_than_equal": "of at least", "less_than": "below", "less_than_equal": "of at most"}


class StrictModel(BaseModel):
    """A frozen part of a schema that refuses unknown keys, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """A copy with other values of some fields, which are not validated; cached properties are computed again."""
        copy = super().model_copy(update=update, deep=deep)
        for name in copy.__dict__.keys() - type(self).model_fields.keys():
            vars(copy).pop(name)
        return copy


def field_error(message: str, fix: str) -> PydanticCustomError:
    """Make the error that a validator raises for its own value."""
    return PydanticCustomError("dse", "{message}; {fix}", {"message": message, "fix": fix})


@contextmanager
def validation_errors() -> Iterator[None]:
    """Raise the first problem of an InputError as a validation error, which names the field."""
    try:
        yield
    except InputError as error:
        raise field_error(error.problems[0].message, error.problems[0].fix) from error


def nested_field_errors(title: str, errors: list[tuple[KeyPath, PydanticCustomError]]) -> ValidationError:
    """Make the error that a validator raises for several keys inside its value."""
    details = [InitErrorDetails(type=error, loc=loc, input=None) for loc, error in errors]
    return ValidationError.from_exception_data(title, details)


def check_distinct(values: tuple[Item, ...]) -> tuple[Item, ...]:
    """Raise a validation error if a value is listed twice; mappings are called by their `name`."""
    for position, value in enumerate(values):
        if value in values[:position]:
            label = value.get("name") if isinstance(value, dict) else value
            raise field_error(f"'{label}' is listed twice", "list it once")
    return values


AllDifferent = AfterValidator(check_distinct)  # for lists whose items label results


def explain_validation_error(model: type[BaseModel], error: ValidationError) -> list[tuple[KeyPath, str, str]]:
    """List the errors of a validation as key path, message and fix; of very many only the first."""
    items = [item for item in error.errors(include_url=False) if not _is_consequence(item)]
    explained = [(item["loc"], *_explain(model, item)) for item in items[:MAX_EXPLAINED]]
    if len(items) > MAX_EXPLAINED:
        explained.append(((), f"{len(items)} problems, of which {MAX_EXPLAINED} are listed", "fix these first"))
    return explained


Model = TypeVar("Model", bound=BaseModel)


def validate_mapping(model: type[Model], data: object, parent: KeyPath = ()) -> Model:
    """Validate data that is in no file; raises InputError with every problem, its keys below `parent`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError.from_problems(
            Problem(message, fix, key=".".join(map(str, (*parent, *loc)))) for loc, message, fix in explain_validation_error(model, error)
        ) from error


def _is_consequence(item: ErrorDetails) -> bool:
    """Whether an error only follows from another reported one: every item of a list is invalid, or a default depends on an invalid key."""
    return item["type"] == "default_factory_not_called" or (item["type"] == "too_short" and bool(item["input"]))


def _explain(model: type[BaseModel], item: ErrorDetails) -> tuple[str, str]:
    """Message and fix of one of pydantic's errors."""
    loc, kind, context, value = item["loc"], item["type"], item.get("ctx", {}), _abbreviate(item["input"])
    explanations: dict[str, Callable[[], tuple[str, str]]] = {
        "dse": lambda: (context["message"], context["fix"]),
        "extra_forbidden": lambda: (f"unknown key '{loc[-1]}'", did_you_mean(loc[-1], _known_keys(model, loc[:-1]))),
        "missing": lambda: (f"'{loc[-1]}' is missing", f"add '{loc[-1]}: {_example(model, loc)}'"),
        "literal_error": lambda: (f"'{value}' is not known here", f"write one of {context['expected']}"),
        "union_tag_invalid": lambda: (f"'{context['tag']}' is not known here", f"write one of {context['expected_tags']}"),
    }
    if kind in explanations:
        return explanations[kind]()
    if kind in _BOUNDS:
        return f"{value} is out of range", f"write a number {_BOUNDS[kind]} {next(iter(context.values())):g}"
    return f"'{value}' is not valid here ({item['msg']})", _FIXES.get(kind, "see 'dse schema'")


def _abbreviate(value: object) -> str:
    """A value as text of at most 40 characters."""
    try:
        text = str(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number of too many digits"
    return text if len(text) <= 40 else text[:37] + "..."


def _known_keys(model: type[BaseModel], loc: KeyPath) -> list[str]:
    return sorted({key for node in _schema_nodes(model, loc) for key in node.get("properties", {})})


def _example(model: type[BaseModel], loc: KeyPath) -> str:
    examples = [str(node["examples"][0]) for node in _schema_nodes(model, loc) if node.get("examples")]
    return examples[0] if examples else "..."


SchemaNode = JsonSchemaValue  # of a JSON Schema


@cache
def _json_schema(model: type[BaseModel]) -> SchemaNode:
    return model.model_json_schema()


def _schema_nodes(model: type[BaseModel], loc: KeyPath) -> list[SchemaNode]:
    """The nodes of the JSON Schema that may describe the value at `loc`."""
    root = _json_schema(model)
    nodes = _alternatives(root, root)
    for key in loc:
        children = [child for node in nodes for child in _child_nodes(node, key)]
        nodes = [alternative for child in children for alternative in _alternatives(root, child)] or nodes
    return nodes


def _child_nodes(node: SchemaNode, key: str | int) -> list[SchemaNode]:
    if isinstance(key, int):
        return [node["items"]] if isinstance(node.get("items"), dict) else []
    properties, by_pattern = node.get("properties", {}), node.get("patternProperties", {})
    children = [properties[key]] if key in properties else [*by_pattern.values(), node.get("additionalProperties")]
    return [child for child in children if isinstance(child, dict)]


def _alternatives(root: SchemaNode, node: SchemaNode) -> list[SchemaNode]:
    """A node and the members of its unions, with references followed."""
    if "$ref" in node:
        return _alternatives(root, root["$defs"][node["$ref"].rsplit("/", 1)[-1]])
    options = [option for key in ("anyOf", "oneOf", "allOf") for option in node.get(key, ())]
    return [node] + [nested for option in options for nested in _alternatives(root, option)]
