"""Macro-parameters: the numbers that peaks, bandwidths and capacities follow from.

    peak      = 2 FLOP x macs x processors x clock      of a unit, for each dtype with `macs`
    bandwidth = channels x width x rate                 of a memory level
    capacity  = channels x channel_capacity             of a memory level

The width and the rate may be those of the memory technology. They become links, so that a sweep over a macro-parameter changes what follows
from it. A description may state both forms if they agree to `TOLERANCE`; the product is then used. A number that a sweep, a search or
`replace` sets directly is kept as it is set.
"""

import re
from collections.abc import Iterator, Mapping

import numpy as np
from pydantic import ValidationError

from dse.base.display_units import format_quantity
from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.base.errors import ProblemCollector
from dse.base.formula import parse_formula
from dse.base.units import Bandwidth, Capacity, Count, Frequency, MultiplyAdds, Quantity, Rate, TransferRate, Width
from dse.base.yaml_document import YamlDocument
from dse.schema.compute_unit import IDENTIFIER
from dse.schema.memory_technology import add_technology_numbers

TOLERANCE = 0.01  # relative: data sheets round peaks and clocks to three digits
_LEVEL = {
    "bandwidth": (Bandwidth, {"channels": Count, "width": Width, "rate": TransferRate}),
    "capacity": (Capacity, {"channels": Count, "channel_capacity": Capacity}),
}
Location = tuple[str, ...]
Data = Mapping[str, object]  # of a description, as YAML states it


def add_links(data: Data) -> Data:
    """The data of a description with a link for each number that follows from macro-parameters and is not stated.

    Units and levels whose names no formula can have get any number: the schema reports their names only.
    """
    for loc, formula, _ in _derivable(data):
        if _at(data, loc) is None:
            data = _insert(data, loc, {"link": formula} if _has_valid_name(loc) else _kind(loc).example)
    return data


def check_stated_twice(data: Data, document: YamlDocument, problems: ProblemCollector) -> Data:
    """Check the numbers that are stated and also follow from macro-parameters; returns the data without those that agree."""
    expanded = add_technology_numbers(data)
    for loc, formula, kinds in _derivable_of_stated(data):
        stated = _at(data, loc)
        if stated is None or (isinstance(stated, Mapping) and "link" in stated) or not _has_valid_name(loc):
            continue
        kind = _kind(loc)
        derived = _evaluate(formula, kind, {path: (each, _at(expanded, tuple(path.split(".")))) for path, each in kinds.items()})
        value = _value(kind, stated)
        if derived is None or value is None:
            continue
        if abs(derived - value) > TOLERANCE * value:
            message = f"stated as {format_quantity(value, kind.unit)}, but {formula} is {format_quantity(derived, kind.unit)}"
            problems.add(document.make_problem(loc, message, _fix_of_disagreement(data, loc)))
        else:
            data = _insert(data, loc, None)
    return data


def state_directly(data: Data) -> Data:
    """The data with each number that is stated next to macro-parameters as a formula of its own, so that it is read back as it is."""
    for loc, _, _ in _derivable_of_stated(data):
        stated = _at(data, loc)
        if stated is not None and not (isinstance(stated, Mapping) and "link" in stated):
            fields = dict(stated) if isinstance(stated, Mapping) else {"value": stated}
            data = _insert(data, loc, {"link": str(fields.pop("value")), **fields})
    return data


def _fix_of_disagreement(data: object, loc: Location) -> str:
    """What to write instead of a number that differs from the product of its macro-parameters."""
    technology = _at(data, (*loc[:-1], "technology"))
    if loc[-1] != "bandwidth" or technology is None:
        return "remove one of them, or make them agree to 1%"
    return f"remove 'bandwidth' to take that of the channels of {technology}, or remove 'channels' to keep the one that is stated"


def check_complete(data: Data, document: YamlDocument, problems: ProblemCollector) -> Data:
    """Report units and memory levels whose macro-parameters lack one that a peak or a bandwidth needs.

    Returns the data with any number in the place of these peaks and bandwidths, so that they are not reported as missing as well.
    """
    completed = data
    for name, unit in _items(data, "units"):
        missing = [key for key in ("processors", "clock") if unit.get(key) is None]
        if unit.get("macs") and missing and any(_at(unit, ("peak", dtype)) is None for dtype in _keys(unit["macs"])):
            message = "peaks follow from macs x processors x clock, of which " + " and ".join(f"'{key}'" for key in missing)
            fix = "add " + " and ".join(
                f"'{key}: {kind.example}'" for key, kind in (("processors", Count), ("clock", Frequency)) if key in missing
            )
            problems.add(document.make_problem(("units", name, "macs"), f"{message} is missing", fix))
            for dtype in _keys(unit["macs"]):
                place = ("units", name, "peak", dtype)
                completed = completed if _at(completed, place) is not None else _insert(completed, place, Rate.example)
    for name, level in _items(data, "memory"):
        keys = _LEVEL["bandwidth"][1]
        missing = [key for key in keys if level.get(key) is None]
        if level.get("bandwidth") is None and missing and any(level.get(key) is not None for key in ("width", "rate")):
            present = next(key for key in ("technology", "rate", "width") if level.get(key) is not None)
            message = f"the bandwidth follows from channels x width x rate, of which {' and '.join(map(repr, missing))} is missing"
            examples = " and ".join(f"'{key}: {8 if key == 'channels' else keys[key].example}'" for key in missing)
            fix = f"add {examples}, or 'bandwidth'"
            problems.add(document.make_problem(("memory", name, present), message, fix))
            completed = _insert(completed, ("memory", name, "bandwidth"), Bandwidth.example)
    return completed


def _derivable(data: object) -> Iterator[tuple[Location, str, dict[str, type[Quantity]]]]:
    """Each number that macro-parameters of the data give: its place, its formula, and the kind of each number that this uses."""
    for name, unit in _items(data, "units"):
        path = f"units.{name}"
        if unit.get("processors") is None or unit.get("clock") is None:
            continue
        for dtype in _keys(unit.get("macs")):
            if storage_dtype(dtype) in BITS_PER_ELEMENT:
                kinds: dict[str, type[Quantity]] = {
                    f"{path}.macs.{dtype}": MultiplyAdds, f"{path}.processors": Count, f"{path}.clock": Frequency,
                }  # fmt: skip
                yield ("units", name, "peak", dtype), "2 FLOP * " + " * ".join(kinds), kinds
    for name, level in _items(data, "memory"):
        for key, (_, factors) in _LEVEL.items():
            if all(level.get(factor) is not None for factor in factors):
                paths = {f"memory.{name}.{factor}": kind for factor, kind in factors.items()}
                yield ("memory", name, key), " * ".join(paths), paths


def _derivable_of_stated(data: Data) -> Iterator[tuple[Location, str, dict[str, type[Quantity]]]]:
    """What macro-parameters of a description give, with the width and the rate of the technology where channels are stated.

    The capacity of a channel of a technology is only the usual one, so it gives no capacity of a level that states its own.
    """
    stated = {loc for loc, _, _ in _derivable(data)}
    for loc, formula, kinds in _derivable(add_technology_numbers(data)):
        if loc in stated or loc[-1] == "bandwidth":
            yield loc, formula, kinds


def _has_valid_name(loc: Location) -> bool:
    return re.fullmatch(IDENTIFIER, loc[1]) is not None


def _kind(loc: Location) -> type[Quantity]:
    return Rate if loc[0] == "units" else _LEVEL[loc[-1]][0]


def _evaluate(formula: str, kind: type[Quantity], numbers: Mapping[str, tuple[type[Quantity], object]]) -> float | None:
    values = {path: value for path, (each, raw) in numbers.items() if (value := _value(each, raw)) is not None}
    if len(values) < len(numbers):
        return None
    return float(parse_formula(formula, kind, lambda path: numbers[path][0]).evaluate(values, np))


def _value(kind: type[Quantity], raw: object) -> float | None:
    """The SI value of what a description states; None if that is a link or not valid."""
    if isinstance(raw, Mapping) and "link" in raw:
        return None
    try:
        return kind.model_validate(raw).value
    except ValidationError:
        return None


def _items(data: object, key: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    section = data.get(key) if isinstance(data, Mapping) else None
    for name, part in section.items() if isinstance(section, Mapping) else ():
        if isinstance(part, Mapping):
            yield str(name), part


def _keys(part: object) -> list[str]:
    return [str(name) for name in part] if isinstance(part, Mapping) else []


def _at(data: object, loc: Location) -> object:
    for name in loc:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def _insert(data: Data, loc: Location, value: object) -> Data:
    """A copy with `value` at `loc`, or without anything there if it is None; left as it is where it has no mappings."""
    head, *rest = loc
    if not rest:
        return {name: part for name, part in data.items() if name != head} if value is None else {**data, head: value}
    part = {} if data.get(head) is None else data[head]
    return {**data, head: _insert(part, tuple(rest), value) if isinstance(part, Mapping) else part}
