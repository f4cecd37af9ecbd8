"""Which results a dataset holds: those of a sweep, its summary, a Pareto front, the best of a sweep, or the front of a search."""

from typing import Literal

import xarray as xr

from dse.base.errors import InputError

ResultKind = Literal["sweep", "summary", "front", "top", "search"]
SWEEP_LABELS = ("accelerator", "batch", "dtype", "variant")
FIX = "give a dataset that 'dse sweep', 'dse search' or 'dse pareto' wrote"


def result_kind(dataset: xr.Dataset) -> ResultKind:
    """The kind of results that a dataset holds; raises InputError that says what a foreign or damaged dataset lacks."""
    if "point" in dataset.dims:
        return _point_kind(dataset)
    missing = [name for name in SWEEP_LABELS if name not in dataset.coords]
    if missing:
        raise InputError(f"the dataset has no coordinate '{missing[0]}', so it does not hold results of this program", FIX)
    if "workload" not in dataset.coords or "method" not in dataset.coords:
        raise InputError("the variants of the dataset have no 'workload' and 'method'", FIX)
    if any(str(name).endswith("_mean") for name in dataset.data_vars):
        return "summary"
    if not {"latency", "speedup"} & set(dataset.data_vars):
        raise InputError(
            "the dataset has neither 'latency' nor 'speedup'", "list one of them in 'store: {variables: [...]}' and sweep again"
        )
    return "sweep"


def _point_kind(dataset: xr.Dataset) -> ResultKind:
    """The kind of a dataset of single points."""
    if "groups" in dataset.attrs and "objectives" in dataset.attrs:
        return "front"
    if "best" in dataset and "objectives" in dataset.attrs:
        return "search"
    if "latency" in dataset or "speedup" in dataset or "accelerator" in dataset.coords:
        return "top"
    raise InputError("the points of the dataset have no latency, speedup or accelerator", FIX)
