"""Area: a coefficient times each driver.

    area = fixed + matrix * rate (1 + overhead) s_logic + vector * rate s_logic + sram * capacity s_sram + interface * bandwidth

The s are the process scaling; the interface to memory is mostly physical layer, which does not shrink (LLMCompass, Zhang et al.
2024, cost_model.py, where its controller does).
A published area stands for whatever the model does not see of a device, so a variation of the device is held against it.
"""

from dse.model.cost import scaling
from dse.model.cost.coefficients import AreaCoefficients, fitted
from dse.model.cost.design import Design, Values
from dse.model.cost.selection import overhead


def drivers(design: Design) -> dict[str, Values]:
    """What each coefficient is multiplied by, scaled to 7 nm."""
    rates, logic = design.rates, scaling.logic(design)
    return {
        "fixed": 1.0,
        "matrix": rates["matrix"] * (1 + overhead(design)) * logic,
        "vector": rates["vector"] * logic,
        "sram": design.on_chip("capacity") * scaling.sram(design),
        "interface": design.bandwidth,
    }


def parts(design: Design, coefficients: AreaCoefficients | None = None) -> dict[str, Values]:
    """Area [m^2] of each part of a design, by the model alone; raises InputError for a process that is missing or unknown."""
    scaling.check(design)
    chosen = coefficients or fitted().area
    found = {name: getattr(chosen, name).value * driver for name, driver in drivers(design).items()}
    own = design.value("cost.fixed")  # a small chip has no such share as the large dies that were fitted
    return found if own is None else found | {"fixed": own}


def modelled(design: Design, coefficients: AreaCoefficients | None = None) -> Values:
    """Area [m^2] by the model alone; raises InputError."""
    return sum(parts(design, coefficients).values())


def area(design: Design) -> Values:
    """Area [m^2]: the published one, changed by what the model says that the design's changes do; raises InputError."""
    return anchored(design, "cost.area", modelled(design), modelled(design.own))


def anchored(design: Design, path: str, changed: Values, own: Values) -> Values:
    """A published figure plus the model's difference, which is scaled down where the model overestimates the published one:
    so a design stays above 0 and grows with each of its numbers. The model's own figure where none is published."""
    stated = design.value(path)
    return changed if stated is None else stated + (changed - own) * design.arrays.minimum(1.0, stated / own)
