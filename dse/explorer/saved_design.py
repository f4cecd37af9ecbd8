"""An explored design as the file of an accelerator description."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dse.base.errors import InputError
from dse.base.output_file import replace_file
from dse.explorer.exploration import quantity_text
from dse.schema.accelerator import Accelerator
from dse.searching.saved_design import describe_variation

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
    data = describe_variation(accelerator, changed, "dse explore")
    return {**data, "name": name, "description": f"{accelerator.name} as changed with dse explore", "hypothetical": True}
