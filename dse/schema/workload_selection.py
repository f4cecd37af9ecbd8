"""The schema of a workload in a specification: which of its variants are evaluated, and on which inputs."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dse.base.errors import did_you_mean
from dse.base.strict_model import AllDifferent, KeyPath, StrictModel, field_error, nested_field_errors, validation_errors
from dse.sparsity.grammar import parse, read_pattern_aliases
from dse.sparsity.pattern import Pattern
from dse.workload.accuracy_drop import AccuracyDrop, parse_accuracy_drop
from dse.workload.schema import ConcretePattern

PositiveFraction = Annotated[float, Field(gt=0, le=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Drops = dict[Pattern, AccuracyDrop]
_DROP_SCHEMA = {"type": ["number", "string"]}
AssumedDrops = Annotated[
    Drops,
    PlainValidator(dict),  # of what `read_drops` has read
    PlainSerializer(lambda drops: {str(pattern): drop.exact_text for pattern, drop in drops.items()}),
    WithJsonSchema({"anyOf": [_DROP_SCHEMA, {"type": "object", "additionalProperties": _DROP_SCHEMA}]}),
]


class HypotheticalPatterns(StrictModel):
    """Hypothetical variants: patterns that the network was never pruned to, at stated densities."""

    list: Annotated[tuple[ConcretePattern, ...], AllDifferent] = Field(
        min_length=1, description="patterns to evaluate", examples=['["1:8", "block:16x16"]']
    )
    densities: Literal["own", "from_method"] | tuple[PositiveFraction, ...] = Field(
        "own",
        description="own: the pattern's N/M; from_method: the layer densities of each measured variant; or a list of uniform densities",
        examples=["from_method"],
    )

    accuracy_drop: AssumedDrops = Field(
        {},
        description="assumed accuracy drop, in points of the metric or, as text, in % of the dense network: one for all patterns, or one "
        "for each by its pattern; default: in a search accurate enough, in a sweep unknown",
        examples=['{"2:4": 0.5, "1:4": 2}'],
    )

    @field_validator("accuracy_drop", mode="before")
    @classmethod
    def _read_drops(cls, value: object, info: ValidationInfo) -> object:
        return read_drops(value, info.data.get("list"), read_pattern_aliases(info.context))

    @field_validator("densities", mode="before")
    @classmethod
    def _check_densities(cls, value: object) -> object:
        if value not in ("own", "from_method") and not (isinstance(value, list) and value):
            raise field_error(f"'{value}' is not a choice of densities", "write own, from_method or a list, as in '[0.5, 0.25]'")
        for density in value if isinstance(value, list) else ():
            if isinstance(density, bool) or not isinstance(density, int | float) or not 0 < density <= 1:
                raise field_error(f"density {density} is not above 0 and at most 1", "write the share kept, as in '[0.5, 0.25]'")
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _check_patterns(self) -> Self:
        for pattern in self.list:
            if self.densities == "own" and pattern.density is None:
                fix = "write 'densities: from_method' or a list, as in '[0.5, 0.25]'"
                raise field_error(f"'{pattern}' has no density of its own", fix)
        return self


def read_drops(value: object, listed: Sequence[Pattern] | None, aliases: Mapping[str, Pattern]) -> Drops:
    """The drop of each pattern that has one; raises a validation error with every problem.

    `listed`: the patterns that the entry lists, None where these are not valid; `aliases`: user-defined names of patterns.
    """
    if isinstance(value, list):
        raise field_error("a list does not say which pattern has which drop", 'write a mapping, as in \'{"2:4": 0.5, "1:4": 2}\'')
    if not isinstance(value, Mapping):
        return dict.fromkeys(listed or (), _read_drop(value))
    drops, errors = Drops(), list[tuple[KeyPath, PydanticCustomError]]()
    for name, stated in value.items():
        pattern = drop = None
        try:
            pattern = _read_drop_pattern(str(name), drops, listed, aliases)
        except PydanticCustomError as error:
            errors.append(((name,), error))
        try:
            drop = _read_drop(stated)
        except PydanticCustomError as error:
            errors.append(((name,), error))
        if pattern is not None and drop is not None:
            drops[pattern] = drop
    if errors:
        raise nested_field_errors("accuracy_drop", errors)
    return drops


def _read_drop(stated: object) -> AccuracyDrop:
    with validation_errors():
        return parse_accuracy_drop(stated)


def _read_drop_pattern(text: str, known: Drops, listed: Sequence[Pattern] | None, aliases: Mapping[str, Pattern]) -> Pattern:
    """The pattern of a drop, which the entry lists once."""
    with validation_errors():
        pattern = parse(text, aliases)
    if listed is not None and pattern not in listed:
        raise field_error(f"'{text}' is not in 'list'", did_you_mean(text, map(str, listed)))
    if pattern in known:
        raise field_error(f"'{text}' has an accuracy drop already, under another name", "keep one of them")
    return pattern


def _methods_tag(value: object) -> str:
    return "all" if isinstance(value, str) else "list"


Methods = Annotated[
    Annotated[Literal["all"], Tag("all")] | Annotated[tuple[str, ...], AllDifferent, Tag("list")], Discriminator(_methods_tag)
]


def _reference_tag(value: object) -> str:
    return "description" if isinstance(value, dict) else "value"


DescriptionReference = Annotated[
    Annotated[str, Tag("value")] | Annotated[dict[str, object], Tag("description")], Discriminator(_reference_tag)
]  # a name in the catalogue, a path, or the description itself


def _accept_one_value(value: object) -> object:
    return {key: v if isinstance(v, list) else [v] for key, v in value.items()} if isinstance(value, dict) else value


InputValues = dict[str, str | int | float | list[str | int | float]]
InputLists = Annotated[
    dict[str, Annotated[tuple[str | int | float, ...], Field(min_length=1), AllDifferent]], BeforeValidator(_accept_one_value)
]


class WorkloadSelection(StrictModel):
    """The variants of a network that are evaluated, and the inputs on which they run."""

    workload: DescriptionReference | None = Field(
        None, description="name, path, or the contents of a workload.yaml; default: the key", examples=["resnet50"]
    )
    methods: Methods = Field(
        "all", description="pruning methods whose measured variants are evaluated: all, or a list", examples=["[magnitude_pruning]"]
    )
    sparsities: Annotated[tuple[Fraction, ...], AllDifferent] | None = Field(
        None, min_length=1, description="nominal or realised sparsities; default: all", examples=["[0.9]"]
    )
    patterns: tuple[HypotheticalPatterns, ...] = Field(
        (), description="patterns that the network was never pruned to", examples=['{list: ["1:8"], densities: own}']
    )
    activation_density: Annotated[tuple[PositiveFraction, ...], AllDifferent] = Field(
        default=(), description="assumed nonzero share of every layer's inputs, or several; default: as counted, or 1", examples=[0.5]
    )
    inputs: tuple[InputLists, ...] = Field(
        (),
        description="inputs of the network: a value or a list for each, and every combination is evaluated; or a list of such mappings",
        examples=["{sequence: [512, 2048]}"],
    )

    def input_combinations(self) -> list[dict[str, object]]:
        """Every combination of the listed inputs of each mapping."""
        combinations: list[dict[str, object]] = [
            dict(zip(listed, values, strict=True)) for listed in self.inputs or ({},) for values in itertools.product(*listed.values())
        ]
        return [each for number, each in enumerate(combinations) if each not in combinations[:number]]

    @field_validator("inputs", mode="before", json_schema_input_type=InputValues | list[InputValues])
    @classmethod
    def _accept_one_mapping(cls, value: object) -> object:
        return value if isinstance(value, list | tuple) else [value] if value else ()

    @field_validator("activation_density", mode="before", json_schema_input_type=PositiveFraction | list[PositiveFraction] | None)
    @classmethod
    def _accept_one_density(cls, value: object) -> object:
        return () if value is None else value if isinstance(value, list | tuple) else [value]

    @field_validator("methods", mode="before")
    @classmethod
    def _accept_all(cls, value: object) -> object:
        if isinstance(value, str) and value != "all":
            raise field_error(f"'{value}' is not a list", f"write 'all' or '[{value}]'")
        return value

    @field_validator(
        "patterns", mode="before", json_schema_input_type=HypotheticalPatterns | list[HypotheticalPatterns] | list[ConcretePattern]
    )
    @classmethod
    def _accept_short_forms(cls, value: object) -> object:
        """Patterns alone are at their own densities."""
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            return [{"list": value}]
        if isinstance(value, dict) and value and not value.keys() & HypotheticalPatterns.model_fields.keys():
            fix = 'write \'patterns: {list: ["2:4"], accuracy_drop: {"2:4": 0.5}}\''
            raise field_error("'patterns' has neither 'list' nor 'accuracy_drop'", fix)
        return [value] if isinstance(value, dict) else value
