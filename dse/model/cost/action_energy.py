"""Energy of one action of a design: of an operation of a unit, and of a byte that a memory level reads or writes.

A description states measured energies (`units.UNIT.energy.DTYPE`, `memory.LEVEL.energy`); where it states none, the cost model gives one:
per operation proportional to the width of the operands, scaled with the process and with the square of the supply voltage; per byte that of
the memory technology, for on-chip memory scaled with the process.
"""

from dse.model.cost.clock import supply_voltage
from dse.model.cost.coefficients import DEFAULT_TECHNOLOGY, PowerCoefficients, energy_scale, fitted_coefficients, published_coefficients
from dse.model.cost.design import Design, relative_width
from dse.schema.memory_technology import memory_technologies
from dse.sparsity.pattern import FloatOrArray


def energy_per_operation(design: Design, unit: str, dtype: str, coefficients: PowerCoefficients | None = None) -> FloatOrArray:
    """Energy of an operation [J/FLOP], including moving its operands and result on chip."""
    if dtype in design.accelerator.units[unit].energy:
        return design.value(f"units.{unit}.energy.{dtype}")
    coefficients = coefficients or fitted_coefficients().power.of(design.accelerator.cost.family)
    coefficient = coefficients.matrix if unit == design.matrix_unit else coefficients.vector
    return coefficient.value * relative_width(dtype) * energy_scale(design.process) * supply_voltage(design) ** 2


def energy_per_byte(design: Design, memory: str) -> FloatOrArray:
    """Energy of a byte that a memory level reads or writes [J/B]."""
    stated = design.value(f"memory.{memory}.energy")
    if stated is not None:
        return stated
    if not design.is_on_chip(memory):
        return memory_technologies()[DEFAULT_TECHNOLOGY].energy.value
    published = published_coefficients()
    return published.sram.value * energy_scale(design.process) / energy_scale(published.sram_process.value)
