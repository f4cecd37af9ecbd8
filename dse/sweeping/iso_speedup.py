"""Speedup at iso-accuracy: over the designs of a sweep, the fastest network state that loses little enough."""

import json
from typing import Any

import numpy as np
import xarray as xr

from dse.base.errors import InputError
from dse.workload.accuracy import ROUNDING_TOLERANCE, accuracy_loss, check_drop

DENSE = -1  # the number of the dense network among the variants
UNITS = {False: "points of the metric", True: "%"}
SPEEDUP = {"units": "1", "long_name": "best dense latency / latency within the loss of accuracy"}
BEST = {"long_name": "variant that reaches it, -1 for the dense network"}


def accuracy_drop(dataset: xr.Dataset, relative: bool = False) -> xr.DataArray:
    """What each variant loses against the dense network of its own source [variant]: in points of its metric, or in % of the
    dense value; NaN where either is not known, 0 for the dense network. Positive is worse, whichever way the metric points.
    """
    metrics = json.loads(dataset.attrs["metrics"])
    directions = [metrics[w][m]["direction"] for w, m in zip(dataset.workload.values, dataset.metric.values, strict=True)]
    lost = [accuracy_loss(*each) for each in zip(dataset.accuracy.values, dataset.dense_accuracy.values, directions, strict=True)]
    scale = 100 / abs(dataset.dense_accuracy.values) if relative else 1.0
    known = np.where(dataset.method.values == "dense", 0.0, np.array(lost) * scale)
    attrs = {"units": UNITS[relative], "long_name": "loss of accuracy against the dense network of the source"}
    return xr.DataArray(known, dims="variant", coords={"variant": dataset.variant}, attrs=attrs)


def iso_speedup(dataset: xr.Dataset, drop: float = 1.0, relative: bool = False) -> xr.Dataset:
    """The best speedup within a loss of accuracy, for each accelerator, axis, batch, dtype and workload of a sweep.

    `drop` is in the points of each variant's metric, or (`relative`) in % of its dense network's value. Variants without an
    accuracy stay out. Where a network has several metrics, each variant counts on its own: select one first to hold to it. The
    dense network may always run, with speedup 1. Variables: `speedup`, and `best`, the variant that reaches it (-1: the dense
    network); the coordinates of `variant` say what each is: `found.method.sel(variant=found.best)`.
    Raises InputError.
    """
    if "speedup" not in dataset:
        raise InputError("the dataset has no speedup", "add it to 'store: {variables: [...]}' and sweep again")
    check_drop(drop)
    within = accuracy_drop(dataset, relative).values <= drop + ROUNDING_TOLERANCE
    workloads = dict.fromkeys(dataset.workload.values)
    reached = [_fastest(dataset.speedup.isel(variant=within & (dataset.workload.values == name))) for name in workloads]
    dims = (*(dim for dim in dataset.speedup.dims if dim != "variant"), "workload")
    speedup, best = (np.stack(part, axis=-1) for part in zip(*reached, strict=True))
    coords = {name: coord for name, coord in dataset.coords.items() if "variant" not in coord.dims and set(coord.dims) <= set(dims)}
    coords |= {"workload": np.array(list(workloads), object)} | _described(dataset)
    found = xr.Dataset({"speedup": (dims, speedup, SPEEDUP), "best": (dims, best, BEST)}, coords)
    return found.assign_attrs(dataset.attrs | {"accuracy_drop": drop, "accuracy_drop_units": UNITS[relative]})


def _fastest(speedup: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """The best speedup over some variants and the dense network, and the number of the variant that has it."""
    values = speedup.transpose(..., "variant").values
    offered = np.concatenate([np.ones((*values.shape[:-1], 1)), np.nan_to_num(values, nan=-np.inf)], axis=-1)
    choice = offered.argmax(axis=-1)
    return np.take_along_axis(offered, choice[..., None], axis=-1)[..., 0], np.array([DENSE, *speedup.variant.values])[choice]


def _described(dataset: xr.Dataset) -> dict[Any, Any]:
    """What each variant is, and before them the dense network."""
    dense = {"method": "dense", "pattern": "dense", "accuracy_kind": "none", "metric": "", "densities_from": ""}
    columns = {name: coord for name, coord in dataset.coords.items() if coord.dims == ("variant",) and name not in ("variant", "workload")}
    first = {name: dense.get(str(name), 0.0 if "sparsity" in str(name) else np.nan) for name in columns}
    table = {name: ("variant", np.array([first[name], *coord.values], coord.dtype), coord.attrs) for name, coord in columns.items()}
    return {"variant": np.array([DENSE, *dataset.variant.values])} | table
