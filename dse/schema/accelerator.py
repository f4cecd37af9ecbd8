"""The schema of an accelerator: compute units, memory levels, overhead and cost.

Every number has a dotted path (`units.tensor_core.peak.fp16`, `memory.dram.bandwidth`), by which sweeps and searches vary it.
"""

import copy
import dataclasses
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.strict_model import StrictModel, nested_field_errors
from dse.base.table_format import html_table
from dse.base.units import Quantity
from dse.base.yaml_document import YamlDocument, load_document, to_yaml_types
from dse.schema.accelerator_checks import impossible_costs, resource_errors
from dse.schema.compute_unit import Identifier, Unit
from dse.schema.device import Cost, Memory, Overhead
from dse.schema.dotted_paths import has_child, leaf_paths, set_value
from dse.schema.links import NO_LINKS, Links, resolve_links
from dse.schema.macro_parameters import add_links, check_complete, check_stated_twice, state_directly
from dse.schema.memory_technology import add_technology_numbers
from dse.schema.unit_run import Run, Scores, describe_run, rename_synonyms
from dse.sparsity.grammar import PatternAliases


class Accelerator(StrictModel):
    """A hardware description: compute units with their runs, memory levels, overhead and cost.

    Every number has a dotted path, such as `memory.dram.bandwidth` or `units.tensor_core.runs.sparse_24.gain`. Accelerators are
    immutable: `replace` returns a changed copy.

    Attributes:
        name: its name in results.
        source: source of all numbers that state none of their own.
        hypothetical: whether the device does not exist.
        units: compute units by name, each with dense `peak` rates by dtype [FLOP/s] and sparse `runs`.
        memory: memory levels by name, outermost first, with `capacity` [B] and `bandwidth` [B/s].

    Raises:
        InputError: a number has no unit or a wrong one, a key is unknown, or a name is used twice; lists every problem.

    Examples:
        >>> import dse
        >>> a100 = dse.load_accelerator("a100-sxm4-80gb")
        >>> a100
        Accelerator('a100-sxm4-80gb', units=[tensor_core, cuda_core], memory=[dram, l2])
        >>> a100.value("units.tensor_core.peak.fp16")  # in SI units: FLOP/s
        312000000000000.0
        >>> a100.at("memory.l2.capacity").text
        '40 MB'
    """

    model_config = ConfigDict(json_schema_extra={"description": "A hardware description; `memory` is listed outermost first."})

    name: str = Field(min_length=1, description="name in results", examples=["my-accelerator"])
    description: str = Field("", description="one line about the device", examples=["edge chip with two engines"])
    source: str = Field(
        min_length=1, description="source of every number that states none of its own", examples=["vendor data sheet (2026)"]
    )
    hypothetical: bool = Field(False, description="whether the device does not exist")
    patterns: PatternAliases = Field(default={}, description="names for patterns, used in this file", examples=["{mine: block:32x32/2:4}"])
    units: dict[Identifier, Unit] = Field(
        min_length=1, description="compute units by name", examples=["{tensor_core: {peak: {fp16: 312 TFLOP/s}}}"]
    )
    memory: dict[Identifier, Memory] = Field(
        min_length=1,
        description="memory levels by name, outermost first",
        examples=["{dram: {capacity: 80 GB, bandwidth: 2039 GB/s}, l2: {capacity: 40 MB}}"],
    )
    efficiencies: str | None = Field(
        default=None, description="file that 'dse calibrate' wrote for this device, relative to this file", examples=["efficiencies.yaml"]
    )
    overhead: Overhead = Field(
        default_factory=lambda: Overhead.model_validate({}),
        description="time outside compute and memory, under 'calibrated'",
        examples=["{launch: 2.5 us}"],
    )
    cost: Cost = Field(
        default_factory=lambda: Cost.model_validate({}),
        description="technology node, and published area and power",
        examples=["{process: 7 nm, area: 826 mm^2, power: 400 W}"],
    )
    _document: YamlDocument | None = PrivateAttr(None)
    _base: "Accelerator | None" = PrivateAttr(None)
    _links: Links = PrivateAttr(NO_LINKS)

    @classmethod
    def from_dict(cls, mapping: Mapping[str, object]) -> "Accelerator":
        """Make an accelerator from a mapping with the keys of a YAML description.

        Raises:
            InputError: the description is invalid; lists every problem with its dotted path and fix.

        Examples:
            >>> import dse
            >>> chip = dse.Accelerator.from_dict({
            ...     "name": "chip",
            ...     "source": "assumed",
            ...     "units": {"tensor": {"peak": {"fp16": "100 TFLOP/s"}, "runs": {"sparse_24": {"pattern": "2:4", "gain": 2}}}},
            ...     "memory": {"dram": {"capacity": "16 GB", "bandwidth": "1 TB/s"}},
            ... })
            >>> chip
            Accelerator('chip', units=[tensor], memory=[dram])
        """
        return cls.from_document(load_document(mapping))

    @classmethod
    def from_document(cls, document: YamlDocument) -> "Accelerator":
        """Make an accelerator from a loaded YAML document; raises InputError with every problem."""
        problems = ProblemCollector()
        data = check_stated_twice(document.data, document, problems)
        accelerator = cls._read(dataclasses.replace(document, data=data), problems)
        accelerator.check_costs()
        return accelerator

    @classmethod
    def _read(cls, document: YamlDocument, problems: ProblemCollector) -> "Accelerator":
        """Validate a description with its links resolved; raises InputError with every problem, those collected before among them."""
        expanded = check_complete(add_links(add_technology_numbers(document.data)), document, problems)
        resolved, links, missing = resolve_links(expanded, cls, document, problems)
        accelerator = None
        with problems.collect():
            accelerator = document.validate(cls, resolved)
        for target in [each for each in missing if not any(map(each.is_explained_by, problems.problems))]:
            problems.add(target.problem)
        problems.raise_if_any()
        assert accelerator is not None
        accelerator._document, accelerator._links = document, links
        return accelerator

    @model_validator(mode="after")
    def _check_resources(self) -> Self:
        if errors := resource_errors(self.units, self.memory):
            raise nested_field_errors("Accelerator", errors)
        return self

    def check_costs(self) -> None:
        """Raise InputError if the costs are impossible; `replace` does not check them, as a clock may fall below a base clock."""
        impossible = impossible_costs(self.units, self.cost)
        if problems := [self.document.make_problem(loc, message, fix) for loc, message, fix in impossible]:
            raise InputError.from_problems(problems)

    @property
    def outermost(self) -> str:
        """The name of the outermost memory level."""
        return next(iter(self.memory))

    @property
    def base(self) -> "Accelerator":
        """The description that `replace` varied this one from, or the description itself."""
        return self._base or self

    @property
    def document(self) -> YamlDocument:
        """The description that the accelerator was read from."""
        if self._document is None:
            raise InputError(f"'{self.name}' has no description", "use dse.load_accelerator or Accelerator.from_dict")
        return self._document

    @property
    def links(self) -> Links:
        """The numbers that follow from other numbers of the description."""
        return self._links

    def without_links(self) -> "Accelerator":
        """A copy whose numbers are all stated ones, which change one by one."""
        if not self._links:
            return self
        copy = self.model_copy()
        copy._links = NO_LINKS
        return copy

    def value(self, path: str) -> Any:
        """The value at a dotted path: a float in SI units for a quantity; raises InputError if the path does not exist."""
        if path not in self._values:
            part = self.at(path)
            self._values[path] = part.value if isinstance(part, Quantity) else part
        return self._values[path]

    @cached_property
    def _values(self) -> dict[str, Any]:
        """The values that `value` has returned, since designs of a sweep read them again for every chunk."""
        return {}

    def at(self, path: str) -> Any:
        """The part of the description at a dotted path, with its source; raises InputError if the path does not exist."""
        part: object = self
        for name in path.split("."):
            if not has_child(part, name):
                raise self._unknown_path(path)
            part = part[name] if isinstance(part, Mapping) else getattr(part, name)
        return part

    def _unknown_path(self, path: str) -> InputError:
        return InputError(f"'{self.name}' has no '{path}'", did_you_mean(path, self.paths()))

    def paths(self) -> list[str]:
        """Every dotted path that a sweep may vary."""
        return list(self._paths)

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        leaves = [path for key in ("units", "memory", "overhead", "cost") for path in leaf_paths(getattr(self, key), key)]
        fixed = ("source", "kind", "unverified")
        return tuple(path for path in leaves if path.rpartition(".")[2] not in fixed or path.endswith(".format.kind"))

    def quantities(self) -> dict[str, Quantity]:
        """The quantities that the description states, by dotted path; defaults are left out."""
        return {path: part for path in self._paths if isinstance(part := self.at(path), Quantity) and part.text}

    def unverified(self) -> list[str]:
        """Dotted paths of the quantities, runs and left out scores that were not read at their source."""
        parts = (*self.quantities().items(), *self._runs().items(), *self.scores().items())
        return [path for path, part in parts if part.unverified]

    def scores(self) -> dict[str, Scores]:
        """Which scores of an attention the runs of all units leave out, by dotted path."""
        return {f"{path}.scores": run.scores for path, run in self._runs().items() if run.scores is not None}

    def _runs(self) -> dict[str, Run]:
        """The runs of all units, by dotted path."""
        return {f"units.{unit}.runs.{name}": run for unit in self.units for name, run in self.units[unit].runs.items()}

    def to_dict(self) -> dict[str, Any]:
        """The description as a mapping with the keys of its file, a copy; other files are named by absolute paths."""
        data = copy.deepcopy(dict(state_directly(self.document.data)))
        if self.efficiencies is not None:
            data["efficiencies"] = str((self.document.path.parent / self.efficiencies).resolve())
        return data

    def replace(self, values: Mapping[str, object]) -> "Accelerator":
        """Return a copy with other values at some dotted paths; the original stays as it is.

        Args:
            values: new values by dotted path (`paths()` lists them), written as in a YAML description.

        Raises:
            InputError: a path does not exist or a value is invalid; lists every problem with its dotted path and fix.

        Examples:
            >>> import dse
            >>> a100 = dse.load_accelerator("a100-sxm4-80gb")
            >>> faster = a100.replace({"memory.dram.bandwidth": "4 TB/s", "units.tensor_core.runs.sparse_24.gain": 3})
            >>> faster.value("memory.dram.bandwidth") / 1e12
            4.0
            >>> a100.value("memory.dram.bandwidth") / 1e12
            2.039
        """
        if unknown := values.keys() - set(self._paths):
            raise InputError.from_problems(self._unknown_path(path).problems[0] for path in sorted(map(str, unknown)))
        data = _rename_run_keys(self.document.data)
        for path, value in values.items():
            parent, _, key = path.rpartition(".")
            if parent.endswith(".format") and key != "kind":  # the description may have left the format to its default
                data = set_value(data, f"{parent}.kind".split("."), self.value(f"{parent}.kind"))
            data = set_value(data, path.split("."), to_yaml_types(value))
        try:
            varied = self._read(dataclasses.replace(self.document, data=data), ProblemCollector())
            varied._base = self.base
            return varied
        except InputError as error:  # the values are not those of the file, so its lines do not apply
            problems = [dataclasses.replace(p, file=None, line=None, key=p.key.removesuffix(".value")) for p in error.problems]
            raise InputError.from_problems(problems) from error

    def __repr__(self) -> str:
        return f"Accelerator('{self.name}', units=[{', '.join(self.units)}], memory=[{', '.join(self.memory)}])"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """A table of all quantities and runs with their own sources, for notebooks."""
        rows = {path: (path, quantity.text, quantity.kind, quantity.source) for path, quantity in self.quantities().items()}
        rows |= {path: (path, describe_run(run), run.kind, run.source) for path, run in self._runs().items()}
        rows |= {path: (path, str(scores), scores.kind, scores.source) for path, scores in self.scores().items()}
        caption = f"{self.name}: {self.description or 'an accelerator'}; source unless given below: {self.source}"
        return html_table(caption, ("path", "value", "kind", "source"), [rows[path] for path in self._paths_with_parents() if path in rows])

    def _paths_with_parents(self) -> list[str]:
        """Every dotted path, each parent before its children."""
        parts = [path.split(".") for path in self._paths]
        return list(dict.fromkeys(".".join(names[:count]) for names in parts for count in range(1, len(names) + 1)))


def _rename_run_keys(data: Mapping[str, Any]) -> Mapping[str, object]:
    """A copy of a valid description whose runs have the keys of dotted paths in place of their synonyms."""
    units = {
        name: {**unit, "runs": {run: rename_synonyms(keys) for run, keys in unit["runs"].items()}} if unit.get("runs") else unit
        for name, unit in data["units"].items()
    }
    return {**data, "units": units}


def read_accelerator(source: Path | Mapping[str, object]) -> Accelerator:
    """Read an accelerator from a YAML file or a mapping; raises InputError with every problem."""
    return Accelerator.from_document(load_document(source))
