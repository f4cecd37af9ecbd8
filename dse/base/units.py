"""Quantities with a unit and a source: `312 TFLOP/s`, or `{value: 312 TFLOP/s, source: ..., kind: ...}`.

The registry is closed: it knows the units of this domain and refuses all others. An OP is a FLOP, a
multiply-add counts as 2. GB is 1e9 bytes, GiB 2**30.
"""

import math
import re
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import GetJsonSchemaHandler, field_validator, model_validator
from pydantic_core import CoreSchema

from dse.base.errors import InputError
from dse.base.strict_model import StrictModel, field_error

_DEFINITIONS = (
    "kilo- = 1e3 = k-", "mega- = 1e6 = M-", "giga- = 1e9 = G-", "tera- = 1e12 = T-", "peta- = 1e15 = P-",
    "kibi- = 2**10 = Ki-", "mebi- = 2**20 = Mi-", "gibi- = 2**30 = Gi-", "tebi- = 2**40 = Ti-",
    "milli- = 1e-3 = m-", "micro- = 1e-6 = u- = µ-", "nano- = 1e-9 = n-", "pico- = 1e-12 = p-",
    "bit = [information]", "byte = 8 bit = B", "flop = [work] = FLOP", "op = flop = OP",
    "second = [time] = s", "hertz = 1 / second = Hz", "meter = [length] = m",
    "joule = [energy] = J", "watt = joule / second = W",
)  # fmt: skip

MAX_CHARACTERS = 400  # of a quantity: a float has at most 309 digits before its point
MAX_UNIT_CHARACTERS = 60  # characters; pint reads a unit by recursion
_NUMBER = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?\.?(?:nan|inf)\b)\s*(.*)", re.IGNORECASE | re.ASCII)
_UNIT = re.compile(r"|[A-Za-zµ]+(\^[1-9])?(\s*[*/]\s*[A-Za-zµ]+(\^[1-9])?)*")
_VENDOR_RATE = re.compile(r"([kMGTP]?)(FLOP|OP)S", re.IGNORECASE)
_VENDOR_BANDWIDTH = re.compile(r"([kMGTP]i?)([Bb])ps")


@cache
def _registry() -> Any:
    import pint  # half a second: only once a quantity is read

    registry = pint.UnitRegistry(None)  # type: ignore[arg-type] # no file: a registry without the default units
    for definition in _DEFINITIONS:
        registry.define(definition)
    return registry


def parse_quantity(text: str, kind: "type[Quantity]") -> float:
    """The magnitude of `text` in the unit of `kind`; raises InputError for what is not a positive, finite one of its dimension."""
    match = _NUMBER.fullmatch(text.strip()) if len(text) <= MAX_CHARACTERS else None
    if match is None:
        raise InputError(f"'{text}' is not a quantity", kind.suggested_fix())
    number, written = float(match[1].replace("_", "").replace(".nan", "nan").replace(".inf", "inf")), match[2]
    if not written and kind.unit and math.isfinite(number):
        raise InputError(f"the number {match[1]} has no unit", kind.suggested_fix())
    magnitude = number * _scale(written, kind) if math.isfinite(number) else number
    if not math.isfinite(magnitude) or magnitude <= 0:
        raise InputError(f"'{text}' is not positive and finite", f"write a number above 0, as in '{kind.example}'")
    return magnitude


@cache
def _scale(written: str, kind: "type[Quantity]") -> float:
    """How many of the unit of `kind` one `written` unit is."""
    from pint.errors import UndefinedUnitError

    registry = _registry()
    try:
        if len(written) > MAX_UNIT_CHARACTERS or not _UNIT.fullmatch(written):
            raise UndefinedUnitError(written)
        scale = registry.Quantity(1.0, written)
    except (UndefinedUnitError, ValueError, OverflowError) as error:  # ValueError: pint reads 'nan' as a number
        raise InputError(f"unknown unit '{written}'", _spelling(written) or kind.suggested_fix()) from error
    if scale.dimensionality != registry.Quantity(1.0, kind.unit).dimensionality:
        raise InputError(f"'{written}' is the wrong unit here", kind.suggested_fix())
    return float(scale.to(kind.unit).magnitude)


def _spelling(written: str) -> str:
    """The accepted form of what vendors write."""
    if rate := _VENDOR_RATE.fullmatch(written):
        return f"write '{rate[1]}{rate[2].upper()}/s'"
    if bandwidth := _VENDOR_BANDWIDTH.fullmatch(written):
        return f"write '{bandwidth[1]}{'B' if bandwidth[2] == 'B' else 'bit'}/s'"
    return ""


SourceKind = Literal["datasheet", "measured", "assumed", "derived"]


class Quantity(StrictModel):
    """A sourced number: `value` is in the SI `unit` of the class, `text` is as written."""

    unit: ClassVar[str] = ""
    example: ClassVar[str] = "2"

    @classmethod
    def suggested_fix(cls) -> str:
        dimension = f"one of dimension {cls.unit}" if cls.unit else "a plain number"
        return f"write {dimension}, as in '{cls.example}'"

    value: float
    source: str | None = None
    kind: SourceKind = "datasheet"
    unverified: bool = False
    text: str = ""

    @model_validator(mode="before")
    @classmethod
    def _accept_plain(cls, data: Any) -> Any:
        stated = data if isinstance(data, dict) else {"value": data}
        return {**stated, "text": str(stated.get("value", ""))}

    @field_validator("value", mode="before")
    @classmethod
    def _convert(cls, value: Any) -> float:
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        try:
            return parse_quantity(str(value) if plain else repr(value), cls)
        except InputError as error:
            problem = error.problems[0]
            raise field_error(problem.message, problem.fix) from error

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        stated = handler.resolve_ref_schema(handler(schema))
        stated["properties"].pop("text", None)
        plain = {"type": "string", "examples": [cls.example]} if cls.unit else {"type": "number"}
        stated["properties"]["value"] = plain
        return {"anyOf": [plain, stated], "examples": [cls.example]}


class Rate(Quantity):
    unit, example = "FLOP/s", "312 TFLOP/s"


class Bandwidth(Quantity):
    unit, example = "B/s", "2039 GB/s"


class Capacity(Quantity):
    unit, example = "B", "80 GB"


class Width(Quantity):
    unit, example = "bit", "32 bit"

    @field_validator("value")
    @classmethod
    def _whole(cls, value: float) -> float:
        if value < 1 or value % 1:
            raise field_error(f"{value:g} bit is not a whole number of bits", f"write at least 1 bit, as in '{cls.example}'")
        return value


class Time(Quantity):
    unit, example = "s", "2.5 us"


class Area(Quantity):
    unit, example = "m^2", "826 mm^2"


class Length(Quantity):
    unit, example = "m", "7 nm"


class Power(Quantity):
    unit, example = "W", "400 W"


class Count(Quantity):
    """How many there are of something, at least 1."""

    example = "108"

    @field_validator("value")
    @classmethod
    def _whole(cls, value: float) -> float:
        if value < 1 or value != int(value):
            raise field_error(f"{value:g} is no count", "write a whole number of at least 1")
        return value


class Gain(Quantity):
    """A dimensionless factor of at least 1."""

    @field_validator("value")
    @classmethod
    def _at_least_one(cls, value: float) -> float:
        if value < 1:
            raise field_error(f"a gain of {value:g} is a slowdown", "write at least 1, or lower 'efficiency' instead")
        return value


class Efficiency(Quantity):
    """A share of the peak, 0 < E <= 1."""

    example = "0.8"

    @field_validator("value")
    @classmethod
    def _at_most_one(cls, value: float) -> float:
        if value > 1:
            raise field_error(f"an efficiency of {value:g} is above the peak", "write a share of the peak, 0 < efficiency <= 1")
        return value


def format_count(number: float) -> str:
    """Four digits and a prefix: 6.738 G."""
    prefix, factor = next((p, f) for p, f in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1)) if number >= f or f == 1)
    return f"{number / factor:.4g} {prefix}".rstrip()
