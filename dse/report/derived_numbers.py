"""Numbers that follow from those of an accelerator: of links and macro-parameters, and its area and power by the cost model."""

from collections.abc import Iterator, Mapping

from dse.base.display_units import format_quantity
from dse.base.errors import InputError
from dse.model.cost.area import area_by_part
from dse.model.cost.coefficients import check_process
from dse.model.cost.design import Design
from dse.model.cost.power import leakage_power, memory_power, modelled_power
from dse.schema.accelerator import Accelerator

Row = tuple[str, str, str]  # name, value, formula


def list_derived_numbers(accelerator: Accelerator) -> str:
    """One line for each derived number: its name, its value, and what it follows from; a line without numbers
    where area and power are not known."""
    rows = [(name, accelerator.at(name).text, formula.text) for name, formula in accelerator.links.formulas.items()]
    missing = _reason_without_costs(accelerator)
    if not missing:
        rows += _cost_rows(accelerator)
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return "".join(f"  {name:{widths[0]}}  {text:{widths[1]}}  = {formula}\n" for name, text, formula in rows) + missing


def _reason_without_costs(accelerator: Accelerator) -> str:
    """A line that says why area and power are not derived; empty where they are."""
    try:
        check_process(Design(accelerator))
    except InputError as error:
        return f"  no area and power by model: {error}\n"
    return ""


def _cost_rows(accelerator: Accelerator) -> Iterator[Row]:
    """Area and power by the cost model, with their parts, also where the description states published ones."""
    design = Design(accelerator)
    areas = {name: float(part) for name, part in area_by_part(design).items()}
    total = sum(areas.values())
    yield "area by model", format_quantity(total, "m^2"), _sum({name: part * 1e6 for name, part in areas.items()})
    die_area = accelerator.value("cost.area") or total
    power = float(modelled_power(design, die_area))
    memories, leakage = float(memory_power(design)), float(leakage_power(design, die_area))
    parts = {"leakage": leakage, "units": power - memories - leakage, "memories": memories}
    yield "power by model", format_quantity(power, "W"), _sum(parts)


def _sum(parts: Mapping[str, float]) -> str:
    """'matrix 49.9 + sram 56.1'; parts of 0 are left out."""
    return " + ".join(f"{name} {part:,.0f}" if part >= 1000 else f"{name} {part:.3g}" for name, part in parts.items() if part)
