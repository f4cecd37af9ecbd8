"""Power at full load: the hungrier kind of unit at its peak, every memory at its bandwidth.

    power = leakage * area + (max(matrix * rate, vector * rate) + sram * bandwidth) s_energy + dram * bandwidth

Matrix and vector units don't run at full rate together: the same registers feed them.
Held against the thermal design power, which vendors set as they please: parts of one die differ by more than 2.
"""

from dse.model.cost import area as areas
from dse.model.cost import scaling
from dse.model.cost.coefficients import PowerCoefficients, fitted, published
from dse.model.cost.design import Design, Values


def drivers(design: Design, area: Values) -> dict[str, Values]:
    """What each fitted coefficient is multiplied by, scaled to 7 nm, leakage first; `area` in m^2."""
    rates, scale = design.rates, scaling.energy(design.process)
    return {"leakage": area, "matrix": rates["matrix"] * scale, "vector": rates["vector"] * scale}


def sram_energy(design: Design) -> Values:
    """Per byte of on-chip memory [J/B]."""
    known = published()
    return known.sram.value * scaling.energy(design.process) / scaling.energy(known.sram_process.value)


def memory(design: Design) -> Values:
    """Of the memories at full bandwidth [W], as published: no part of the fit."""
    return published().dram.value * design.bandwidth + sram_energy(design) * design.on_chip("bandwidth")


def static(design: Design) -> Values:
    """Of a design that does nothing [W]."""
    return fitted().power.leakage.value * areas.area(design)


def modelled(design: Design, area: Values, coefficients: PowerCoefficients | None = None) -> Values:
    """At full load [W], by the model alone, of a design of `area` [m^2]."""
    chosen = coefficients or fitted().power
    leakage, *units = (getattr(chosen, name).value * driver for name, driver in drivers(design, area).items())
    return memory(design) + leakage + design.largest(units)


def power(design: Design) -> Values:
    """At full load [W]: the published one, changed by what the model says that the design's changes do; raises InputError."""
    changed, own = (modelled(each, areas.area(each)) for each in (design, design.own))
    return areas.anchored(design, "cost.power", changed, own)
