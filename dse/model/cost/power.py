"""Power of a design at full load: the unit kind with the higher power at its peak, and every memory at its bandwidth.

    power = leakage * area + (max(matrix * rate, vector * rate) + sram * bandwidth) s_energy + dram * bandwidth

Matrix and vector units do not run at full rate at the same time, because the same registers supply them. The model is compared with the
thermal design power, which vendors choose freely: devices with the same die differ by more than a factor of 2.
"""

from dse.model.cost.area import anchor_to_published, area
from dse.model.cost.coefficients import PowerCoefficients, energy_scale, fitted_coefficients, published_coefficients
from dse.model.cost.design import Design
from dse.sparsity.pattern import FloatOrArray


def power_drivers(design: Design, die_area: FloatOrArray) -> dict[str, FloatOrArray]:
    """The factor of each fitted coefficient, scaled to 7 nm, leakage first; `die_area` in m^2."""
    rates, scale = design.rates, energy_scale(design.process)
    return {"leakage": die_area, "matrix": rates["matrix"] * scale, "vector": rates["vector"] * scale}


def sram_energy_per_byte(design: Design) -> FloatOrArray:
    """Energy of a byte of on-chip memory [J/B]."""
    published = published_coefficients()
    return published.sram.value * energy_scale(design.process) / energy_scale(published.sram_process.value)


def memory_power(design: Design) -> FloatOrArray:
    """Power of all memories at full bandwidth [W], from published energies: it is not part of the fit."""
    return published_coefficients().dram.value * design.bandwidth + sram_energy_per_byte(design) * design.on_chip_total("bandwidth")


def static_power(design: Design) -> FloatOrArray:
    """Power of an idle design [W]: its leakage."""
    return fitted_coefficients().power.leakage.value * area(design)


def modelled_power(design: Design, die_area: FloatOrArray, coefficients: PowerCoefficients | None = None) -> FloatOrArray:
    """Power at full load [W] by the model alone, of a design with `die_area` [m^2]."""
    coefficients = coefficients or fitted_coefficients().power
    leakage, *units = (getattr(coefficients, name).value * driver for name, driver in power_drivers(design, die_area).items())
    return memory_power(design) + leakage + design.maximum(units)


def power(design: Design) -> FloatOrArray:
    """Power at full load [W]: the published one plus the modelled difference to the published design; raises InputError."""
    modelled, modelled_base = (modelled_power(each, area(each)) for each in (design, design.published))
    return anchor_to_published(design, "cost.power", modelled, modelled_base)
