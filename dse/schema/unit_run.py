"""The schema of a run of a compute unit: a pattern that it executes faster than dense, in the formats in which it needs the operands."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import JsonSchemaValue

from dse.base.strict_model import StrictModel, field_error
from dse.base.units import (
    SOURCE,
    SOURCE_KIND,
    UNVERIFIED,
    Bandwidth,
    Efficiency,
    Gain,
    SourceKind,
    Width,
)
from dse.sparsity.attention.family import AttentionFamilyField
from dse.sparsity.format import Format, assumed_width, default_format
from dse.sparsity.grammar import PatternField
from dse.sparsity.kinds import DENSE, NM, UNSTRUCTURED


def _check_tile(value: object) -> object:
    if not re.fullmatch(r"[1-9]\d{0,5}x[1-9]\d{0,5}", str(value)):
        raise field_error(f"'{value}' is not a tile", "write rows x columns, as in '16x16'")
    return value


TileSize = Annotated[str, BeforeValidator(_check_tile)]
ZeroHandling = Literal["skipped", "gated"]
Expansion = Literal["none", "in_memory", "on_chip"]
EXPANDED_SUFFIX = "_expanded"  # of the names of executions


class Activations(StrictModel):
    """How a run handles zeros in the other operand, the activations."""

    patterns: tuple[PatternField, ...] = Field(
        default=(UNSTRUCTURED,), min_length=1, examples=['["2:8", "4:8"]'], json_schema_extra={"default": [str(UNSTRUCTURED)]},
        description="patterns that it can skip or gate; of several, the sparsest that allows a layer's density",
    )  # fmt: skip
    zeros: ZeroHandling = Field(default="skipped", description="skipped: zeros take no time; gated: zeros take no energy")
    format: Format | None = Field(
        default=None, description="storage format in memory; default: dense, zeros included", examples=["{kind: bitmask}"]
    )
    tokens: int = Field(
        default=1, ge=1, le=10**6, description="columns (tokens, pixels) that are computed together: an input is skipped if it "
        "is zero in all of them", examples=[8],
    )  # fmt: skip
    gathers_weights: bool = Field(
        default=False, description="whether weights are not read whose input is zero in every column of the layer"
    )
    detected: bool = Field(
        default=False,
        description="whether zeros are detected at run time: the decoder reads every activation, at the rate 'decode' of the run",
    )

    @model_validator(mode="after")
    def _check_skipping(self) -> Self:
        if self.zeros == "gated" and (self.tokens > 1 or self.gathers_weights):
            key = "tokens" if self.tokens > 1 else "gathers_weights"
            raise field_error(f"'{key}' is about zeros that take no time, but gated ones do", f"write 'zeros: skipped', or remove '{key}'")
        return self

    @model_validator(mode="after")
    def _check_patterns(self) -> Self:
        for pattern in self.patterns:
            if pattern != UNSTRUCTURED and not isinstance(pattern, NM):
                raise field_error(f"activations can't be '{pattern}'", "write 'unstructured' or N:M")
            if self.format is not None and not self.format.can_store(pattern):
                raise field_error(f"format '{self.format.kind}' cannot store pattern '{pattern}'", "write '{kind: bitmask}'")
        return self


class Scores(StrictModel):
    """Which scores of an attention a run leaves out."""

    patterns: tuple[AttentionFamilyField, ...] = Field(
        min_length=1, description="attention patterns whose other scores it leaves out, or families such as 'window:*'; of several that "
        "contain a layer's pattern, the one with the fewest scores", examples=['["causal", "window:*"]'],
    )  # fmt: skip
    tile: TileSize = Field(
        default="1x1", description="tile of scores, queries x keys, that is only left out as a whole; chosen keys fill tiles as they are "
        "gathered", examples=["128x128"],
    )  # fmt: skip
    zeros: ZeroHandling = Field(default="skipped", description="skipped: left out scores take no time; gated: they take no energy")
    index: Width = Field(
        default_factory=lambda: assumed_width(32), description="width of the index of a chosen key or block; default: 32 bit"
    )
    source: str | None = Field(default=None, description=SOURCE, examples=["Dao-AILab/flash-attention hopper/tile_size.h"])
    kind: SourceKind = Field(default="datasheet", description=SOURCE_KIND)
    unverified: bool = Field(default=False, description=UNVERIFIED)

    @property
    def tile_sizes(self) -> tuple[int, int]:
        """Queries and keys of a tile."""
        queries, keys = map(int, self.tile.split("x"))
        return queries, keys

    def __str__(self) -> str:
        """'causal window:*, tiles of 128x64'."""
        return f"{' '.join(map(str, self.patterns))}, tiles of {self.tile}"


SYNONYMS = {"weights": "pattern", "inputs": "activations"}  # keys of a run, named by the operand


def rename_synonyms(run: Mapping[str, object]) -> dict[str, object]:
    """A run as a description states it, with `pattern` and `activations` in place of their synonyms."""
    return {SYNONYMS.get(key, key): value for key, value in run.items()}


def _describe_synonyms(schema: JsonSchemaValue) -> None:
    properties = schema["properties"]
    properties |= {synonym: properties[name] for synonym, name in SYNONYMS.items()}
    schema["required"].remove("pattern")
    schema["oneOf"] = [{"required": ["pattern"]}, {"required": ["weights"]}]


class Run(StrictModel):
    """What a unit executes faster than dense, and the formats in which it needs the operands."""

    model_config = ConfigDict(json_schema_extra=_describe_synonyms)

    pattern: PatternField = Field(description="pattern of the weights, or a family such as 'block:16x16*'", examples=["2:4"])
    format: Format = Field(
        default_factory=lambda fields: default_format(fields["pattern"]),
        description="how the weights are stored; default: the usual format of the pattern",
        examples=["{kind: nm_index}"],
    )
    dtypes: tuple[str, ...] | None = Field(
        None, min_length=1, description="dtypes that it runs; default: every dtype of the unit", examples=["[fp16, bf16]"]
    )
    gain: Gain | None = Field(None, description="largest speedup over the unit's own dense peak; default: dense work / stored work")
    efficiency: Efficiency = Field(
        default_factory=lambda: Efficiency.model_construct(value=1.0),
        description="share of peak x gain that it reaches, 0 < E <= 1, under 'r3'; default: 1",
    )
    enabled: bool = Field(True, description="whether the run exists; an axis [true, false] lets a search decide")
    zeros: ZeroHandling = Field(
        default="skipped", description="skipped: zero weights take no time; gated: zero weights take time, but no energy"
    )
    tile: TileSize | None = Field(
        default=None, description="block of weights that is only skipped if all are zero, rows x columns", examples=["16x16"]
    )
    activations: Activations | None = Field(
        default=None,
        description="how zero activations are handled; default: they take the time and energy of any number",
        examples=["{patterns: [unstructured], zeros: skipped}"],
    )
    scores: Scores | None = Field(
        default=None,
        description="scores of an attention that it leaves out; default: it computes all keys of the rectangle of a layer",
        examples=['{patterns: [causal, "window:*"], tile: 128x128}'],
    )
    expanded: Expansion = Field(
        default="none",
        description="whether it also runs patterns that windows of its N:M cover, over an expanded k. in_memory: a pass writes the expanded"
        " activations to memory; on_chip: the unit repeats activations as it loads them",
    )
    decode: Bandwidth | None = Field(
        default=None, description="rate at which the decoder reads metadata, and activations whose zeros it detects; default: no limit"
    )
    source: str | None = Field(default=None, description=SOURCE, examples=["vendor white paper, table 2"])
    kind: SourceKind = Field(default="datasheet", description=SOURCE_KIND)
    unverified: bool = Field(default=False, description=UNVERIFIED)

    @model_validator(mode="before")
    @classmethod
    def _rename_synonyms(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        for synonym, name in SYNONYMS.items():
            if synonym in data and name in data:
                raise field_error(f"'{synonym}' and '{name}' are the same key", "write one of them")
        return rename_synonyms(data)

    @model_validator(mode="after")
    def _check_detection(self) -> Self:
        if self.activations is not None and self.activations.detected and self.decode is None:
            raise field_error("zeros that are detected at run time need a rate", "add 'decode: 2 TB/s' to the run, or remove 'detected'")
        return self

    @model_validator(mode="after")
    def _check_scores(self) -> Self:
        if self.scores is not None and self.pattern != DENSE:
            message = f"a run of '{self.pattern}' weights has no scores: both operands of an attention are dense"
            raise field_error(message, "list 'scores' in a run of the pattern dense")
        return self

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        if not self.format.can_store(self.pattern):
            raise field_error(
                f"format '{self.format.kind}' cannot store pattern '{self.pattern}'",
                f"write '{{kind: {default_format(self.pattern).kind}}}' ('{self.format.kind}' stores {self.format.stores_description})",
            )
        if self.pattern == DENSE and not self.enabled:
            raise field_error("every unit runs dense", "remove 'enabled', or the unit's peak for the dtype")
        return self

    @model_validator(mode="after")
    def _check_expanded(self) -> Self:
        if self.expanded == "none":
            return self
        if not isinstance(self.pattern, NM):
            raise field_error(f"'expanded' covers patterns by windows of an N:M, not of '{self.pattern}'", "remove 'expanded'")
        if self.zeros == "gated" or self.tile is not None:
            skips = "gates zero weights" if self.zeros == "gated" else "skips whole tiles"
            raise field_error(f"a run that {skips} saves no time by windows", "remove 'expanded'")
        return self


def describe_run(run: Run) -> str:
    """'2:4 stored as nm_index, disabled', 'dense, scores of causal'."""
    stored = "" if run.pattern == DENSE else f" stored as {run.format.kind}"
    expanded = "" if run.expanded == "none" else f", expanded {run.expanded.replace('_', ' ')}"
    scores = "" if run.scores is None else f", scores of {' '.join(map(str, run.scores.patterns))}"
    return f"{run.pattern}{stored}{expanded}{scores}{'' if run.enabled else ', disabled'}"
