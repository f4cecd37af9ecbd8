"""Quantities with a unit and a source: `312 TFLOP/s`, or `{value: 312 TFLOP/s, source: ..., kind: ...}`.

The registry knows the units of this domain and refuses all others. An OP is a FLOP, and a multiply-add counts as 2.
GB is 1e9 bytes, GiB 2**30.
"""

import math
import re
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from dse.base.errors import InputError
from dse.base.strict_model import StrictModel, field_error, validation_errors

_DEFINITIONS = (
    "kilo- = 1e3 = k-", "mega- = 1e6 = M-", "giga- = 1e9 = G-", "tera- = 1e12 = T-", "peta- = 1e15 = P-",
    "kibi- = 2**10 = Ki-", "mebi- = 2**20 = Mi-", "gibi- = 2**30 = Gi-", "tebi- = 2**40 = Ti-",
    "milli- = 1e-3 = m-", "micro- = 1e-6 = u- = µ-", "nano- = 1e-9 = n-", "pico- = 1e-12 = p-",
    "bit = [information]", "byte = 8 bit = B", "flop = [work] = FLOP", "op = flop = OP",
    "second = [time] = s", "hertz = 1 / second = Hz", "meter = [length] = m",
    "transfer = [] = T", "joule = [energy] = J", "watt = joule / second = W",
)  # fmt: skip

MAX_CHARACTERS = 400  # of a quantity: a float has at most 309 digits before its point
MAX_UNIT_CHARACTERS = 60  # pint parses a unit by recursion
_NUMBER = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?\.?(?:nan|inf)\b)\s*(.*)", re.IGNORECASE | re.ASCII)
_UNIT = re.compile(r"|[A-Za-zµ]+(\^[1-9])?(\s*[*/]\s*[A-Za-zµ]+(\^[1-9])?)*")
_VENDOR_RATE = re.compile(r"([kMGTP]?)(FLOP|OP)S", re.IGNORECASE)
_VENDOR_BANDWIDTH = re.compile(r"([kMGTP]i?)([Bb])ps")


@cache
def _registry() -> Any:
    import pint  # takes half a second: imported when the first quantity is parsed

    registry = pint.UnitRegistry(None)  # type: ignore[arg-type] # None: a registry without the default units
    for definition in _DEFINITIONS:
        registry.define(definition)
    return registry


def parse_quantity(text: str, kind: "type[Quantity]") -> float:
    """Parse a quantity and convert it to the SI unit of `kind`; raises InputError unless it is positive, finite and of that dimension."""
    match = _NUMBER.fullmatch(text.strip()) if len(text) <= MAX_CHARACTERS else None
    if match is None:
        raise InputError(f"'{text}' is not a quantity", kind.suggested_fix())
    number, unit = float(match[1].replace("_", "").replace(".nan", "nan").replace(".inf", "inf")), match[2]
    if not unit and kind.unit and math.isfinite(number):
        raise InputError(f"the number {match[1]} has no unit", kind.suggested_fix())
    magnitude = number * _unit_scale(unit, kind) if math.isfinite(number) else number
    if not math.isfinite(magnitude) or magnitude <= 0:
        raise InputError(f"'{text}' is not positive and finite", f"write a number above 0, as in '{kind.example}'")
    return magnitude


@cache
def _unit_scale(unit: str, kind: "type[Quantity]") -> float:
    """The size of a unit in the SI unit of `kind`."""
    scale = _parse_unit(unit, kind.suggested_fix())
    if scale.dimensionality != _registry().Quantity(1.0, kind.unit).dimensionality:
        raise InputError(f"'{unit}' is the wrong unit here", kind.suggested_fix())
    return float(scale.to(kind.unit).magnitude)


@cache
def base_unit(unit: str) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Size of a unit in base units (bit, FLOP, s, m, J), and the exponent of each base dimension; raises InputError for an unknown unit."""
    size = _parse_unit(unit, "write a unit such as FLOP/s, GB/s, bit, MHz or mm^2").to_base_units()
    return float(size.magnitude), tuple((name, float(power)) for name, power in sorted(size.dimensionality.items()))


def _parse_unit(unit: str, fix: str) -> Any:
    """A quantity of one unit; raises InputError for an unknown one, with the spelling of vendors corrected, or with `fix`."""
    from pint.errors import UndefinedUnitError

    try:
        if len(unit) > MAX_UNIT_CHARACTERS or not _UNIT.fullmatch(unit):
            raise UndefinedUnitError(unit)
        return _registry().Quantity(1.0, unit)
    except (UndefinedUnitError, ValueError, OverflowError) as error:  # ValueError: pint reads 'nan' as a number
        raise InputError(f"unknown unit '{unit}'", _vendor_spelling_fix(unit) or fix) from error


def _vendor_spelling_fix(unit: str) -> str:
    """The accepted spelling of a unit as vendors write it (TFLOPS, GBps); empty for other units."""
    if rate := _VENDOR_RATE.fullmatch(unit):
        return f"write '{rate[1]}{rate[2].upper()}/s'"
    if bandwidth := _VENDOR_BANDWIDTH.fullmatch(unit):
        return f"write '{bandwidth[1]}{'B' if bandwidth[2] == 'B' else 'bit'}/s'"
    return ""


SourceKind = Literal["datasheet", "measured", "assumed", "derived"]
SOURCE = "where the number was read; default: the source of the file"
SOURCE_KIND = "whether the number is from a data sheet, measured, assumed, or derived from others"
UNVERIFIED = "whether the number was not read at its source; results that use it say so"


UNIT_KEYWORD = "x-unit"  # of a JSON Schema: the SI unit of a quantity


class Quantity(StrictModel):
    """A number with its source: `value` is in the SI `unit` of the class, `text` as the user wrote it."""

    unit: ClassVar[str] = ""
    example: ClassVar[str] = "2"
    is_whole: ClassVar[bool] = False  # in the SI unit

    @classmethod
    def suggested_fix(cls) -> str:
        dimension = f"a quantity in {cls.unit}" if cls.unit else "a plain number"
        return f"write {dimension}, as in '{cls.example}'"

    value: float
    link: str | None = Field(
        default=None,
        description="in place of 'value': an expression over other numbers of this description by their dotted paths",
        examples=["units.tensor_core.peak.int8 / 2"],
    )
    source: str | None = Field(default=None, description=SOURCE, examples=["vendor white paper, table 2"])
    kind: SourceKind = Field(default="datasheet", description=SOURCE_KIND)
    unverified: bool = Field(default=False, description=UNVERIFIED)
    text: str = ""

    @model_validator(mode="before")
    @classmethod
    def _accept_plain(cls, data: object) -> object:
        fields = data if isinstance(data, dict) else {"value": data}
        if fields.get("link") is not None and "value" in fields:  # the text of a computed value
            return fields
        return {**fields, "text": str(fields.get("value", ""))}

    @field_validator("value", mode="before")
    @classmethod
    def _parse_text(cls, value: object) -> float:
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        with validation_errors():
            return parse_quantity(str(value) if plain else repr(value), cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        mapping = handler.resolve_ref_schema(handler(schema))
        mapping["properties"].pop("text", None)
        plain = {"type": "string" if cls.unit else "number", "examples": [cls.example]}
        mapping["properties"]["value"] = {**plain, "description": "the number" + (", with its unit" if cls.unit else "")}
        mapping.pop("required", None)
        mapping["oneOf"] = [{"required": ["value"]}, {"required": ["link"]}]
        return {"anyOf": [plain, mapping], "examples": [cls.example], UNIT_KEYWORD: cls.unit}


class Rate(Quantity):
    unit, example = "FLOP/s", "312 TFLOP/s"


class Bandwidth(Quantity):
    unit, example = "B/s", "2039 GB/s"


class Frequency(Quantity):
    unit, example = "Hz", "1.41 GHz"


class TransferRate(Quantity):
    """Transfers of each data pin; a transfer is one bit."""

    unit, example = "T/s", "8.533 GT/s"


class Capacity(Quantity):
    unit, example = "B", "80 GB"


class Width(Quantity):
    unit, example = "bit", "32 bit"
    is_whole = True

    @field_validator("value")
    @classmethod
    def _check_whole(cls, value: float) -> float:
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


class Energy(Quantity):
    unit, example = "J", "5 mJ"


class EnergyPerOperation(Quantity):
    unit, example = "J/FLOP", "0.5 pJ/FLOP"


class EnergyPerByte(Quantity):
    unit, example = "J/B", "48 pJ/B"


class Count(Quantity):
    """A whole number of at least 1."""

    example, is_whole = "108", True

    @field_validator("value")
    @classmethod
    def _check_whole(cls, value: float) -> float:
        if value < 1 or value != int(value):
            raise field_error(f"{value:g} is not a count", "write a whole number of at least 1")
        return value


class MultiplyAdds(Quantity):
    """Multiply-adds of one processor in a cycle, each 2 FLOP."""

    example = "1024"


class Gain(Quantity):
    """A dimensionless factor of at least 1."""

    @field_validator("value")
    @classmethod
    def _check_at_least_one(cls, value: float) -> float:
        if value < 1:
            raise field_error(f"a gain of {value:g} is a slowdown", "write at least 1, or lower 'efficiency' instead")
        return value


class Efficiency(Quantity):
    """A fraction of the peak, 0 < E <= 1."""

    example = "0.8"

    @field_validator("value")
    @classmethod
    def _check_at_most_one(cls, value: float) -> float:
        if value > 1:
            raise field_error(f"an efficiency of {value:g} is above the peak", "write a fraction of the peak, 0 < efficiency <= 1")
        return value


KIND_BY_UNIT: dict[str, type[Quantity]] = {kind.unit: kind for kind in Quantity.__subclasses__() if kind.unit}  # those of this module


def format_count(number: float) -> str:
    """Format a number with four digits and a prefix: 6.738 G."""
    prefix, factor = next((p, f) for p, f in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1)) if number >= f or f == 1)
    return f"{number / factor:.4g} {prefix}".rstrip()
