"""Read what a report is about: datasets of sweeps and fronts, folders of searches, and tables of validations."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.sweeping import store
from dse.sweeping.select_values import limit_values

Kind = Literal["sweep", "points", "search", "validation"]

SWEEP_DIMS = ("accelerator", "batch", "dtype", "variant")
EXTRA_DIMS = ("resource", "execution")
VALIDATION_COLUMNS = ("set", "split", "device", "kernel", "quantity", "measured")
FIX = "give a dataset of 'dse sweep' or 'dse pareto', the folder of 'dse search', or a table of 'dse validate -o'"


@dataclass(frozen=True, eq=False)
class Results:
    """One input of a report.

    `dataset` of a sweep has the dims of the sweep; that of `points` (a front, or the best results) and of a search the dim `point`.
    `table` holds the rows of a validation.
    """

    path: Path
    name: str
    kind: Kind
    dataset: xr.Dataset
    table: pd.DataFrame


def read_all(paths: list[Path], limits: Sequence[str] = ()) -> list[Results]:
    """Read every input, of datasets the results within limits such as 'power <= 75 W'; raises one InputError with the problems of all."""
    problems, read = ProblemCollector(), list[Results]()
    for path in dict.fromkeys(paths):
        with problems.collect(path):
            read.append(read_results(path, limits))
    problems.raise_if_any()
    return read


def read_results(path: Path, limits: Sequence[str] = ()) -> Results:
    """Read one input, of a dataset the results within limits; raises InputError with what is wrong with it."""
    if not path.exists():
        raise InputError("does not exist", FIX, path)
    if path.suffix == ".csv":
        return _read_validation(path)
    file = _file_of_folder(path) if store.is_plain_folder(path) else path
    dataset = limit_values(store.read(file), limits)
    kind = _kind_of(dataset, file)
    name = str(dataset.attrs.get("title") or (file.parent.resolve().name if file.name in ("results.nc", "front.nc") else file.stem))
    return Results(file, name, kind, _with_sweep_dims(dataset) if kind == "sweep" else dataset, pd.DataFrame())


def _file_of_folder(folder: Path) -> Path:
    """The dataset in the output folder of a sweep or a search."""
    files = [folder / name for name in ("results.nc", "front.nc") if (folder / name).is_file()]
    if files:
        return files[0]
    raise InputError("the folder has no 'results.nc' and no 'front.nc'", FIX, folder)


def _kind_of(dataset: xr.Dataset, file: Path) -> Kind:
    if "sampler" in dataset.attrs and "point" in dataset.dims:
        return "search"
    problems = [
        Problem(f"the dataset has no {what} '{name}'", "evaluate the specification again with this version of 'dse sweep'", file)
        for name, what, present in _requirements(dataset)
        if not present
    ]
    if {"latency", "speedup"}.isdisjoint(map(str, dataset.data_vars)):
        stored = ", ".join(sorted(map(str, dataset.data_vars))[:5]) or "nothing"
        is_summary = any(str(name).endswith(("_mean", "_histogram")) for name in dataset.variables)
        fix = "sweep again with 'keep: all', 'front' or 'top'" if is_summary else FIX
        problems.append(Problem(f"the dataset has neither 'latency' nor 'speedup' (it has {stored})", fix, file))
    if problems:
        raise InputError.from_problems(problems)
    if not dataset.sizes.get("point", dataset.sizes.get("variant", 1)):
        raise InputError("the dataset has no results", "sweep at least one design and variant", file)
    return "points" if "point" in dataset.dims else "sweep"


def _requirements(dataset: xr.Dataset) -> list[tuple[str, str, bool]]:
    """What the results of a sweep must have: name, what it is, and whether the dataset has it."""
    labels = [*SWEEP_DIMS, "workload", "method", "pattern"]
    return [(name, "coordinate", name in dataset.coords) for name in labels] + [
        (name, "attribute", name in dataset.attrs) for name in ("spec", "metrics")
    ]


def _with_sweep_dims(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with every label as a dim, also those that a selection had removed, in the order of a sweep."""
    axes = [str(name) for name in dataset.coords if "." in str(name)]
    scalars = [name for name in (*SWEEP_DIMS, *axes) if name not in dataset.dims]
    variant_labels = [str(name) for name in dataset.coords if name not in (*SWEEP_DIMS, *axes, *EXTRA_DIMS) and not dataset[name].dims]
    expanded = dataset.expand_dims(scalars)
    return expanded.assign_coords({name: ("variant", np.array([dataset[name].item()])) for name in variant_labels})


def _read_validation(path: Path) -> Results:
    try:
        table = pd.read_csv(path)
    except (ValueError, OSError) as error:
        raise InputError(f"is not a table ({str(error).splitlines()[0]})", FIX, path) from error
    missing = [name for name in VALIDATION_COLUMNS if name not in table.columns]
    if missing or not {"sol", "calibrated"} & set(table.columns) or table.empty:
        lacking = f"has no column '{missing[0]}'" if missing else "has no predictions"
        raise InputError(f"the table {lacking}", "give a table that 'dse validate -o FOLDER' wrote", path)
    return Results(path, f"validation of {path.stem}", "validation", xr.Dataset(), table)


def read_json(attributes: Mapping[str, Any], name: str, default: object) -> Any:
    """An attribute that holds JSON, or a default where it is missing."""
    return json.loads(attributes[name]) if name in attributes else default
