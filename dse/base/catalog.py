"""Finds descriptions: by name in the catalogue that ships with the package, or by path.

Anything with a slash, a backslash or a file ending is a path, relative to the file that names it
(or to the working directory); anything else is a name.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from dse.base.errors import InputError, did_you_mean

Reference = str | Path | Mapping[str, Any]  # a name of the catalogue, a path, or what a file would say
CatalogFolder = Literal["accel_models", "workloads", "sweeps"]


@cache
def data_root() -> Path:
    """Where the data folders lie: inside an installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    shipped = package / "_data"
    return shipped if shipped.is_dir() else package.parent


def list_names(shelf: CatalogFolder) -> list[str]:
    if shelf == "workloads":
        return sorted(file.parent.name for file in (data_root() / shelf).glob("*/workload.yaml"))
    return sorted(file.stem for file in (data_root() / shelf).glob("*.yaml"))


def find_path(shelf: CatalogFolder, reference: str | Path, beside: Path | None = None) -> Path:
    """The file (a folder for a workload) that `reference` means; raises InputError with a suggestion."""
    if isinstance(reference, Path) or is_path(reference):
        return _existing((beside or Path()) / reference)
    if reference not in list_names(shelf):
        hint = did_you_mean(reference, list_names(shelf))
        raise InputError(f"no '{reference}' among the shipped {shelf}", f"{hint} (a path needs a '/' or an ending)")
    return data_root() / shelf / (reference if shelf == "workloads" else f"{reference}.yaml")


def resolve_specification(reference: Reference) -> Path | Mapping[str, Any]:
    """The file of a sweep or search, by name or path; a mapping, which says what such a file would, as it is. Raises InputError."""
    return reference if isinstance(reference, Mapping) else find_path("sweeps", reference)


def resolve_accelerator(reference: Reference) -> Path | Mapping[str, Any]:
    """The same, of an accelerator."""
    return reference if isinstance(reference, Mapping) else find_path("accel_models", reference)


def is_path(reference: str) -> bool:
    return "/" in reference or "\\" in reference or reference.endswith((".yaml", ".yml")) or reference in (".", "..")


def _existing(path: Path) -> Path:
    if not os.path.exists(path):  # False, too, for what can't be a path
        beside = [file.name for file in path.parent.iterdir()] if os.path.isdir(path.parent) else []
        fix = did_you_mean(path.name, beside) if beside else "give the path of a file; its folder does not exist either"
        raise InputError(f"'{path}' does not exist", fix)
    return path
