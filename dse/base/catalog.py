"""Find descriptions (accelerators, workloads, sweeps): by name in the catalogue that ships with the package, or by path.

A reference with a slash, a backslash or the ending .yaml or .yml is a path, relative to the file that contains it (or to the working
directory). Any other reference is a name in the catalogue.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from dse.base.errors import InputError, did_you_mean

Reference = str | Path | Mapping[str, object]  # a name in the catalogue, a path, or a mapping with the contents of a file
CatalogFolder = Literal["accel_models", "workloads", "sweeps"]
KINDS: dict[CatalogFolder, str] = {"accel_models": "an accelerator", "workloads": "a workload", "sweeps": "a sweep or search"}


@cache
def data_root() -> Path:
    """The folder with the data folders: `_data` of an installed package, or the top of a checkout."""
    package = Path(__file__).parents[1]
    shipped = package / "_data"
    return shipped if shipped.is_dir() else package.parent


def list_names(folder: CatalogFolder) -> list[str]:
    """The names of all descriptions in a folder of the catalogue, sorted."""
    if folder == "workloads":
        return sorted(file.parent.name for file in (data_root() / folder).glob("*/workload.yaml"))
    return sorted(file.stem for file in (data_root() / folder).glob("*.yaml"))


def find_path(folder: CatalogFolder, reference: str | Path, relative_to: Path | None = None) -> Path:
    """Find the file (for a workload: the folder) that `reference` names; raises InputError with a suggestion.

    A path is relative to the folder `relative_to`; default: the working directory.
    """
    if isinstance(reference, Path) or is_path(reference):
        return _existing_path((relative_to or Path()) / reference)
    if reference not in list_names(folder):
        hint = did_you_mean(reference, list_names(folder))
        raise InputError(
            f"'{reference}' is not {KINDS[folder]} of the catalogue", f"{hint} (a path needs a '/', or the ending .yaml or .yml)"
        )
    return data_root() / folder / (reference if folder == "workloads" else f"{reference}.yaml")


def find_named(name: str) -> list[Path]:
    """The files (for workloads: folders) of every kind in the catalogue that have this name; empty if there is none."""
    return [find_path(folder, name) for folder in KINDS if name in list_names(folder)]


def suggest_name(name: str) -> str:
    """What to write instead of a name that no description of the catalogue has."""
    return did_you_mean(name, [known for folder in KINDS for known in list_names(folder)])


def resolve_specification(reference: Reference) -> Path | Mapping[str, object]:
    """Find the file of a sweep or search; a mapping is returned as it is. Raises InputError."""
    return reference if isinstance(reference, Mapping) else find_path("sweeps", reference)


def resolve_accelerator(reference: Reference) -> Path | Mapping[str, object]:
    """Find the file of an accelerator; a mapping is returned as it is. Raises InputError."""
    return reference if isinstance(reference, Mapping) else find_path("accel_models", reference)


def is_path(reference: str) -> bool:
    """Whether a reference is a path and not a name in the catalogue."""
    return "/" in reference or "\\" in reference or reference.endswith((".yaml", ".yml")) or reference in (".", "..")


def _existing_path(path: Path) -> Path:
    if not os.path.exists(path):  # also False for text that cannot be a path
        siblings = [file.name for file in path.parent.iterdir()] if os.path.isdir(path.parent) else []
        fix = did_you_mean(path.name, siblings) if siblings else "give the path of a file; its folder does not exist either"
        raise InputError(f"'{path}' does not exist", fix)
    return path
