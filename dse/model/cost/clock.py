"""Clock and supply voltage of a design under load.

    voltage = max(floor, 1 - slope (1 - clock / reference clock of the process))

Dynamic energy grows with the square of the voltage, and so does the leakage per area in this model; power also grows with the clock. A
board whose power does not sustain the clock of its peaks runs slower at full load (`cost.sustained_clock`), at a lower voltage. Where only
the clock is known that the vendor guarantees (`cost.base_clock`), full load is taken to run at the geometric mean of it and the clock of
the peaks.
"""

from dse.model.cost.coefficients import published_coefficients, reference_clock
from dse.model.cost.design import Design
from dse.sparsity.pattern import FloatOrArray


def unit_clock(design: Design, unit: str) -> FloatOrArray:
    """Clock [Hz] at which a unit reaches its peaks: as stated, else the reference clock of the process."""
    stated = design.value(f"units.{unit}.clock")
    return reference_clock(design) if stated is None else stated


def sustained_share(design: Design) -> FloatOrArray:
    """Share of the clock of the peaks that the design sustains at full load, at most 1 [1]."""
    sustained, base = design.value("cost.sustained_clock"), design.value("cost.base_clock")
    clock, exponent = (base, 0.5) if sustained is None else (sustained, 1.0)
    if clock is None:
        return 1.0
    return design.array_module.minimum(clock / unit_clock(design, design.matrix_unit), 1.0) ** exponent


def supply_voltage(design: Design) -> FloatOrArray:
    """Supply voltage under load relative to that at the reference clock of the process [1]."""
    published = published_coefficients()
    clock = sustained_share(design) * unit_clock(design, design.matrix_unit) / reference_clock(design)
    return design.maximum([published.voltage_floor.value, 1 - published.voltage_slope.value * (1 - clock)])
