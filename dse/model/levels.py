"""Which memory levels set the time, and within which capacity the bytes of each are used again."""

from dataclasses import dataclass

from dse.schema.accelerator import Accelerator
from dse.schema.model_options import CAPACITY_FIDELITIES, Fidelity


@dataclass(frozen=True)
class Level:
    """`inside`: path of the capacity that keeps bytes from crossing the level twice; None where nothing is known inside."""

    name: str
    inside: str | None


def levels(accelerator: Accelerator, fidelity: Fidelity) -> tuple[Level, ...]:
    """Outermost first. The outermost alone, unless capacity counts: then every level with a bandwidth and a capacity of its own."""
    if fidelity not in CAPACITY_FIDELITIES:
        return (Level(accelerator.outermost, None),)
    names, memory = list(accelerator.memory), accelerator.memory
    holding = [name for name in names if memory[name].capacity is not None]
    limiting = [name for name in names if name == accelerator.outermost or (name in holding and memory[name].bandwidth is not None)]
    inside = {name: [inner for inner in holding if names.index(inner) > names.index(name)] for name in limiting}
    return tuple(Level(name, f"memory.{inner[0]}.capacity" if (inner := inside[name]) else None) for name in limiting)


def capacities(accelerator: Accelerator, fidelity: Fidelity) -> list[str]:
    """Paths of the capacities on chip that bytes depend on, as far as some level is outside of them."""
    if fidelity not in CAPACITY_FIDELITIES:
        return []
    return [f"memory.{name}.capacity" for name in accelerator.memory if name != accelerator.outermost]


def notes(accelerator: Accelerator) -> list[str]:
    """What the levels leave out, for lack of a number."""
    known = levels(accelerator, "capacity")
    silent = {name: level for name, level in accelerator.memory.items() if name not in [level.name for level in known]}
    found = [f"'{accelerator.name}': {_silence(name, level.capacity is None)}" for name, level in silent.items()]
    if known[0].inside is None:
        found.append(f"'{accelerator.name}': no capacity inside '{known[0].name}' is stated: its bytes are the compulsory ones")
    return found


def _silence(name: str, without_capacity: bool) -> str:
    if without_capacity:
        return f"memory level '{name}' has no capacity: it is left out of time and energy"
    return f"memory level '{name}' has no bandwidth: its capacity counts, but its bytes take no time and no energy"
