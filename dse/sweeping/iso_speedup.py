"""Speedup at iso-accuracy: for every design of a sweep, the fastest variant that loses little enough accuracy."""

import json
from typing import Any

import numpy as np
import xarray as xr

from dse.base.errors import InputError
from dse.workload.accuracy import ROUNDING_TOLERANCE, accuracy_loss, check_drop

DENSE = -1  # the index of the dense network among the variants
UNITS = {False: "points of the metric", True: "%"}  # by `relative`
SPEEDUP_ATTRS = {"units": "1", "long_name": "best dense latency / latency within the loss of accuracy"}
BEST_ATTRS = {"long_name": "variant that reaches it, -1 for the dense network"}


def accuracy_drop(dataset: xr.Dataset, relative: bool = False) -> xr.DataArray:
    """Loss of accuracy of each variant against the dense network of its own source [variant].

    In points of its metric, or in % of the dense value. Positive is worse, whichever way the metric points; NaN where one of the two
    accuracies is unknown, 0 for the dense network.
    """
    metrics = json.loads(dataset.attrs["metrics"])
    directions = [metrics[w][m]["direction"] for w, m in zip(dataset.workload.values, dataset.metric.values, strict=True)]
    pairs = zip(dataset.accuracy.values, dataset.dense_accuracy.values, directions, strict=True)
    losses = np.array([accuracy_loss(*pair) for pair in pairs])
    scale = 100 / abs(dataset.dense_accuracy.values) if relative else 1.0
    drop = np.where(dataset.method.values == "dense", 0.0, losses * scale)
    attrs = {"units": UNITS[relative], "long_name": "loss of accuracy against the dense network of the source"}
    return xr.DataArray(drop, dims="variant", coords={"variant": dataset.variant}, attrs=attrs)


def iso_speedup(dataset: xr.Dataset, drop: float = 1.0, relative: bool = False) -> xr.Dataset:
    """Compute the best speedup within a tolerated loss of accuracy, for each design and workload of a sweep.

    Variants without an accuracy are left out. Where a network has several metrics, each variant is compared by its own metric: select
    one metric first to use only that. The dense network is always feasible, with speedup 1.

    Args:
        dataset: the results of a sweep, with `speedup`.
        drop: the largest loss of accuracy, in points of the metric of each variant.
        relative: `drop` is in % of the accuracy of the dense network.

    Returns:
        A dataset with the dims accelerator, one per axis, batch, dtype and workload. `speedup` [1] is the best one; `best` is the
        variant that reaches it, or -1 for the dense network. The coordinates of `variant` describe the variants:
        `result.method.sel(variant=result.best)`.

    Raises:
        InputError: the dataset has no speedup, or `drop` is negative.

    Examples:
        >>> import dse
        >>> results = dse.sweep({
        ...     "name": "equal_accuracy", "accelerators": ["a100-sxm4-80gb"], "workloads": ["resnet50"], "dtype": "fp16", "batch": [1, 32],
        ... })
        >>> best = dse.iso_speedup(results, drop=1.0)
        >>> best.speedup.squeeze().values.round(2)
        array([1.54, 1.33])
        >>> best.method.sel(variant=best.best).squeeze().values.tolist()
        ['rigl_erk_5x', 'asp']
    """
    if "speedup" not in dataset:
        raise InputError("the dataset has no speedup", "add it to 'store: {variables: [...]}' and sweep again")
    check_drop(drop)
    feasible = accuracy_drop(dataset, relative).values <= drop + ROUNDING_TOLERANCE
    workloads = dict.fromkeys(dataset.workload.values)
    results = [_fastest(dataset.speedup.isel(variant=feasible & (dataset.workload.values == name))) for name in workloads]
    speedup, best = (np.stack(arrays, axis=-1) for arrays in zip(*results, strict=True))
    dims = (*(dim for dim in dataset.speedup.dims if dim != "variant"), "workload")
    coords = {name: coord for name, coord in dataset.coords.items() if "variant" not in coord.dims and set(coord.dims) <= set(dims)}
    coords |= {"workload": np.array(list(workloads), object)} | _variant_coordinates(dataset)
    result = xr.Dataset({"speedup": (dims, speedup, SPEEDUP_ATTRS), "best": (dims, best, BEST_ATTRS)}, coords)
    return result.assign_attrs(dataset.attrs | {"accuracy_drop": drop, "accuracy_drop_units": UNITS[relative]})


def _fastest(speedup: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """The best speedup over some variants and the dense network, and the index of the variant that has it."""
    values = speedup.transpose(..., "variant").values
    with_dense = np.concatenate([np.ones((*values.shape[:-1], 1)), np.nan_to_num(values, nan=-np.inf)], axis=-1)
    choice = with_dense.argmax(axis=-1)
    return np.take_along_axis(with_dense, choice[..., None], axis=-1)[..., 0], np.array([DENSE, *speedup.variant.values])[choice]


def _variant_coordinates(dataset: xr.Dataset) -> dict[Any, Any]:
    """The coordinates of the variants, preceded by those of the dense network."""
    dense = {"method": "dense", "pattern": "dense", "accuracy_kind": "none", "metric": "", "densities_from": ""}
    columns = {name: coord for name, coord in dataset.coords.items() if coord.dims == ("variant",) and name not in ("variant", "workload")}
    first = {name: dense.get(str(name), 0.0 if "sparsity" in str(name) else np.nan) for name in columns}
    table = {name: ("variant", np.array([first[name], *coord.values], coord.dtype), coord.attrs) for name, coord in columns.items()}
    return {"variant": np.array([DENSE, *dataset.variant.values])} | table
