"""What `dse check` prints about an accelerator: warnings about its numbers, and numbers that follow from them.

A description may be valid, but unlikely to be meant: warnings are about its levels, its clocks, its area and its process. Numbers follow
from links and macro-parameters, and area and power from the cost model.
"""

from collections.abc import Iterator, Mapping

from dse.base.display_units import format_quantity
from dse.base.errors import InputError, Problem
from dse.base.strict_model import KeyPath
from dse.base.units import Quantity
from dse.model.cost.area import area_by_part, modelled_area
from dse.model.cost.coefficients import check_process, has_known_process, process_span
from dse.model.cost.design import Design
from dse.model.cost.power import leakage_power, memory_power, modelled_power
from dse.schema.accelerator import Accelerator
from dse.schema.memory_technology import ON_CHIP

Row = tuple[str, str, str]  # name, value, formula
SLOWEST_CLOCK, FASTEST_CLOCK = 10e6, 6e9  # Hz
WAFER_AREA = 0.07  # m^2: a wafer of 300 mm has pi x (150 mm)^2 = 70,686 mm^2


def plausibility_warnings(accelerator: Accelerator) -> list[Problem]:
    """Warnings with the place in the description and what to write instead."""
    return [
        accelerator.document.make_problem(loc, message, fix)
        for check in (_order_of_levels, _clocks, _area, _process)
        for loc, message, fix in check(accelerator)
    ]


def _order_of_levels(accelerator: Accelerator) -> Iterator[tuple[KeyPath, str, str]]:
    """Memory levels that are listed innermost first."""
    outermost, *inner = accelerator.memory
    first = accelerator.memory[outermost]
    for name in inner:
        level = accelerator.memory[name]
        fix = f"list the levels outermost first: '{name}' before '{outermost}'"
        if level.technology is not None and level.technology != ON_CHIP:
            yield ("memory", name), f"{level.technology} inside '{outermost}', which is the outermost level as it is listed first", fix
        elif _exceeds(level.capacity, first.capacity) and _exceeds(first.bandwidth, level.bandwidth):
            yield ("memory", outermost), f"listed as the outermost level, but smaller and faster than '{name}'", fix


def _exceeds(larger: Quantity | None, smaller: Quantity | None) -> bool:
    """Whether both numbers are known, and the first is the larger one."""
    return larger is not None and smaller is not None and larger.value > smaller.value


def _clocks(accelerator: Accelerator) -> Iterator[tuple[KeyPath, str, str]]:
    for name, unit in accelerator.units.items():
        if unit.clock is not None and not SLOWEST_CLOCK <= unit.clock.value <= FASTEST_CLOCK:
            span = f"{format_quantity(SLOWEST_CLOCK, 'Hz')} to {format_quantity(FASTEST_CLOCK, 'Hz')}"
            yield ("units", name, "clock"), f"a clock of {format_quantity(unit.clock.value, 'Hz')} is unusual", f"check its unit ({span})"
        if unit.max_clock is not None and unit.clock is None:
            yield ("units", name, "max_clock"), "has no effect without the clock of the peaks", "add 'clock', as in 'clock: 2.52 GHz'"


def _area(accelerator: Accelerator) -> Iterator[tuple[KeyPath, str, str]]:
    """Areas, stated or by the cost model, that no wafer holds."""
    design, stated = Design(accelerator), accelerator.value("cost.area")
    area = stated if stated is not None else float(modelled_area(design)) if has_known_process(design) else 0.0
    if area > WAFER_AREA:
        origin = "stated" if stated is not None else "of the cost model"
        fix = "check counts and capacities, or the process ('dse check --derived' prints the parts)"
        yield ("cost", "area"), f"an area of {format_quantity(area, 'm^2')} ({origin}) is more than a wafer of 300 mm has", fix


def _process(accelerator: Accelerator) -> Iterator[tuple[KeyPath, str, str]]:
    if accelerator.cost.process is not None and not has_known_process(Design(accelerator)):
        message = f"no circuit sizes are known for {accelerator.cost.process.text}, so area, power and energy cannot be computed"
        yield ("cost", "process"), message, f"write one from {process_span()}"


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
