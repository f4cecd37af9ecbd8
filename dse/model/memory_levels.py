"""Which memory levels can limit a layer, and the on-chip capacity that avoids repeated traffic of each."""

from dataclasses import dataclass

from dse.model.device_warning import DeviceWarning
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import CAPACITY_FIDELITIES, Fidelity


@dataclass(frozen=True)
class MemoryLevel:
    """A memory level whose bandwidth can limit a layer.

    `reuse_capacity` is the dotted path of the capacity of the next level inside: data that is kept there crosses this level only once.
    It is None if no level inside has a capacity; then only compulsory bytes are counted.
    """

    name: str
    reuse_capacity: str | None


def memory_levels(accelerator: Accelerator, fidelity: Fidelity) -> tuple[MemoryLevel, ...]:
    """The levels that can limit a layer, outermost first.

    Without on-chip capacity in the model, that is the outermost level only. Otherwise, it is every level with a bandwidth and a capacity.
    """
    if fidelity not in CAPACITY_FIDELITIES:
        return (MemoryLevel(accelerator.outermost, None),)
    names, memory = list(accelerator.memory), accelerator.memory
    with_capacity = [name for name in names if memory[name].capacity is not None]
    limiting = [name for name in names if name == accelerator.outermost or (name in with_capacity and memory[name].bandwidth is not None)]
    inside = {name: [inner for inner in with_capacity if names.index(inner) > names.index(name)] for name in limiting}
    return tuple(MemoryLevel(name, f"memory.{inside[name][0]}.capacity" if inside[name] else None) for name in limiting)


def capacity_paths(accelerator: Accelerator, fidelity: Fidelity) -> list[str]:
    """Dotted paths of the on-chip capacities on which traffic depends."""
    if fidelity not in CAPACITY_FIDELITIES:
        return []
    return [f"memory.{name}.capacity" for name in accelerator.memory if name != accelerator.outermost]


def memory_level_warnings(accelerator: Accelerator) -> list[DeviceWarning]:
    """Warnings about levels that are ignored because the description lacks a number."""
    limiting = memory_levels(accelerator, "capacity")
    ignored = {name: level for name, level in accelerator.memory.items() if name not in [level.name for level in limiting]}
    texts = [_missing_number(name, level.capacity is None) for name, level in ignored.items()]
    if limiting[0].reuse_capacity is None:
        outermost = limiting[0].name
        texts.append(f"no memory level inside '{outermost}' has a capacity: '{outermost}' moves compulsory bytes only")
    return [DeviceWarning(accelerator.name, text) for text in texts]


def _missing_number(name: str, no_capacity: bool) -> str:
    if no_capacity:
        return f"memory level '{name}' has no capacity: time and energy ignore it"
    return f"memory level '{name}' has no bandwidth: its capacity counts, but its traffic takes no time and no energy"
