"""Units in which people read results: mm^2, TB/s, ms. Arrays and files keep SI base units; only what is displayed is converted.

A column of values gets one unit, with the prefix that suits its median; areas are always in mm^2 and powers in W.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

Scale = tuple[tuple[str, float], ...]  # units and their size in the SI unit, smallest first


def _prefixes(unit: str, prefixes: str, denominator: str = "") -> Scale:
    """Scale of a unit with prefixes, as in 'GTP'; '1' is no prefix."""
    factors = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "1": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
    return tuple((f"{prefix.removeprefix('1')}{unit}{denominator}", factors[prefix]) for prefix in prefixes)


DECIMAL_BYTES = _prefixes("B", "1kMGT")
BINARY_BYTES: Scale = tuple((unit, 1024.0**power) for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB")))
SCALES: dict[str, Scale] = {
    "s": _prefixes("s", "num1"),
    "FLOP/s": _prefixes("FLOP", "GTP", "/s"),
    "B/s": _prefixes("B", "MGT", "/s"),
    "FLOP": _prefixes("FLOP", "MGT"),
    "B": DECIMAL_BYTES,
    "m^2": (("mm^2", 1e-6),),
    "m": (("nm", 1e-9),),
    "J": _prefixes("J", "num1"),
    "J s": (("uJ s", 1e-6), ("mJ s", 1e-3), ("J s", 1.0)),
    "J/FLOP": (("pJ/FLOP", 1e-12),),
    "J/B": (("pJ/B", 1e-12),),
    "1/(s m^2)": (("samples/s/mm^2", 1e6),),
    "1/J": (("1/J", 1.0),),
    "USD": (("USD", 1.0),),
    "Hz": _prefixes("Hz", "MG"),
    "T/s": _prefixes("T", "MG", "/s"),
    "1": (("", 1.0),),
    "points of the metric": (("points", 1.0),),
}


@dataclass(frozen=True)
class DisplayUnit:
    """A unit for display, and its size in the SI unit that it replaces: 1e-6 for mm^2."""

    text: str
    size: float

    def convert(self, values: float | np.ndarray) -> np.ndarray:
        """The values, which are in the SI unit, in this unit."""
        return np.asarray(values, float) / self.size

    def label(self, name: str) -> str:
        """Name of a column or an axis with this unit: 'area [mm^2]'."""
        return f"{name} [{self.text}]" if self.text else name


def select_unit(si_unit: str, values: Iterable[float] | np.ndarray = ()) -> DisplayUnit:
    """The unit for a column of values: the largest one that the median absolute value reaches, else the smallest.

    Units without an entry in `SCALES` are kept. Bytes have binary prefixes where these take fewer digits, as 48 MiB.
    """
    if si_unit not in SCALES:
        return DisplayUnit(si_unit, 1.0)
    numbers = np.abs(np.asarray(values if isinstance(values, np.ndarray) else list(values), float)).ravel()
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    scale = SCALES[si_unit]
    if si_unit == "B" and _count_digits(numbers, BINARY_BYTES) < _count_digits(numbers, DECIMAL_BYTES):
        scale = BINARY_BYTES
    typical = float(np.median(numbers)) * (1 + 1e-9) if len(numbers) else 1.0
    text, size = next((each for each in reversed(scale) if each[1] <= typical), scale[0])
    return DisplayUnit(text, size)


def _count_digits(numbers: np.ndarray, scale: Scale) -> int:
    """Characters of all numbers, each in its own unit with up to six digits."""
    sizes = [next((size for _, size in reversed(scale) if size <= number), 1.0) for number in numbers.tolist()]
    return sum(len(f"{number / size:.6g}") for number, size in zip(numbers.tolist(), sizes, strict=True))


def format_number(value: float, digits: int = 4) -> str:
    """A number with some significant digits and no exponent between 1e-4 and 1e15: 1,234,000 or 0.00123; empty for NaN."""
    if math.isnan(value):
        return ""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if 10**digits <= abs(rounded) and abs(value) < 1e15 else f"{value:.{digits}g}"


def format_quantity(value: float, si_unit: str) -> str:
    """A single value with its unit: format_quantity(4e-4, 'm^2') is '400 mm^2'."""
    unit = select_unit(si_unit, [value])
    return f"{format_number(float(unit.convert(value)))} {unit.text}".rstrip()
