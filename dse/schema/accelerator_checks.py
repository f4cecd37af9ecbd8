"""What an accelerator may not state: names that results use for other resources, and costs that no device has."""

from collections.abc import Iterator, Mapping

from pydantic_core import PydanticCustomError

from dse.base.strict_model import KeyPath, field_error
from dse.base.units import Bandwidth, Frequency
from dse.schema.compute_unit import Unit
from dse.schema.device import Cost, Memory

RESERVED_NAMES = ("host", "launch", "power")  # what may bound a layer besides units and memory levels
Finding = tuple[KeyPath, str, str]  # place, message and fix


def resource_errors(units: Mapping[str, Unit], memory: Mapping[str, Memory]) -> list[tuple[KeyPath, PydanticCustomError]]:
    """Errors of an outermost level without bandwidth, and of names that label two resources in results."""
    findings = [*_missing_bandwidth(memory), *_shared_names(units, memory)]
    return [(loc, field_error(message, fix)) for loc, message, fix in findings]


def _missing_bandwidth(memory: Mapping[str, Memory]) -> Iterator[Finding]:
    outermost = next(iter(memory))
    if memory[outermost].bandwidth is None:
        message = f"the outermost memory level '{outermost}' has no bandwidth"
        yield ("memory", outermost), message, f"add 'bandwidth: {Bandwidth.example}'"


def _shared_names(units: Mapping[str, Unit], memory: Mapping[str, Memory]) -> Iterator[Finding]:
    for section, names, ending in (("units", units, "unit"), ("memory", memory, "dram")):
        for name in sorted(names.keys() & set(RESERVED_NAMES)):
            fix = f"write another name, as in '{name}_{ending}'"
            yield (section, name), f"'{name}' is the name of a resource that results report", fix
    for name in sorted(memory.keys() & units.keys()):
        yield ("memory", name), f"a unit is named '{name}' too", "rename one: results are labelled by these names"


def impossible_costs(units: Mapping[str, Unit], cost: Cost) -> Iterator[Finding]:
    """Clocks under load above the clock of the peaks, and an idle power that leaves none for work."""
    clock = highest_clock(units)
    for key in ("sustained_clock", "base_clock"):
        stated = getattr(cost, key)
        if stated is not None and clock is not None and stated.value > clock.value:
            message = f"{stated.text} is above the clock of the peaks, {clock.text}"
            yield ("cost", key), message, f"write at most {clock.text}, or the clock at which the peaks are reached under 'units'"
    if cost.idle is not None and cost.power is not None and cost.idle.value >= cost.power.value:
        message = f"{cost.idle.text} without work is not below the power at full load, {cost.power.text}"
        yield ("cost", "idle"), message, f"write less than {cost.power.text}, or another 'power'"


def highest_clock(units: Mapping[str, Unit]) -> Frequency | None:
    """The highest clock at which a unit reaches its peaks; None if some unit states none."""
    clocks = [unit.clock for unit in units.values() if unit.clock is not None]
    return max(clocks, key=lambda clock: clock.value) if len(clocks) == len(units) else None
