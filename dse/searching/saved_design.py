"""A design as an accelerator description: each changed number says what it was, costs are those of the cost model."""

from collections.abc import Collection, Mapping

import yaml

from dse.base.display_units import format_quantity
from dse.base.units import Quantity
from dse.model.cost.area import area
from dse.model.cost.coefficients import has_known_process
from dse.model.cost.design import Design
from dse.model.cost.power import power, static_power
from dse.schema.accelerator import Accelerator
from dse.schema.accelerator_checks import highest_clock, impossible_costs
from dse.searching.archive import Archive

Description = dict[str, object]


def best_design_text(archive: Archive) -> str:
    """The YAML description of the best design of a search."""
    evaluator, design = archive.evaluator, archive.designs[archive.best_index()]
    space, name = evaluator.space, evaluator.problem.name
    numbers = {path: float(values[0]) for path, values in space.numeric_values(design[None]).items()}
    accelerator = space.accelerator
    changed = {path: _exact_text(accelerator, path, value, space.units[path]) for path, value in numbers.items()}
    changed = {path: text for path, text in changed.items() if numbers[path] != accelerator.value(path)}
    chosen = space.categorical_values(design)
    settings = "".join(f", {key} {value}" for key, value in space.run_settings(design).items())
    description = f"best design of the search '{name}' from {accelerator.name}{settings}"
    data = describe_variation(accelerator, changed, f"dse search {name}", chosen)
    return yaml.safe_dump(
        {**data, "name": f"{name}-best", "description": description, "hypothetical": True}, sort_keys=False, allow_unicode=True, width=120
    )


def describe_variation(
    accelerator: Accelerator, changed: Mapping[str, str], origin: str, switched: Mapping[str, object] | None = None
) -> Description:
    """The description of `accelerator` with other numbers and, by path, other values that are no numbers; `origin`: who changed them."""
    numbers: Description = {
        path: {"value": text, "kind": "assumed", "source": f"{origin}; {accelerator.name} has {_text(accelerator, path)}"}
        for path, text in changed.items()
    }
    varied = accelerator.replace({**numbers, **(switched or {})})
    if not changed and not switched:
        return accelerator.to_dict()
    varied = varied.replace(_lowered_clocks(varied))
    if not has_known_process(Design(varied)):
        return _without_costs(varied, ("area", "power", "idle"))
    priced = varied.replace(_costs(accelerator, varied))
    return _without_costs(priced, [loc[-1] for loc, _, _ in impossible_costs(priced.units, priced.cost)])


def _without_costs(accelerator: Accelerator, keys: Collection[object]) -> Description:
    data = accelerator.to_dict()
    return {**data, "cost": {key: value for key, value in data["cost"].items() if key not in keys}} if data.get("cost") else data


def _lowered_clocks(varied: Accelerator) -> Description:
    """The clock of the peaks in the place of clocks under load above it: the power of such a design sustains its peaks."""
    clock, impossible = highest_clock(varied.units), impossible_costs(varied.units, varied.cost)
    return {
        ".".join(map(str, loc)): {"value": clock.text, "kind": "derived", "source": "the clock of the peaks"}
        for loc, _, _ in impossible
        if clock is not None and loc != ("cost", "idle")
    }


def _exact_text(accelerator: Accelerator, path: str, value: float, unit: str) -> str:
    """A number in units that people use, if it is read back as it is."""
    text, quantity = format_quantity(value, unit), accelerator.at(path)
    is_exact = isinstance(quantity, Quantity) and unit and type(quantity).model_validate(text).value == value
    return text if is_exact else f"{value:g}" if not unit and f"{value:g}" == text else f"{value!r} {unit}".strip()


def _text(accelerator: Accelerator, path: str) -> str:
    quantity = accelerator.at(path)
    return "none" if quantity is None else format_quantity(quantity.value, type(quantity).unit or "1")


def _costs(accelerator: Accelerator, varied: Accelerator) -> Description:
    """The area, power and idle power of the varied design, where the description states those of the original one."""
    design = Design(varied, {}, accelerator.base)
    results = {"cost.area": (area, "mm^2", 1e-6), "cost.power": (power, "W", 1.0), "cost.idle": (static_power, "W", 1.0)}
    stated = {path: result for path, result in results.items() if accelerator.at(path) is not None}
    return {
        path: {"value": f"{float(evaluate(design)) / size:.6g} {unit}", "kind": "derived",
               "source": f"cost model of dse; {accelerator.name} has {_text(accelerator, path)}"}
        for path, (evaluate, unit, size) in stated.items()
    }  # fmt: skip
