"""An explored design as an accelerator description: each changed number says what it was, costs are those of the cost model."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dse.base.display_units import format_quantity
from dse.base.errors import InputError
from dse.base.output_file import replace_file
from dse.explorer.exploration import quantity_text
from dse.model.cost.area import area
from dse.model.cost.design import Design
from dse.model.cost.power import power
from dse.schema.accelerator import Accelerator

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\.yaml")


def save_design(accelerator: Accelerator, chosen: Mapping[str, str], folder: Path, file_name: str) -> Path:
    """Write the design as a YAML description and return its path; raises InputError for a wrong or existing name."""
    if not FILE_NAME.fullmatch(file_name):
        raise InputError(f"'{file_name}' is not a valid file name", "write letters, digits, '_', '-' and '.', and '.yaml' at the end")
    path = folder / file_name
    if path.exists():
        raise InputError(f"'{path}' exists", "write another name")
    text = yaml.safe_dump(describe_design(accelerator, chosen, path.stem), sort_keys=False, allow_unicode=True, width=120)
    replace_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def describe_design(accelerator: Accelerator, chosen: Mapping[str, str], name: str) -> dict[str, Any]:
    """The description of a design: of `accelerator`, with the texts of `chosen` by path where they differ from it."""
    changed = {path: text for path, text in chosen.items() if text != quantity_text(accelerator.value(path), accelerator.at(path))}
    numbers: dict[str, Any] = {
        path: {"value": text, "kind": "assumed", "source": f"dse explore; {accelerator.name} has {_text(accelerator, path)}"}
        for path, text in changed.items()
    }
    varied = accelerator.replace(numbers) if numbers else accelerator
    data = varied.replace(_costs(accelerator, varied)).to_dict() if changed else varied.to_dict()
    return {**data, "name": name, "description": f"{accelerator.name} as changed with dse explore", "hypothetical": True}


def _text(accelerator: Accelerator, path: str) -> str:
    quantity = accelerator.at(path)
    return format_quantity(quantity.value, type(quantity).unit or "1")


def _costs(accelerator: Accelerator, varied: Accelerator) -> dict[str, Any]:
    """The area and power of the varied design, where the description states those of the original one."""
    design = Design(varied, {}, accelerator.base)
    results = {"cost.area": (area, "mm^2", 1e-6), "cost.power": (power, "W", 1.0)}
    stated = {path: result for path, result in results.items() if accelerator.at(path) is not None}
    return {
        path: {"value": f"{float(evaluate(design)) / size:.6g} {unit}", "kind": "derived",
               "source": f"cost model of dse; {accelerator.name} has {_text(accelerator, path)}"}
        for path, (evaluate, unit, size) in stated.items()
    }  # fmt: skip
