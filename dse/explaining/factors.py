"""The factors in which two sides differ, and mixtures: sides that take each factor from one of the two.

A factor is a number of the accelerator by its dotted path, a part that only one of the accelerators has, or one of `batch`, `dtype`,
`variant`, `network`, the options of the model, and the inputs of the network. Units and memories of two accelerators correspond by their
names, the fastest unit and the outermost memory by their role.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import BaseModel

from dse.base.strict_model import validate_mapping
from dse.base.units import Quantity
from dse.explaining.fidelity_parts import LABELS, higher_fidelity, parts_between
from dse.explaining.side import Side
from dse.model.cost.design import Design
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import CAPACITY_FIDELITIES, ModelOptions
from dse.schema.references import load_workload
from dse.workload import Variant, Workload

NOT_COMPARED = {"source", "kind", "unverified", "name", "description", "hypothetical", "patterns", "efficiencies", "text"}
PARTS = ("units", "memory", "overhead", "cost")
ACCELERATOR = "accelerator"  # the factor of a whole accelerator, where its parts cannot be exchanged one by one
DEVICE = "device"  # which device the fitted kernels and the published figures are of
STATED_COSTS = ("cost.area", "cost.power", "cost.idle")  # published figures belong to the device that they were published for


@dataclass(frozen=True)
class Factor:
    """One factor: its `key`, the dotted paths of the accelerator that it covers, and what each side has, as text.

    `is_partial`: one side has nothing at one of the paths.
    """

    key: str
    a: str
    b: str
    paths: tuple[str, ...] = ()
    is_partial: bool = False

    @property
    def is_number(self) -> bool:
        """Whether the factor is one number of the accelerator."""
        return self.paths == (self.key,)


Path = tuple[str, ...]
PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9), ("p", 1e-12))
ABSENT = object()  # the value of a part that a side does not have


def differing_parts(a: Accelerator, b: Accelerator) -> dict[str, tuple[object, object]]:
    """The smallest parts in which two accelerators differ, by dotted path: those of `a` and `b`, ABSENT where one has none."""
    return {".".join(path): pair for name in PARTS for path, pair in _differences(getattr(a, name), getattr(b, name), (name,))}


def _differences(a: object, b: object, path: Path) -> Iterator[tuple[Path, tuple[object, object]]]:
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        if a.value != b.value:
            yield path, (a, b)
    elif type(a) is type(b) and isinstance(a, BaseModel):
        for name in type(a).model_fields:
            if name not in NOT_COMPARED or (name == "kind" and path[-1] == "format"):
                yield from _differences(getattr(a, name), getattr(b, name), (*path, name))
    elif isinstance(a, Mapping) and isinstance(b, Mapping):
        for name in dict.fromkeys([*a, *b]):
            yield from _differences(a.get(name, ABSENT), b.get(name, ABSENT), (*path, name))
    elif a != b:
        yield path, (a, b)


def rename_parts(accelerator: Accelerator, like: Accelerator) -> Accelerator:
    """The accelerator with its units and memories named as the corresponding ones of `like`."""
    units = _correspondence(accelerator.units, like.units, Design(accelerator).matrix_unit, Design(like).matrix_unit)
    memories = _correspondence(accelerator.memory, like.memory, accelerator.outermost, like.outermost)
    if all(old == new for old, new in (units | memories).items()):
        return accelerator
    renamed = {
        "units": {units[name]: unit for name, unit in accelerator.units.items()},
        "memory": {memories[name]: level for name, level in accelerator.memory.items()},
    }
    copy = accelerator.model_copy(update=renamed)
    copy._base = None if accelerator.base is accelerator else rename_parts(accelerator.base, like)
    return copy


def _correspondence(names: Iterable[str], others: Iterable[str], first: str, other_first: str) -> dict[str, str]:
    """The name that each of `names` has among `others`: `first` corresponds to `other_first`, the others by name, then in order."""
    free = [name for name in others if name != other_first]
    known, left = {first: other_first}, [name for name in names if name != first]
    for name in [name for name in left if name in free]:
        known[name] = name
        free.remove(name)
    for name in [name for name in left if name not in known]:
        known[name] = free.pop(0) if free else (name if name not in known.values() else f"{name}_")
    return known


def list_factors(a: Side, b: Side) -> list[Factor]:
    """All factors in which two sides differ, whether or not they change a result; accelerators with corresponding names."""
    parts = differing_parts(a.accelerator, b.accelerator)
    other_base = a.accelerator.base is not b.accelerator.base and a.accelerator.base.document.sha256 != b.accelerator.base.document.sha256
    stated = [path for path in STATED_COSTS if path in parts and other_base]
    factors = [
        Factor(path, part_text(x), part_text(y), (path,), any(each is None or each is ABSENT for each in (x, y)))
        for path, (x, y) in parts.items()
        if path not in stated
    ]
    if other_base:
        factors.append(Factor(DEVICE, a.accelerator.base.name, b.accelerator.base.name, tuple(stated)))
    return factors + _network_factors(a, b) + _setting_factors(a, b)


def _setting_factors(a: Side, b: Side) -> list[Factor]:
    pairs = {"batch": (a.batch, b.batch), "dtype": (a.dtype, b.dtype)}
    pairs |= {name: (getattr(a.options, name), getattr(b.options, name)) for name in ModelOptions.model_fields}
    of_fidelity = _options_of_fidelity(a, b)
    differing = {key: pair for key, pair in pairs.items() if pair[0] != pair[1] and key not in of_fidelity}
    of_options = differing.keys() & set(ModelOptions.model_fields)
    same_fusion = a.options.fusion == b.options.fusion
    parts = parts_between(a.options.fidelity, b.options.fidelity) if of_options == {"fidelity"} and same_fusion else ()
    listed = {key: pair for key, pair in differing.items() if not parts or key != "fidelity"}
    return [Factor(key, str(getattr(x, "label", x)), str(getattr(y, "label", y))) for key, (x, y) in listed.items()] + [
        Factor(part, a.options.fidelity, b.options.fidelity) for part in parts
    ]


def _options_of_fidelity(a: Side, b: Side) -> set[str]:
    """Options that come with the fidelity, because that of one side does not have them."""
    fidelities = {a.options.fidelity, b.options.fidelity}
    if len(fidelities) == 1:
        return set()
    return {"efficiencies"} if fidelities <= set(CAPACITY_FIDELITIES) else {"efficiencies", "fusion"}


def _network_factors(a: Side, b: Side) -> list[Factor]:
    if a.variant is b.variant:
        return []
    if may_mix_networks(a, b):
        assert a.workload is not None
        assert b.workload is not None
        x, y = a.workload.all_inputs, b.workload.all_inputs
        factors = [Factor(key, str(x[key]), str(y[key])) for key in x if x[key] != y[key]]
        return factors + [Factor("variant", str(a.variant), str(b.variant))] * (a.selector != b.selector)
    if has_same_layers(a.variant, b.variant):
        return [] if _is_same_variant(a.variant, b.variant) else [Factor("variant", str(a.variant), str(b.variant))]
    return [Factor("network", f"{a.variant.workload} {a.variant}", f"{b.variant.workload} {b.variant}")]


def may_mix_networks(a: Side, b: Side) -> bool:
    """Whether inputs of the network and the variant can be taken from different sides."""
    if a.workload is None or b.workload is None:
        return False
    return (a.workload.folder, a.workload.mapping, a.workload.description) == (
        b.workload.folder,
        b.workload.mapping,
        b.workload.description,
    )


def has_same_layers(a: Variant, b: Variant) -> bool:
    """Whether two variants are of the same layers, so that results can be compared layer by layer."""
    x, y = a.layers, b.layers
    sizes = ("m", "k", "n", "count", "input_elements", "output_elements")
    return x is y or (x.name == y.name and all(np.array_equal(getattr(x, size), getattr(y, size)) for size in sizes))


def _is_same_variant(a: Variant, b: Variant) -> bool:
    return str(a) == str(b) and np.array_equal(a.density, b.density) and a.stored_elements.keys() == b.stored_elements.keys()


def quantity_text(quantity: Quantity, value: float) -> str:
    """A value in the unit of a quantity with a prefix: '4.1 TB/s'."""
    if not quantity.unit:
        return f"{value:.4g}"
    prefix, size = next((pair for pair in PREFIXES if value >= pair[1]), PREFIXES[-1])
    return f"{value / size:.4g} {prefix}{quantity.unit}"


def part_text(part: object) -> str:
    """What one side has, as a user wrote it; '-' for nothing."""
    if part is ABSENT or part is None:
        return "-"
    if isinstance(part, Quantity):
        return quantity_text(part, part.value) if not part.text or part.text.endswith(f" {part.unit}") else part.text
    if isinstance(part, BaseModel | Mapping):
        return "present"
    if isinstance(part, tuple):
        return ", ".join(map(str, part))
    return str(part)


def mix_sides(a: Side, b: Side, factors: Sequence[Factor], from_b: Iterable[str]) -> Side:
    """The side that takes the factors with the keys `from_b` from `b` and all others from `a`; raises InputError if it is not possible."""
    chosen = set(from_b)
    if not chosen:
        return a
    if len(chosen) == len(factors):
        return b
    keys = {factor.key for factor in factors} & chosen
    accelerator = _mix_accelerators(a.accelerator, b.accelerator, [f for f in factors if f.key in keys])
    if ACCELERATOR in keys:  # a dtype that the other accelerator lacks belongs to it
        keys.add("dtype")
    sources = {name: b if name in keys else a for name in ("batch", "dtype", *ModelOptions.model_fields)}
    options = {name: getattr(sources[name].options, name) for name in ModelOptions.model_fields}
    parts = {factor.key for factor in factors if factor.key in LABELS}
    if parts:
        options["fidelity"] = higher_fidelity(a.options.fidelity, b.options.fidelity)
    of_fidelity = b if b.options.fidelity == options["fidelity"] else a
    options |= {name: getattr(of_fidelity.options, name) for name in _options_of_fidelity(a, b)}
    from_higher = parts & keys if b.options.fidelity == options["fidelity"] else parts - keys
    return replace(
        a, accelerator=accelerator, batch=sources["batch"].batch, dtype=sources["dtype"].dtype,
        options=validate_mapping(ModelOptions, options), without=frozenset(parts - from_higher), **_mix_networks(a, b, keys),
    )  # fmt: skip


def _mix_networks(a: Side, b: Side, keys: set[str]) -> dict[str, object]:
    """The fields of a side that describe its network."""
    of_b = b if {"variant", "network"} & keys else a
    inputs = {} if a.workload is None or b.workload is None else {key for key in b.workload.all_inputs if key in keys}
    if "network" in keys or a.workload is None or b.workload is None or not may_mix_networks(a, b):
        return {"workload": of_b.workload, "selector": of_b.selector, "variant": of_b.variant}
    workload = _with_inputs(a.workload, {key: b.workload.all_inputs[key] for key in inputs}) if inputs else a.workload
    assert of_b.selector is not None
    variant = of_b.variant if workload is of_b.workload else of_b.selector.select(workload)
    return {"workload": workload, "selector": of_b.selector, "variant": variant}


def _with_inputs(workload: Workload, inputs: Mapping[str, object]) -> Workload:
    """The workload on other inputs."""
    reference = workload.folder if workload.mapping is None else workload.mapping
    return load_workload(reference, **{**workload.inputs, **inputs})


def _mix_accelerators(a: Accelerator, b: Accelerator, factors: Sequence[Factor]) -> Accelerator:
    """`a` with the parts that the factors cover, and the base, from `b`; validation is left out, because each part is valid already."""
    if any(factor.key == ACCELERATOR for factor in factors):
        return b
    paths = [path for factor in factors for path in factor.paths]
    mixed = _with_parts(a, b, [tuple(path.split(".")) for path in paths]) if paths else a.model_copy()
    mixed._base = b.base if any(factor.key == DEVICE for factor in factors) else a.base
    return mixed


def _with_parts(a: Any, b: Any, paths: Sequence[Path]) -> Any:
    """`a` with the parts at some paths from `b`."""
    updates: dict[str, object] = {}
    for head in dict.fromkeys(path[0] for path in paths):
        deeper = [path[1:] for path in paths if path[0] == head and len(path) > 1]
        updates[head] = _with_parts(_child(a, head), _child(b, head), deeper) if deeper else _child(b, head)
    if isinstance(a, BaseModel):
        return a.model_copy(update=updates)
    merged = {**a, **updates}
    order = _merged_order(list(a), list(b))
    return {name: merged[name] for name in order if name in merged and merged[name] is not ABSENT}


def _child(part: Any, name: str) -> Any:
    return getattr(part, name) if isinstance(part, BaseModel) else part.get(name, ABSENT)


def _merged_order(a: list[str], b: list[str]) -> list[str]:
    """The names of `a` in their order, and those of `b` alone after what they follow there."""
    order = list(a)
    for position, name in enumerate(b):
        if name not in order:
            previous = b[position - 1] if position else None
            order.insert(order.index(previous) + 1 if previous is not None else 0, name)
    return order
