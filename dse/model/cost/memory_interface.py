"""Area of the interfaces to memory outside the die.

Where a description gives the interface of a channel (itself, or by its memory technology):

    area = interface * bandwidth / (width * rate)        as many channels as the bandwidth takes

Otherwise the interface is that of HBM2E.
"""

from dse.model.cost.design import Design
from dse.schema.memory_technology import BITS_PER_BYTE, ON_CHIP, memory_technologies
from dse.sparsity.pattern import FloatOrArray

DEFAULT_TECHNOLOGY = "hbm2e"  # of memory outside the die that states none


def is_on_chip(design: Design, memory: str) -> bool:
    """Whether a memory level is SRAM on the die: as its technology says, else every level but the outermost."""
    technology = design.accelerator.memory[memory].technology
    return memory != design.accelerator.outermost if technology is None else technology == ON_CHIP


def channel_count(design: Design, memory: str) -> FloatOrArray | None:
    """Channels, devices or stacks that the bandwidth of a memory level takes; None where width, rate or bandwidth is not known."""
    bandwidth, width, rate = (design.value(f"memory.{memory}.{key}") for key in ("bandwidth", "width", "rate"))
    return None if bandwidth is None or width is None or rate is None else bandwidth * BITS_PER_BYTE / (width * rate)


def interface_area(design: Design) -> FloatOrArray:
    """Area [m^2] of the interfaces of all memory levels outside the die."""
    default = memory_technologies()[DEFAULT_TECHNOLOGY]
    total: FloatOrArray = 0.0
    for name in design.accelerator.memory:
        bandwidth = design.value(f"memory.{name}.bandwidth")
        if bandwidth is None or is_on_chip(design, name):
            continue
        interface, channels = design.value(f"memory.{name}.interface"), channel_count(design, name)
        if interface is None or channels is None:
            total = total + default.interface.value * bandwidth / default.bandwidth.value
        else:
            total = total + interface * channels
    return total
