"""The accuracy drops that a specification assumes of hypothetical patterns: one for all, or one for each by its pattern."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from dse.base.errors import did_you_mean
from dse.base.strict_model import KeyPath, field_error, nested_field_errors, validation_errors
from dse.sparsity.grammar import parse
from dse.sparsity.pattern import Pattern
from dse.workload.accuracy_drop import AccuracyDrop, parse_accuracy_drop

Drops = dict[Pattern, AccuracyDrop]
_DROP_SCHEMA = {"type": ["number", "string"]}
AssumedDrops = Annotated[
    Drops,
    PlainValidator(dict),  # of what `read_drops` has read
    PlainSerializer(lambda drops: {str(pattern): drop.exact_text for pattern, drop in drops.items()}),
    WithJsonSchema({"anyOf": [_DROP_SCHEMA, {"type": "object", "additionalProperties": _DROP_SCHEMA}]}),
]


def read_drops(value: object, listed: Sequence[Pattern] | None, aliases: Mapping[str, Pattern]) -> Drops:
    """The drop of each pattern that has one; raises a validation error with every problem.

    `listed`: the patterns that the entry lists, None where these are not valid; `aliases`: user-defined names of patterns.
    """
    if isinstance(value, list):
        raise field_error("a list does not say which pattern has which drop", 'write a mapping, as in \'{"2:4": 0.5, "1:4": 2}\'')
    if not isinstance(value, Mapping):
        return dict.fromkeys(listed or (), _read(value))
    drops, errors = Drops(), list[tuple[KeyPath, PydanticCustomError]]()
    for name, stated in value.items():
        pattern = drop = None
        try:
            pattern = _read_pattern(str(name), drops, listed, aliases)
        except PydanticCustomError as error:
            errors.append(((name,), error))
        try:
            drop = _read(stated)
        except PydanticCustomError as error:
            errors.append(((name,), error))
        if pattern is not None and drop is not None:
            drops[pattern] = drop
    if errors:
        raise nested_field_errors("accuracy_drop", errors)
    return drops


def _read(stated: object) -> AccuracyDrop:
    with validation_errors():
        return parse_accuracy_drop(stated)


def _read_pattern(text: str, known: Drops, listed: Sequence[Pattern] | None, aliases: Mapping[str, Pattern]) -> Pattern:
    """The pattern of a drop, which the entry lists once."""
    with validation_errors():
        pattern = parse(text, aliases)
    if listed is not None and pattern not in listed:
        raise field_error(f"'{text}' is not in 'list'", did_you_mean(text, map(str, listed)))
    if pattern in known:
        raise field_error(f"'{text}' has an accuracy drop already, under another name", "keep one of them")
    return pattern
