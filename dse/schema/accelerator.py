"""The accelerator schema: units with peaks and the sparse runs they support, memory levels, overhead, cost.

Every number has a dotted path (`units.tensor_core.peak.fp16`, `memory.dram.bandwidth`), by which a sweep
reaches it.
"""

import copy
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, PrivateAttr, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.base.errors import InputError, did_you_mean
from dse.base.strict_model import KeyPath, StrictModel, field_error, nested_field_errors
from dse.base.units import Area, Bandwidth, Capacity, Count, Efficiency, Gain, Length, Power, Quantity, Rate, SourceKind, Time
from dse.base.yaml_document import YamlDocument, load_document
from dse.sparsity.format import Format, default_format
from dse.sparsity.grammar import PatternAliases, PatternField
from dse.sparsity.kinds import DENSE, NM, UNSTRUCTURED

Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")]


def _tile(value: Any) -> Any:
    if not re.fullmatch(r"[1-9]\d{0,5}x[1-9]\d{0,5}", str(value)):
        raise field_error(f"'{value}' is no tile", "write rows x columns, as in '16x16'")
    return value


TileText = Annotated[str, BeforeValidator(_tile)]


ZeroHandling = Literal["skipped", "gated"]


class Activations(StrictModel):
    """What a run does about the zeros of the other operand."""

    patterns: tuple[PatternField, ...] = Field(
        default=(UNSTRUCTURED,), min_length=1, description="what it can leave out; of several the sparsest that holds a layer's density",
        examples=['["2:8", "4:8"]'],
    )  # fmt: skip
    zeros: ZeroHandling = Field(default="skipped", description="skipped: they take no time; gated: they take no energy")
    format: Format | None = Field(default=None, description="how memory holds them; default: as they are, zeros and all")

    @model_validator(mode="after")
    def _check(self) -> Self:
        for pattern in self.patterns:
            if pattern != UNSTRUCTURED and not isinstance(pattern, NM):
                raise field_error(f"activations can't be '{pattern}'", "write 'unstructured' or N:M")
            if self.format is not None and not self.format.can_store(pattern):
                raise field_error(f"format '{self.format.kind}' cannot store pattern '{pattern}'", "write '{kind: bitmask}'")
        return self


class Run(StrictModel):
    """A pattern that a unit executes faster than dense, and how it wants the pattern stored."""

    pattern: PatternField = Field(examples=["2:4"])
    format: Format = Field(default_factory=lambda given: default_format(given["pattern"]), description="default: the pattern's usual one")
    dtypes: tuple[str, ...] | None = Field(None, min_length=1, description="default: every dtype of the unit", examples=["[fp16, bf16]"])
    gain: Gain | None = Field(None, description="most that the unit speeds the pattern up; default: dense work / stored work")
    efficiency: Efficiency = Field(default_factory=lambda: Efficiency.model_construct(value=1.0))
    enabled: bool = True
    zeros: ZeroHandling = Field(
        default="skipped", description="skipped: zero weights take no time; gated: they take their time, but no energy"
    )
    tile: TileText | None = Field(default=None, description="weights that are only skipped together, rows x columns", examples=["16x16"])
    activations: Activations | None = Field(default=None, description="default: their zeros are multiplied like any number")
    decode: Bandwidth | None = Field(default=None, description="metadata that its decoder reads; default: as fast as it comes")
    source: str | None = None
    kind: SourceKind = "datasheet"
    unverified: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.format.can_store(self.pattern):
            raise field_error(
                f"format '{self.format.kind}' cannot store pattern '{self.pattern}'",
                f"write '{{kind: {default_format(self.pattern).kind}}}' ('{self.format.kind}' stores {self.format.stores_description})",
            )
        if self.pattern == DENSE and not self.enabled:
            raise field_error("every unit runs dense", "remove 'enabled', or the unit's peak for the dtype")
        return self


class Unit(StrictModel):
    """A compute unit: dense peaks by dtype, and the patterns it runs beyond dense."""

    peak: dict[Identifier, Rate] = Field(min_length=1, examples=["{fp16: 312 TFLOP/s}"])
    runs: dict[Identifier, Run] = Field(default_factory=dict)
    processors: Count | None = Field(None, description="cores that share out the tiles of a launch; measured kernels come in waves of them")
    scratchpad: Capacity | None = Field(None, description="on-chip memory of each processor, in which its tiles stage their operands")
    issue: Rate | None = Field(
        None, description="fp32, if every instruction that it can issue were a multiply-add: what loads and indices share"
    )

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        errors: list[tuple[KeyPath, PydanticCustomError]] = [
            (("peak", name), field_error(f"unknown dtype '{name}'", did_you_mean(name, BITS_PER_ELEMENT)))
            for name in self.peak
            if storage_dtype(name) not in BITS_PER_ELEMENT
        ]
        for run_name, run in self.runs.items():
            if run_name == "dense" and run.pattern != DENSE:
                error = field_error(f"a run named 'dense' runs the pattern dense, not '{run.pattern}'", "give it another name")
                errors.append((("runs", run_name), error))
            for index, name in enumerate(run.dtypes or ()):
                if name not in self.peak:
                    error = field_error(
                        f"the unit has no peak for '{name}'", f"add one, or write another dtype; {did_you_mean(name, self.peak)}"
                    )
                    errors.append((("runs", run_name, "dtypes", index), error))
        if errors:
            raise nested_field_errors("Unit", errors)
        return self


class Memory(StrictModel):
    capacity: Capacity | None = None
    bandwidth: Bandwidth | None = None


class Overhead(StrictModel):
    launch: Time | None = Field(None, description="per kernel, under 'calibrated'; default: as fitted")


class Cost(StrictModel):
    area: Area | None = None
    fixed: Area | None = Field(default=None, description="what of the area nothing here explains; default: that of large GPU dies")
    power: Power | None = None
    process: Length | None = None


class Accelerator(StrictModel):
    """A hardware description; `memory` is listed outermost first."""

    name: str = Field(min_length=1, examples=["my-accelerator"])
    description: str = ""
    source: str = Field(min_length=1, examples=["vendor data sheet (2026)"])
    hypothetical: bool = False
    patterns: PatternAliases = Field(default={}, description="names of one's own for patterns", examples=["{mine: block:32x32/2:4}"])
    units: dict[Identifier, Unit] = Field(min_length=1)
    memory: dict[Identifier, Memory] = Field(min_length=1)
    efficiencies: str | None = Field(
        default=None, description="what 'dse calibrate' wrote of this device, relative to this file", examples=["efficiencies.yaml"]
    )
    overhead: Overhead = Field(default_factory=lambda: Overhead.model_validate({}))
    cost: Cost = Field(default_factory=lambda: Cost.model_validate({}))
    _document: YamlDocument | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _check_resources(self) -> Self:
        errors: list[tuple[KeyPath, PydanticCustomError]] = []
        if self.memory[self.outermost].bandwidth is None:
            what = f"the outermost memory level '{self.outermost}' has no bandwidth"
            errors.append((("memory", self.outermost), field_error(what, f"add 'bandwidth: {Bandwidth.example}'")))
        for name in sorted(self.memory.keys() & self.units.keys()):
            errors.append(
                (("memory", name), field_error(f"a unit is named '{name}' too", "rename one: results are labelled by these names"))
            )
        if errors:
            raise nested_field_errors("Accelerator", errors)
        return self

    @property
    def outermost(self) -> str:
        return next(iter(self.memory))

    @property
    def document(self) -> YamlDocument:
        assert self._document is not None, "made by load(), not by hand"
        return self._document

    def value(self, path: str) -> Any:
        """What stands at a dotted path: a float in SI units for a quantity; raises InputError if there is no such path."""
        found = self.at(path)
        return found.value if isinstance(found, Quantity) else found

    def at(self, path: str) -> Any:
        """The part of the description at a dotted path, with its source; raises InputError if there is none."""
        found: Any = self
        for part in path.split("."):
            inside = _inside(found)
            if part not in inside:
                raise InputError(f"'{self.name}' has no '{path}'", did_you_mean(path, self.paths()))
            found = inside[part]
        return found

    def paths(self) -> list[str]:
        """Every dotted path that a sweep may vary."""
        leaves = [path for part in ("units", "memory", "overhead", "cost") for path in _leaves(getattr(self, part), part)]
        return [path for path in leaves if path.rpartition(".")[2] not in ("source", "kind", "unverified") or path.endswith(".format.kind")]

    def quantities(self) -> dict[str, Quantity]:
        """Each quantity that the description gives, by its dotted path."""
        return {path: found for path in self.paths() if isinstance(found := self.at(path), Quantity) and found.text}

    def unverified(self) -> list[str]:
        """Dotted paths of the numbers, and of the runs, that were not read at their source."""
        numbers = [path for path, quantity in self.quantities().items() if quantity.unverified]
        runs = [(f"units.{unit}.runs.{name}", run) for unit, u in self.units.items() for name, run in u.runs.items()]
        return numbers + [path for path, run in runs if run.unverified]

    def to_dict(self) -> dict[str, Any]:
        """The description as a mapping with the keys of its file, a copy; other files are named by absolute paths."""
        data = copy.deepcopy(dict(self.document.data))
        if self.efficiencies is not None:
            data["efficiencies"] = str((self.document.path.parent / self.efficiencies).resolve())
        return data

    def replace(self, values: Mapping[str, Any]) -> "Accelerator":
        """A copy with other values at some dotted paths, validated anew; raises InputError."""
        data: Any = self.document.data
        for path, value in values.items():
            if path not in self.paths():
                raise InputError(f"'{self.name}' has no '{path}'", did_you_mean(path, self.paths()))
            around, _, key = path.rpartition(".")
            if around.endswith(".format") and key != "kind":  # the file may have left the format to its default
                data = _put(data, f"{around}.kind".split("."), self.value(f"{around}.kind"))
            data = _put(data, path.split("."), value)
        changed = self.document.validate(Accelerator, data)
        changed._document = dataclasses.replace(self.document, data=data)
        return changed


def _inside(node: Any) -> Mapping[str, Any]:
    """The named parts of a mapping or a schema; a quantity, a pattern or a plain value has none."""
    if isinstance(node, BaseModel) and not isinstance(node, Quantity):
        return {name: getattr(node, name) for name in type(node).model_fields}
    return node if isinstance(node, Mapping) else {}


def _leaves(node: Any, prefix: str) -> Iterator[str]:
    if not _inside(node) and not isinstance(node, Mapping):
        yield prefix
    for name, child in _inside(node).items():
        yield from _leaves(child, f"{prefix}.{name}")


def _put(data: Any, path: list[str], value: Any) -> dict[str, Any]:
    """A copy of nested mappings with `value` at `path`."""
    head, *rest = path
    inside = data if isinstance(data, Mapping) else {}
    return {**inside, head: _put(inside.get(head), rest, value) if rest else value}


def read_accelerator(path: Any) -> Accelerator:
    """Read one description, a file or a mapping; raises InputError with every problem it has."""
    return accelerator_from_document(load_document(path))


def accelerator_from_document(document: YamlDocument) -> Accelerator:
    """The accelerator that a mapping describes; raises InputError with every problem."""
    accelerator = document.validate(Accelerator)
    accelerator._document = document
    return accelerator
