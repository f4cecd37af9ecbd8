"""A design: an accelerator description with some numbers replaced by arrays (values of sweep axes, or JAX tracers)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from types import ModuleType

import numpy as np

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.schema.accelerator import Accelerator
from dse.schema.memory_technology import ON_CHIP
from dse.sparsity.pattern import FloatOrArray

REFERENCE_BITS = 16

# Dotted paths of the numbers on which area, power or energy may depend.
COST_PATH = re.compile(
    r"units\.\w+\.((peak|energy)\.\w+|clock|runs\.\w+\.gain)|memory\.\w+\.(capacity|bandwidth|energy|interface|width|rate)|cost\.(?!family)\w+"
)


@dataclass(frozen=True)
class Design:
    """A description with `replaced` numbers by dotted path: floats, or NumPy or JAX arrays.

    `base` is the description to which a published area or power belongs (default: `accelerator`).
    """

    accelerator: Accelerator
    replaced: Mapping[str, FloatOrArray] = field(default_factory=dict)
    base: Accelerator | None = None

    @property
    def published(self) -> "Design":
        """The design of the base description, with none of its numbers replaced."""
        return Design(self.base or self.accelerator)

    @property
    def is_published(self) -> bool:
        """Whether the design is that of the base description, so that published figures are its own."""
        return not self.replaced and (self.base is None or self.base is self.accelerator)

    def value(self, path: str) -> FloatOrArray:
        """A number in SI units; None if neither the description nor `replaced` has it."""
        return self._changed[path] if path in self._changed else self.accelerator.value(path)

    @cached_property
    def _changed(self) -> Mapping[str, FloatOrArray]:
        """The replaced numbers, and those that follow from them by links."""
        return {**self.accelerator.links.evaluate(self.replaced, self.accelerator.value, self.array_module), **self.replaced}

    @property
    def array_module(self) -> ModuleType:
        """NumPy, or the module of the first array that is not of NumPy."""
        modules = [value.__array_namespace__() for value in self.replaced.values() if hasattr(value, "__array_namespace__")]
        return next((module for module in modules if module is not np), np)

    def maximum(self, values: list[FloatOrArray]) -> FloatOrArray:
        """Element-wise maximum."""
        return reduce(self.array_module.maximum, values)

    @property
    def matrix_unit(self) -> str:
        """Name of the unit with the highest peak (of equals, the first by name); all other units count as vector units.

        The multipliers of a matrix unit share operands; each lane of a vector unit has its own.
        """
        units = (self.base or self.accelerator).units
        return max(sorted(units), key=lambda name: max(relative_width(key) * peak.value for key, peak in units[name].peak.items()))

    def rate(self, unit: str) -> FloatOrArray:
        """Rate [FLOP/s] of a unit in operations on 16-bit operands: precisions share wires and multipliers, so the largest counts."""
        peaks = self.accelerator.units[unit].peak
        return self.maximum([relative_width(dtype) * self.value(f"units.{unit}.peak.{dtype}") for dtype in peaks])

    @property
    def rates(self) -> dict[str, FloatOrArray]:
        """Rates [FLOP/s] of the matrix unit and of all vector units together."""
        vector_rates = [self.rate(name) for name in self.accelerator.units if name != self.matrix_unit]
        return {"matrix": self.rate(self.matrix_unit), "vector": sum(vector_rates)}

    def is_on_chip(self, memory: str) -> bool:
        """Whether a memory level is SRAM on the die: as its technology says, else every level but the outermost."""
        technology = self.accelerator.memory[memory].technology
        return memory != self.accelerator.outermost if technology is None else technology == ON_CHIP

    @property
    def process(self) -> FloatOrArray:
        """Process node [m]; None if the description has none."""
        return self.value("cost.process")


def relative_width(dtype: str) -> float:
    """Bits of an operand over 16: a unit that runs fp8 at twice the rate of fp16 moves as many bits."""
    return (32 if dtype == "tf32" else BITS_PER_ELEMENT[storage_dtype(dtype)]) / REFERENCE_BITS
