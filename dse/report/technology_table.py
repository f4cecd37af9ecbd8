"""The table of `dse list technologies`: what a channel of each memory technology has, and SRAM by process."""

from dse.base.table_format import Row
from dse.base.units import EnergyPerByte, Quantity
from dse.model.cost.coefficients import ProcessNode, energy_scale, published_coefficients
from dse.schema.memory_technology import BITS_PER_BYTE, ON_CHIP, MemoryTechnology, memory_technologies


def list_technologies() -> list[Row]:
    """Memory outside the die, one channel each; then SRAM on the die, by process."""
    outside = [_channel_row(name, technology) for name, technology in memory_technologies().items()]
    return outside + [_sram_row(node) for node in published_coefficients().scaling]


def _channel_row(name: str, technology: MemoryTechnology) -> Row:
    numbers: dict[str, Quantity] = {key: getattr(technology, key) for key in ("width", "rate", "energy", "interface")}
    return {
        "technology": name,
        "process": None,
        "width": technology.width,
        "rate": technology.rate,
        "bandwidth": technology.bandwidth,
        "energy": technology.energy,
        "interface": technology.interface,
        "capacities": ", ".join(capacity.text for capacity in technology.capacities),
        "bit cell": None,
        "assumed": ", ".join(key for key, number in numbers.items() if number.kind == "assumed"),
        "source": "; ".join(f"{key}: {number.source}" for key, number in numbers.items()),
    }


def _sram_row(node: ProcessNode) -> Row:
    published = published_coefficients()
    energy = published.sram.value * energy_scale(node.process.value) / energy_scale(published.sram_process.value)
    text = f"{float(energy) / BITS_PER_BYTE * 1e12:.2g} pJ/bit"
    return {
        "technology": ON_CHIP,
        "process": node.process,
        "width": None,
        "rate": None,
        "bandwidth": None,
        "energy": EnergyPerByte.model_validate({"value": text, "kind": "derived", "unverified": published.energy_exponent.unverified}),
        "interface": None,
        "capacities": "",
        "bit cell": node.bitcell.model_copy(update={"unverified": node.unverified}),
        "assumed": "",
        "source": f"energy: {published.sram.source}, scaled to the process; bit cell: {node.source}",
    }
