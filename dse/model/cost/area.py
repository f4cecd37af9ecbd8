"""Area of a design: the sum over drivers of coefficient * driver.

    area = fixed + matrix * rate (1 + sparsity share) s_logic + vector * rate s_logic + sram * capacity s_sram + interface * bandwidth

s_logic and s_sram scale with the process. The memory interface is mostly physical layer, which does not shrink (LLMCompass, Zhang et al.
2024, cost_model.py, where only its controller does). A published area includes what the model does not know about a device, so a variation
of the device is anchored to it.
"""

from dse.model.cost.coefficients import AreaCoefficients, fitted_coefficients
from dse.model.cost.design import Design
from dse.model.cost.scaling import check_process, logic_area_scale, sram_area_scale
from dse.model.cost.sparsity_area import sparsity_area_share
from dse.sparsity.pattern import FloatOrArray


def area_drivers(design: Design) -> dict[str, FloatOrArray]:
    """The factor of each coefficient, scaled to 7 nm."""
    rates, logic = design.rates, logic_area_scale(design)
    return {
        "fixed": 1.0,
        "matrix": rates["matrix"] * (1 + sparsity_area_share(design)) * logic,
        "vector": rates["vector"] * logic,
        "sram": design.on_chip_total("capacity") * sram_area_scale(design),
        "interface": design.bandwidth,
    }


def area_by_part(design: Design, coefficients: AreaCoefficients | None = None) -> dict[str, FloatOrArray]:
    """Area [m^2] of each part of a design by the model alone; raises InputError for a missing or unknown process."""
    check_process(design)
    coefficients = coefficients or fitted_coefficients().area
    areas = {name: getattr(coefficients, name).value * driver for name, driver in area_drivers(design).items()}
    fixed = design.value("cost.fixed")  # a small chip does not have the fixed share of the large dies in the fit
    return areas if fixed is None else areas | {"fixed": fixed}


def modelled_area(design: Design, coefficients: AreaCoefficients | None = None) -> FloatOrArray:
    """Area [m^2] by the model alone; raises InputError for a missing or unknown process."""
    return sum(area_by_part(design, coefficients).values())


def area(design: Design) -> FloatOrArray:
    """Area [m^2]: the published one plus the modelled difference to the published design; raises InputError."""
    return anchor_to_published(design, "cost.area", modelled_area(design), modelled_area(design.published))


def anchor_to_published(design: Design, path: str, modelled: FloatOrArray, modelled_base: FloatOrArray) -> FloatOrArray:
    """The published figure at `path` plus the modelled difference; the modelled figure if none is published.

    The difference is scaled down if the model overestimates the published figure, so that the result stays above 0 and increases with
    each number of the design.
    """
    published = design.value(path)
    return (
        modelled
        if published is None
        else published + (modelled - modelled_base) * design.array_module.minimum(1.0, published / modelled_base)
    )
