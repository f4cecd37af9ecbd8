"""Quantities: odd numbers with odd units, as text, as parsed YAML values, and in every kind."""

import math
from pathlib import Path
from random import Random
from typing import Any

from pydantic import ValidationError

from dse.base import units
from dse.base.units import Quantity
from tests.fuzz import odd
from tests.fuzz.outcome import call

CASES = 300
_KINDS: tuple[type[Quantity], ...] = tuple(sorted(Quantity.__subclasses__(), key=lambda kind: kind.__name__))
_UNITS = (
    "B",
    "bit",
    "FLOP",
    "OP",
    "s",
    "Hz",
    "J",
    "W",
    "m",
    "byte",
    "second",
    "hertz",
    "x",
    "dimensionless",
    "degC",
    "radian",
    "%",
    "1",
    "TFLOPS",
    "GBps",
    "e",
    "pi",
    "inf",
    "nan",
)
_PREFIXES = ("", "", "", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "m", "u", "µ", "n", "p", "E", "Z", "da", "kk", "µµ", "\u03bc")  # fmt: skip


def case(random: Random, folder: Path) -> str:
    kind = random.choice(_KINDS)
    text = _text(random) if random.random() < 0.6 else odd.damaged(random, random.choice([kind.example, "3 GB", "2 kW", "1e-3 TB/s"]))
    outcome = call(units.parse_quantity, text, kind)
    if outcome == "accepted":
        value = units.parse_quantity(text, kind)
        assert 0 < value < math.inf
    value = random.choice([text, _plain(random), {"value": text}, {"value": _plain(random), "kind": odd.text(random)}])
    try:
        quantity = kind.model_validate(value)
    except ValidationError:
        return f"{outcome}, refused"
    assert 0 < quantity.value < math.inf
    return f"{outcome}, accepted"


def _text(random: Random) -> str:
    if random.random() < 0.1:
        return random.choice(["/", "*", "^2", " ", "B", "B/", "m^", "(", "B//"]) * random.choice([1, 50, 5000])
    number = odd.number(random) if random.random() < 0.6 else f"{random.uniform(0, 1000):g}"
    written = f"{number}{random.choice(['', ' ', ' ', '  '])}{_unit(random)}"
    return odd.damaged(random, written) if random.random() < 0.2 else written


def _unit(random: Random) -> str:
    factors = random.choice([0, 1, 1, 1, 2, 2, 3, 10, 1000, 20_000])
    some = [
        f"{random.choice(_PREFIXES)}{random.choice(_UNITS)}{random.choice(['', '', '^2', '^9', '**2', '^-1', '²'])}"
        for _ in range(min(factors, 5))
    ]
    signs = random.choices(["/", "*", " / ", " * ", " ", "//", "per"], [4, 4, 1, 1, 1, 0.3, 0.3], k=min(factors, 5))
    return "".join(f"{some[place % 5]}{signs[place % 5]}" for place in range(factors)).rstrip("/* ")


def _plain(random: Random) -> Any:
    """What a YAML loader may return."""
    return random.choice(
        [True, None, [], {}, 0, -1, 3, 10**400, 2.5, 1e308, math.nan, -math.inf, b"x", [1], {"value": 1}, 10**5000, object()]
    )
