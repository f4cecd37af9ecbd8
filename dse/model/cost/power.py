"""Power of a design at full load: the unit kind with the higher power at its peak, and every memory at its bandwidth.

    power = leakage * area * voltage^2 + max(matrix unit, vector units) + sum over memories of energy per byte * bandwidth

The power of a unit is the largest of energy per operation * rate over its precisions, at the clock that the design sustains: energy per
operation follows the square of the voltage, and the voltage the clock (clock.py). Matrix and vector units do not run at full rate at the
same time, because the same registers supply them. The model is compared with the thermal design power, which vendors choose freely: boards
with the same die differ by a factor of 4, and so do their base clocks.

A device never takes more than its power limit. Where times are lower bounds, work of a larger energy takes longer (`power_limited_time`).
Where they are those of measured kernels, which hold the limit, a larger energy is an error of the model (`supplied_share`).
"""

import numpy as np

from dse.model.cost.action_energy import energy_per_byte, energy_per_operation
from dse.model.cost.area import anchor_to_published, area
from dse.model.cost.clock import supply_voltage, sustained_share, unit_clock
from dse.model.cost.coefficients import PowerCoefficients, check_process, energy_scale, fitted_coefficients
from dse.model.cost.design import Design
from dse.schema.model_options import Fidelity
from dse.sparsity.pattern import FloatOrArray

POWER_TOLERANCE = 1e-6  # relative; powers are stored with seven digits or more
LEAST_ENERGY = 1e-30  # J; avoids a division by zero where nothing is done


def power_drivers(design: Design, die_area: FloatOrArray) -> dict[str, FloatOrArray]:
    """The factor of each fitted coefficient, scaled to 7 nm, leakage first; `die_area` in m^2."""
    rates, squared_voltage = design.rates, supply_voltage(design) ** 2
    scale = energy_scale(design.process) * squared_voltage * sustained_share(design)
    return {"leakage": die_area * squared_voltage, "matrix": rates["matrix"] * scale, "vector": rates["vector"] * scale}


def memory_power(design: Design) -> FloatOrArray:
    """Power of all memories at full bandwidth [W]: it is not part of the fit."""
    bandwidths = {name: design.value(f"memory.{name}.bandwidth") for name in design.accelerator.memory}
    return sum(energy_per_byte(design, name) * bandwidth for name, bandwidth in bandwidths.items() if bandwidth is not None)


def static_power(design: Design) -> FloatOrArray:
    """Power of an idle design [W]: as stated plus the modelled difference to the published design, else its leakage."""
    leakages = (leakage_power(each, area(each)) for each in (design, design.published))
    return anchor_to_published(design, "cost.idle", *leakages)


def leakage_power(design: Design, die_area: FloatOrArray, coefficients: PowerCoefficients | None = None) -> FloatOrArray:
    """Power [W] of `die_area` [m^2] at the voltage of the design, without any work."""
    coefficients = coefficients or fitted_coefficients().power.of(design.accelerator.cost.family)
    return coefficients.leakage.value * die_area * supply_voltage(design) ** 2


def unit_power(design: Design, unit: str, coefficients: PowerCoefficients | None = None) -> FloatOrArray:
    """Power of a unit at the sustained clock [W]: the largest over its precisions, which share wires and multipliers."""
    energies = {dtype: energy_per_operation(design, unit, dtype, coefficients) for dtype in design.accelerator.units[unit].peak}
    powers = [energy * design.value(f"units.{unit}.peak.{dtype}") for dtype, energy in energies.items()]
    return design.maximum(powers) * sustained_share(design)


def modelled_power(design: Design, die_area: FloatOrArray, coefficients: PowerCoefficients | None = None) -> FloatOrArray:
    """Power at full load [W] by the model alone, of a design with `die_area` [m^2]."""
    coefficients = coefficients or fitted_coefficients().power.of(design.accelerator.cost.family)
    matrix = unit_power(design, design.matrix_unit, coefficients)
    vector = sum(unit_power(design, name, coefficients) for name in design.accelerator.units if name != design.matrix_unit)
    return memory_power(design) + leakage_power(design, die_area, coefficients) + design.maximum([matrix, vector])


def peak_share_at_power(design: Design, limit: float, die_area: float, coefficients: PowerCoefficients | None = None) -> float:
    """Share of the clock of its peaks at which a design takes a power limit [W], memories idle: at most 1."""
    clock = unit_clock(design, design.matrix_unit)

    def excess(share: float) -> float:
        at_share = Design(design.accelerator, {**design.replaced, "cost.sustained_clock": share * clock}, design.base)
        return modelled_power(at_share, die_area, coefficients) - memory_power(at_share) - limit

    if excess(1.0) <= 0:
        return 1.0
    from scipy.optimize import brentq  # takes half a second: 'dse check' answers at once

    return float(brentq(excess, 0.0, 1.0)) if excess(0.0) < 0 else 0.0  # type: ignore[arg-type] # one number without 'full_output'


def power(design: Design) -> FloatOrArray:
    """Power at full load [W]: the published one plus the modelled difference to the published design; raises InputError."""
    if design.is_published and design.value("cost.power") is not None:
        check_process(design)
        return design.value("cost.power")
    modelled, modelled_base = (modelled_power(each, area(each)) for each in (design, design.published))
    return anchor_to_published(design, "cost.power", modelled, modelled_base)


def power_limited_time(time: FloatOrArray, dynamic_energy: FloatOrArray, limit: FloatOrArray, static: FloatOrArray) -> FloatOrArray:
    """The time [s] in which work of a dynamic energy [J] stays below a power limit [W], at least `time` [s].

        max(time, dynamic energy / (limit - static power))

    Infinite where the static power [W] reaches the limit.
    """
    available = np.asarray(limit - static)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where(available > 0, dynamic_energy / available, np.inf)
    return np.maximum(time, needed)


def supplied_share(design: Design, dynamic_energy: FloatOrArray, time: FloatOrArray, fidelity: Fidelity) -> FloatOrArray:
    """The share of a modelled dynamic energy [J] that the stated power of a design supplies in `time` [s], at most 1.

    It is 1 for designs that state no power, and under the fidelities whose times are lower bounds: there the time is what is too low.
    """
    if fidelity != "calibrated" or design.value("cost.power") is None:
        return 1.0
    module = design.array_module
    supplied = module.maximum(power(design) - static_power(design), 0.0) * time
    return module.minimum(supplied / module.maximum(dynamic_energy, LEAST_ENERGY), 1.0)


def network_energy(design: Design, dynamic_energy: FloatOrArray, time: FloatOrArray, fidelity: Fidelity) -> FloatOrArray:
    """Energy [J] of a network of a modelled dynamic energy [J] that takes `time` [s]: what the design supplies of it, and its leakage."""
    return supplied_share(design, dynamic_energy, time, fidelity) * dynamic_energy + static_power(design) * time
