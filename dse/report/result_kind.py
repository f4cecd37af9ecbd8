"""Which results a dataset holds: those of a sweep, its summary, a Pareto front, the best of a sweep, or the front of a search."""

import json
from typing import Literal

import numpy as np
import xarray as xr

from dse.base.errors import InputError, ProblemCollector

ResultKind = Literal["sweep", "summary", "front", "top", "search"]
SWEEP_LABELS = ("accelerator", "batch", "dtype", "variant")
VARIANT_LABELS = ("workload", "method", "pattern", "sparsity", "nominal_sparsity", "accuracy", "dense_accuracy", "accuracy_kind", "metric")
MAPPING_ATTRIBUTES = ("metrics", "run_on", "unverified")
FIX = "give a dataset that 'dse sweep', 'dse search' or 'dse pareto' wrote"


def result_kind(dataset: xr.Dataset) -> ResultKind:
    """The kind of results that a dataset holds; raises InputError that says what a foreign or damaged dataset lacks."""
    if "point" in dataset.dims:
        return _point_kind(dataset)
    is_summary = any(str(name).endswith("_mean") for name in dataset.data_vars)
    has_times = bool({"latency", "speedup"} & set(dataset.data_vars))
    has_costs_alone = "spec" in dataset.attrs and not {"batch", "dtype", "variant"} & set(dataset.coords)
    if not (has_costs_alone and not has_times):
        check_labels(dataset)
    if not (is_summary or has_times):
        raise InputError(
            "the dataset has neither 'latency' nor 'speedup'", "list one of them in 'store: {variables: [...]}' and sweep again"
        )
    return "summary" if is_summary else "sweep"


def check_labels(dataset: xr.Dataset) -> None:
    """Raise InputError unless the results of a sweep have their labels, and attributes that describe them."""
    if missing := [name for name in SWEEP_LABELS if name not in dataset.coords]:
        raise InputError(f"the dataset has no coordinate '{missing[0]}', so it does not hold results of this program", FIX)
    if missing := [name for name in VARIANT_LABELS if name not in dataset.coords]:
        message = f"the dataset has no coordinate{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}"
        raise InputError(message, "sweep again: another version wrote the dataset, or another program changed it")
    problems = ProblemCollector()
    for name in MAPPING_ATTRIBUTES:
        with problems.collect():
            _check_mapping(dataset, name)
    problems.raise_if_any()
    if "metrics" in dataset.attrs:
        _check_metrics(dataset, json.loads(dataset.attrs["metrics"]))


def _check_mapping(dataset: xr.Dataset, name: str) -> None:
    """Raise InputError if the attribute is there, but is not a mapping in JSON."""
    try:
        is_mapping = isinstance(json.loads(dataset.attrs.get(name, "{}")), dict)
    except (ValueError, TypeError):
        is_mapping = False
    if not is_mapping:
        raise InputError(f"the attribute '{name}' of the dataset is damaged (it is not a mapping in JSON)", "sweep again")


def _check_metrics(dataset: xr.Dataset, metrics: dict[str, object]) -> None:
    pairs = zip(np.atleast_1d(dataset.workload.values), np.atleast_1d(dataset.metric.values), strict=True)
    for workload, metric in dict.fromkeys(pairs):
        if "direction" not in metrics.get(workload, {}).get(metric, {}):
            raise InputError(f"the attribute 'metrics' of the dataset does not describe '{metric}' of '{workload}'", "sweep again")


def _point_kind(dataset: xr.Dataset) -> ResultKind:
    """The kind of a dataset of single points."""
    if "groups" in dataset.attrs and "objectives" in dataset.attrs:
        return "front"
    if "best" in dataset and "objectives" in dataset.attrs:
        return "search"
    if "latency" in dataset or "speedup" in dataset or "accelerator" in dataset.coords:
        return "top"
    raise InputError("the points of the dataset have no latency, speedup or accelerator", FIX)
