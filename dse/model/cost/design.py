"""A description, some of its numbers replaced by arrays: the values of a sweep's axes, or what JAX traces."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.schema.accelerator import Accelerator

Values = Any  # a float, or an array that broadcasts with those of the other axes
REFERENCE_BITS = 16

# Numbers on which area, power or energy may depend.
DRIVER = re.compile(r"units\.\w+\.(peak\.\w+|runs\.\w+\.gain)|memory\.\w+\.(capacity|bandwidth)|cost\.\w+")


@dataclass(frozen=True)
class Design:
    """`given` are arrays by dotted path, which stand before the description's own numbers.

    `base` is the description that a published area or power is of (default: `accelerator`).
    """

    accelerator: Accelerator
    given: Mapping[str, Values] = field(default_factory=dict)
    base: Accelerator | None = None

    @property
    def own(self) -> "Design":
        """As published, nothing varied."""
        return Design(self.base or self.accelerator)

    def value(self, path: str) -> Values:
        """In SI units; None where the description gives none."""
        return self.given[path] if path in self.given else self.accelerator.value(path)

    @property
    def arrays(self) -> Any:
        """numpy, or what takes its place where some value is of another library."""
        spaces = [value.__array_namespace__() for value in self.given.values() if hasattr(value, "__array_namespace__")]
        return next((space for space in spaces if space is not np), np)

    def largest(self, values: list[Values]) -> Values:
        return reduce(self.arrays.maximum, values)

    @property
    def matrix_unit(self) -> str:
        """The unit with the highest peak, of equals the first by name: its multipliers share operands, those of the others (vector units)
        have their own."""
        units = (self.base or self.accelerator).units
        return max(sorted(units), key=lambda name: max(width(key) * peak.value for key, peak in units[name].peak.items()))

    def rate(self, unit: str) -> Values:
        """Rate [FLOP/s] of a unit in terms of 16 bit operands: its precisions share wires and multipliers, so the largest counts."""
        return self.largest([width(key) * self.value(f"units.{unit}.peak.{key}") for key in self.accelerator.units[unit].peak])

    @property
    def rates(self) -> dict[str, Values]:
        """Of the matrix unit and of all vector units together."""
        vectors = [self.rate(name) for name in self.accelerator.units if name != self.matrix_unit]
        return {"matrix": self.rate(self.matrix_unit), "vector": sum(vectors)}

    @property
    def bandwidth(self) -> Values:
        """Of the outermost memory [B/s]."""
        return self.value(f"memory.{self.accelerator.outermost}.bandwidth")

    def on_chip(self, key: str) -> Values:
        """Sum of the capacities [B] or bandwidths [B/s] of the inner memory levels, as far as they are given."""
        inner = [name for name in self.accelerator.memory if name != self.accelerator.outermost]
        return sum(found for name in inner if (found := self.value(f"memory.{name}.{key}")) is not None)

    @property
    def process(self) -> Values:
        return self.value("cost.process")


def width(key: str) -> float:
    """Of the operands of a dtype over 16 bit: units that run fp8 at twice the rate of fp16 move as many bits."""
    return (32 if key == "tf32" else BITS_PER_ELEMENT[storage_dtype(key)]) / REFERENCE_BITS
