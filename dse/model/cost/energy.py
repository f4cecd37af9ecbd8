"""Energy of counted operations and bytes.

energy = per operation * (executed + gated share * gated + skipped share * skipped) + per byte * bytes + static power * time
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dse.model.cost.coefficients import fitted_coefficients, published_coefficients
from dse.model.cost.design import Design, relative_width
from dse.model.cost.power import sram_energy_per_byte, static_power
from dse.model.cost.scaling import energy_scale
from dse.sparsity.pattern import FloatOrArray


@dataclass(frozen=True)
class ActionCounts:
    """Operations of one unit at one precision [FLOP], a multiply-add counting 2, and bytes moved by each memory level [B].

    Operations with a zero operand are gated (they take time, but nothing switches) or skipped (they take no time). Counts may be arrays.
    """

    executed: FloatOrArray
    gated: FloatOrArray
    skipped: FloatOrArray
    bytes_by_memory: Mapping[str, FloatOrArray]


def energy_per_operation(design: Design, unit: str, dtype: str) -> FloatOrArray:
    """Energy of an operation [J/FLOP], including moving its operands and result on chip."""
    coefficients = fitted_coefficients().power
    coefficient = coefficients.matrix if unit == design.matrix_unit else coefficients.vector
    return coefficient.value * relative_width(dtype) * energy_scale(design.process)


def energy_per_byte(design: Design, memory: str) -> FloatOrArray:
    """Energy of a byte that a memory level reads or writes [J/B]."""
    return published_coefficients().dram.value if memory == design.accelerator.outermost else sram_energy_per_byte(design)


def dynamic_energy(design: Design, unit: str, dtype: str, counts: ActionCounts) -> FloatOrArray:
    """Energy [J] of the operations of a unit in `dtype` and of the bytes moved for them."""
    published = published_coefficients()
    operations = counts.executed + published.gated.value * counts.gated + published.skipped.value * counts.skipped
    moved = sum(energy_per_byte(design, memory) * size for memory, size in counts.bytes_by_memory.items())
    return energy_per_operation(design, unit, dtype) * operations + moved


def total_energy(design: Design, unit: str, dtype: str, counts: ActionCounts, time: FloatOrArray) -> FloatOrArray:
    """Dynamic energy plus the leakage of the whole chip over `time` [s]; raises InputError for a missing or unknown process [J]."""
    return dynamic_energy(design, unit, dtype, counts) + static_power(design) * time
