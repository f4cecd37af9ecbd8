"""Links: numbers of a description that follow from other numbers of it, `fp16: {link: units.matrix.peak.int8 / 2}`.

`resolve_links` computes them once, when a description is read. `Links.evaluate` computes them again where other numbers are replaced, as by
the axes of a sweep: that is the only place where a value of an axis becomes the values of all numbers that follow from it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import TypeVar, get_args, get_origin

import numpy as np
from pydantic import BaseModel, ValidationError

from dse.base.display_units import format_quantity
from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.base.formula import Formula, joined_variables, parse_formula
from dse.base.units import Quantity
from dse.base.yaml_document import YamlDocument
from dse.schema.dotted_paths import set_value

Value = TypeVar("Value")  # a number, or an array of NumPy or JAX
Location = tuple[str, ...]  # the keys of a number, from the top of a description


@dataclass(frozen=True)
class Links:
    """The formula of each linked number by dotted path; every formula comes after those that it uses."""

    formulas: Mapping[str, Formula] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.formulas)

    def dependents(self, paths: Iterable[str]) -> list[str]:
        """The linked numbers that change with the numbers at some paths; a number that is replaced itself follows nothing."""
        given, changed = set(paths), dict[str, None]()
        for path, formula in self.formulas.items():
            if path not in given and any(name in given or name in changed for name in formula.names):
                changed[path] = None
        return list(changed)

    def sources(self, path: str, given: Iterable[str]) -> frozenset[str]:
        """Which of the `given` paths the number at `path` depends on."""
        given = set(given)
        if path in given or path not in self.formulas:
            return frozenset({path} & given)
        return frozenset().union(*(self.sources(name, given) for name in self.formulas[path].names))

    def roots(self, path: str) -> list[str]:
        """The stated numbers that the number at `path` follows from; itself, if it is stated."""
        if path not in self.formulas:
            return [path]
        return list(dict.fromkeys(root for name in self.formulas[path].names for root in self.roots(name)))

    def joined(self, path: str, given: Iterable[str]) -> set[frozenset[str]]:
        """Sets of `given` paths of which the number at `path` is not a product of functions of one path each, as in a sum."""
        given = set(given)
        if path in given or path not in self.formulas:
            return set()
        return joined_variables(self.formulas[path], lambda name: self.sources(name, given), lambda name: self.joined(name, given))

    def evaluate(self, values: Mapping[str, Value], described: Callable[[str], Value], array_module: ModuleType = np) -> dict[str, Value]:
        """The linked numbers that change with `values` (numbers or arrays by path, in SI units), by path.

        `described`: the value of the description at a path.
        """
        computed: dict[str, Value] = {}
        for path in self.dependents(values):
            formula = self.formulas[path]
            known = {name: values[name] if name in values else computed.get(name) for name in formula.names}
            computed[path] = formula.evaluate({n: described(n) if v is None else v for n, v in known.items()}, array_module)
        return computed


NO_LINKS = Links()


@dataclass(frozen=True)
class MissingTarget:
    """A link to a number that the description does not give: the dotted path of that number, and the problem to report."""

    path: str
    problem: Problem

    def is_explained_by(self, other: Problem) -> bool:
        """Whether another problem is the reason: at the number itself, at a part that holds it, or at a sibling, as a misspelt key."""
        parent, _, _ = self.path.rpartition(".")
        return bool(other.key) and (f"{self.path}.".startswith(f"{other.key}.") or other.key.rpartition(".")[0] == parent)


def resolve_links(
    data: Mapping[str, object], model: type[BaseModel], document: YamlDocument, problems: ProblemCollector
) -> tuple[Mapping[str, object], Links, list[MissingTarget]]:
    """Replace each link in the data of a description by its value, with the formula as its source; collects every problem.

    A number whose link has a problem gets the example of its kind, so that the rest can be checked. Links to numbers that the description
    does not give are returned: another problem of the description may be the reason.
    """
    resolver = _Resolver(data, model, document, problems)
    if not resolver.links:
        return data, NO_LINKS, []
    return *resolver.resolve(), resolver.missing


class _MissingTargetError(InputError):
    """Raised for a link to the number at `path`, which the description does not give."""

    def __init__(self, path: str, fix: str):
        super().__init__(f"the description gives no number '{path}'", fix)
        self.path = path


class _Resolver:
    """Resolve the links of one description."""

    def __init__(self, data: Mapping[str, object], model: type[BaseModel], document: YamlDocument, problems: ProblemCollector):
        self.data, self.model, self.document, self.problems = data, model, document, problems
        self.stated = dict(_quantities(data, model, ()))
        self.paths = {".".join(loc): loc for loc in self.stated}
        self.links: dict[Location, Mapping[str, object]] = {
            loc: raw for loc, raw in self.stated.items() if isinstance(raw, Mapping) and "link" in raw
        }
        self.formulas: dict[Location, Formula] = {}
        self.values: dict[Location, float | None] = {}
        self.missing: list[MissingTarget] = []

    def resolve(self) -> tuple[Mapping[str, object], Links]:
        for loc, raw in self.links.items():
            try:
                self.formulas[loc] = self._parse(loc, raw)
            except _MissingTargetError as error:
                self.missing.append(MissingTarget(error.path, self._located(loc, error)))
            except InputError as error:
                self.problems.add(self._located(loc, error))
        ordered = self._in_order()
        resolved = self.data
        for loc in self.links:
            resolved = set_value(resolved, loc, {"value": self._kind(loc).example})
        for loc in ordered:
            self.values[loc] = self._evaluate(loc)
            if self.values[loc] is not None:
                resolved = set_value(resolved, loc, self._derived(loc))
        return resolved, Links({".".join(loc): self.formulas[loc] for loc in ordered})

    def _located(self, loc: Location, error: InputError) -> Problem:
        """The problem of a link, with its place in the description."""
        (problem,) = error.problems
        return self.document.make_problem(loc, problem.message, problem.fix)

    def _kind(self, loc: Location) -> type[Quantity]:
        kind = quantity_kind(self.model, loc)
        assert kind is not None, "only places of quantities are listed"
        return kind

    def _parse(self, loc: Location, raw: Mapping[str, object]) -> Formula:
        if "value" in raw:
            raise InputError("a number has 'value' or 'link', not both", "remove one of them")
        if not isinstance(raw["link"], str):
            raise InputError(f"'{raw['link']}' is not a formula", "write text, as in 'units.matrix.peak.int8 / 2'")
        return parse_formula(raw["link"], self._kind(loc), self._kind_at)

    def _kind_at(self, path: str) -> type[Quantity]:
        if path not in self.paths:
            raise _MissingTargetError(path, did_you_mean(path, self.paths))
        return self._kind(self.paths[path])

    def _in_order(self) -> list[Location]:
        """The links, each after those that it uses; without those that use each other in a cycle, which are reported."""
        ordered, cyclic, broken = list[Location](), set[Location](), set[Location](self.links.keys() - self.formulas.keys())

        def visit(loc: Location, trail: list[Location]) -> None:
            if loc in trail:
                cycle = trail[trail.index(loc) :]
                if not cyclic & set(cycle):
                    names = " -> ".join(".".join(map(str, each)) for each in [*cycle, loc])
                    self.problems.add(self.document.make_problem(loc, f"links form a cycle: {names}", "give one of them a value"))
                cyclic.update(cycle)
                return
            if loc in ordered or loc not in self.formulas:
                return
            used = [self.paths[name] for name in self.formulas[loc].names]
            for name in used:
                visit(name, [*trail, loc])
            if loc in cyclic or any(name in broken or name in cyclic for name in used):
                broken.add(loc)
            elif loc not in ordered:
                ordered.append(loc)

        for loc in self.formulas:
            visit(loc, [])
        return ordered

    def _evaluate(self, loc: Location) -> float | None:
        """The value of a link; None if a number that it uses is not valid, or if it has a problem of its own."""
        formula = self.formulas[loc]
        values = {name: self._value(self.paths[name]) for name in formula.names}
        used = {name: value for name, value in values.items() if value is not None}
        if len(used) < len(values):
            return None
        value = formula.evaluate(used, np)
        if np.isfinite(value) and np.isreal(value) and value > 0:
            return float(np.real(value))
        problem = (
            "divides by zero, or is not a finite number" if not np.isfinite(value) else f"is {value:g} {self._kind(loc).unit}".rstrip()
        )
        self.problems.add(self.document.make_problem(loc, f"'{formula.text}' {problem}", "write a formula that gives a positive number"))
        return None

    def _value(self, loc: Location) -> float | None:
        if loc in self.links:
            return self.values.get(loc)
        try:
            return self._kind(loc).model_validate(self.stated[loc]).value
        except ValidationError:
            return None

    def _derived(self, loc: Location) -> dict[str, object]:
        """The mapping of a computed number."""
        raw, formula, value, unit = self.links[loc], self.formulas[loc], self.values[loc], self._kind(loc).unit
        assert value is not None
        own = f"; {raw['source']}" if raw.get("source") else ""
        text = format_quantity(value, unit or "1")
        fields = {"value": f"{value!r} {unit}".strip(), "text": text, "kind": "derived", "source": f"= {formula.text}{own}"}
        return {**raw, **fields}


def _quantities(data: object, part: object, loc: Location) -> Iterator[tuple[Location, object]]:
    """The places of numbers in the data of a description, with what it states there."""
    for name, raw in data.items() if isinstance(data, Mapping) else ():
        child = _child_type(part, str(name))
        if isinstance(child, type) and issubclass(child, Quantity):
            if raw is not None:
                yield (*loc, name), raw
        elif child is not None:
            yield from _quantities(raw, child, (*loc, name))


def quantity_kind(model: type[BaseModel], loc: Location) -> type[Quantity] | None:
    """The kind of number at a place of a description; None where it has no number."""
    part: object = model
    for name in loc:
        part = _child_type(part, str(name))
    return part if isinstance(part, type) and issubclass(part, Quantity) else None


@cache
def _child_type(part: object, name: str) -> object:
    """The schema of a child: a model, a kind of number or a mapping of these; None for anything else."""
    if isinstance(part, type) and issubclass(part, BaseModel):
        annotation = part.model_fields[name].annotation if name in part.model_fields else None
    else:
        annotation = get_args(part)[1] if get_origin(part) is dict else None
    return _schema_of(annotation)


def _schema_of(annotation: object) -> object:
    options = [each for each in get_args(annotation) if each is not type(None)] if get_origin(annotation) is not dict else []
    if len(options) == 1:
        return _schema_of(options[0])
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if is_model or get_origin(annotation) is dict else None
