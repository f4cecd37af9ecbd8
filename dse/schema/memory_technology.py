"""Memory technologies: width, rate, energy of a byte, capacity and interface area of one channel (memory_technologies.yaml).

A description names one (`memory.dram.technology: lpddr5x`) and gets its numbers wherever it states none. On-chip memory (`sram`) has no
interface; its energy and area belong to the cost model, which scales them with the process.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import Field

from dse.base.display_units import format_quantity
from dse.base.errors import did_you_mean
from dse.base.strict_model import StrictModel, field_error
from dse.base.units import Area, Bandwidth, Capacity, EnergyPerByte, Quantity, TransferRate, Width
from dse.base.yaml_document import load_document

ON_CHIP = "sram"
BITS_PER_BYTE = 8
_GIVEN = ("width", "rate", "energy", "interface")  # keys of a memory level that a technology gives


class MemoryTechnology(StrictModel):
    """Figures of one stack, device or channel of a memory outside the die; `capacities`: the usual one first."""

    width: Width
    rate: TransferRate
    energy: EnergyPerByte
    interface: Area
    capacities: tuple[Capacity, ...] = Field(min_length=1)

    @property
    def bandwidth(self) -> Bandwidth:
        """Bandwidth of a stack, device or channel [B/s]."""
        value = self.width.value * self.rate.value / BITS_PER_BYTE
        fields = {"value": f"{value!r} B/s", "link": "width * rate", "text": format_quantity(value, "B/s"), "kind": "derived"}
        return Bandwidth.model_validate(fields)


class MemoryTechnologies(StrictModel):
    """Content of `memory_technologies.yaml`."""

    source: str
    technologies: dict[str, MemoryTechnology]


@cache
def memory_technologies() -> dict[str, MemoryTechnology]:
    """Memory technologies outside the die, by name."""
    return load_document(Path(__file__).with_name("memory_technologies.yaml")).validate(MemoryTechnologies).technologies


def check_technology(name: str) -> str:
    """Return the name of a known technology; raises the error of a schema for others."""
    known = [ON_CHIP, *memory_technologies()]
    if name not in known:
        raise field_error(f"unknown memory technology '{name}'", did_you_mean(name, known))
    return name


def add_technology_numbers(data: Mapping[str, object]) -> Mapping[str, object]:
    """The data of a description, with the numbers of its technology at each memory level that states none of its own."""
    levels = data.get("memory")
    if not isinstance(levels, Mapping) or not any(isinstance(level, Mapping) and "technology" in level for level in levels.values()):
        return data
    return {**data, "memory": {name: _with_technology(level) for name, level in levels.items()}}


def _with_technology(level: object) -> object:
    name = level.get("technology") if isinstance(level, Mapping) else None
    technology = memory_technologies().get(name) if isinstance(name, str) else None
    if technology is None or not isinstance(level, Mapping):
        return level
    given = {key: _stated(getattr(technology, key), str(name)) for key in _GIVEN}
    given["channel_capacity"] = _stated(technology.capacities[0], str(name))
    return {**given, **{key: value for key, value in level.items() if value is not None}}


def _stated(quantity: Quantity, technology: str) -> Mapping[str, object]:
    """A number of the table as a description states it."""
    fields = {"value": quantity.text, "kind": quantity.kind, "source": f"{technology}: {quantity.source}"}
    return fields | ({"unverified": True} if quantity.unverified else {})
