"""Objectives of a Pareto front or a ranking: variables and coordinates of a dataset by name, each maximised or minimised."""

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import xarray as xr

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.schema.stored_results import EXTRA_DIMS
from dse.sweeping.accuracy_losses import accuracy_drop, accuracy_drop_interval
from dse.sweeping.pareto_front import significant_bits

ACCURACY_DROP = "accuracy_drop"  # not stored: computed when it is an objective

Signs = dict[str, float]  # by objective: -1 where it is maximised, 1 where it is minimised


def objective_signs(
    dataset: xr.Dataset, maximize: Sequence[str], minimize: Sequence[str], reference: Mapping[str, float], pool: bool = True
) -> Signs:
    """The sign that turns each objective into one to minimise; raises InputError with every problem of the objectives.

    `reference` is a user's corner of the hypervolume, by objective. `pool`: whether points of different networks are compared.
    """
    names, problems = [*maximize, *minimize], ProblemCollector()
    if not names:
        raise InputError("nothing to maximize or minimize is given", "name a variable or a coordinate, as in '--maximize speedup'")
    for position, name in enumerate(names):
        with problems.collect():
            _check_numeric(dataset, name)
            if name in names[:position]:
                raise InputError(f"'{name}' is listed twice as an objective", "list it once")
    for name in reference:
        with problems.collect():
            if name not in names:
                raise InputError(f"the reference '{name}' is not an objective", did_you_mean(name, names))
    problems.raise_if_any()
    signs = dict.fromkeys(maximize, -1.0) | dict.fromkeys(minimize, 1.0)
    _check_accuracies(dataset, signs, pool)
    return signs


def with_accuracy_drop(dataset: xr.Dataset, names: Iterable[str]) -> xr.Dataset:
    """The dataset with the coordinate `accuracy_drop` and the ends of its interval, if it is one of `names`."""
    is_needed = ACCURACY_DROP in names and ACCURACY_DROP not in dataset
    if not is_needed:
        return dataset
    return dataset.assign_coords({ACCURACY_DROP: accuracy_drop(dataset)} | accuracy_drop_interval(dataset))


def objective_columns(dataset: xr.Dataset, names: Sequence[str]) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """Dims of the cells that some variables and coordinates span, and an array over all of these dims for each name, without copies."""
    columns = xr.broadcast(*(dataset[name] for name in names))
    return tuple(map(str, columns[0].dims)), [column.values for column in columns]


def objective_bits(dataset: xr.Dataset, names: Iterable[str]) -> np.ndarray:
    """Number of significant bits of each objective, by the type in which it was computed [objective]."""
    return np.array([significant_bits(dataset[name].dtype) for name in names])


def _check_numeric(dataset: xr.Dataset, name: str) -> None:
    numeric = {str(key) for key, variable in dataset.variables.items() if variable.dtype.kind in "ifb"}
    numeric |= {ACCURACY_DROP} if {"accuracy", "dense_accuracy"} <= numeric and "metrics" in dataset.attrs else set()
    if name in dataset.variables and name not in numeric:
        raise InputError(f"'{name}' is not a number", did_you_mean("", numeric))
    if name not in numeric:
        raise InputError(f"the dataset has no '{name}'", did_you_mean(name, numeric))
    if extra := EXTRA_DIMS.get(name):
        raise InputError(f"'{name}' has a value for each {extra[0]}", f"select one {extra[0]} and give the result a name of its own")


def _check_accuracies(dataset: xr.Dataset, signs: Signs, pool: bool) -> None:
    """Raise InputError unless the accuracies that are compared have one metric of one network (and `accuracy` one dense network)."""
    if not {"accuracy", ACCURACY_DROP} & signs.keys() or "metrics" not in dataset.attrs:
        return
    columns = [np.atleast_1d(dataset[name].values) for name in ("workload", "metric", "accuracy", "dense_accuracy")]
    rows = [row for row in zip(*columns, strict=True) if np.isfinite(row[2])]
    for workload in [None] if pool else sorted({row[0] for row in rows}):
        _check_scale(dataset, signs, [row for row in rows if workload in (None, row[0])])


def _check_scale(dataset: xr.Dataset, signs: Signs, rows: list[tuple[str, str, float, float]]) -> None:
    """Check rows (workload, metric, accuracy, dense accuracy) that are compared with each other."""
    scales, dense = sorted({row[:2] for row in rows}), sorted({f"{row[3]:g}" for row in rows})
    if len(scales) > 1:
        listed = "; ".join(f"{workload}, {metric}" for workload, metric in scales)
        message = f"accuracies of different networks or metrics cannot be compared ({listed})"
        raise InputError(message, "select one, as in '--at metric=...'")
    if len(dense) > 1 and "accuracy" in signs:
        message = f"the accuracies start from different dense networks ({', '.join(dense)})"
        raise InputError(message, f"minimize '{ACCURACY_DROP}' instead, the loss against the dense network of the same source")
    for workload, metric in scales:
        better = json.loads(dataset.attrs["metrics"])[workload][metric]["direction"]
        if signs.get("accuracy", sign := -1.0 if better == "higher" else 1.0) != sign:
            raise InputError(f"{metric} is better {better}", f"{'maximize' if better == 'higher' else 'minimize'} 'accuracy'")
