"""Losses of accuracy of the variants of a dataset against the dense network of their source, by best estimate and in samples."""

import json
from collections.abc import Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float

from dse.workload.accuracy import accuracy_loss
from dse.workload.accuracy_samples import SAMPLES, UncertainAccuracy, describe_variant, network_name, sample_accuracies

ASSUMED_DROP = "assumed_drop"  # coordinate of results in which a specification assumes accuracy drops
UNITS = {False: "points of the metric", True: "%"}  # by `relative`


def accuracy_drop(dataset: xr.Dataset, relative: bool = False) -> xr.DataArray:
    """Loss of accuracy of each variant against the dense network of its own source [variant].

    In points of its metric, or in % of the dense value. Positive is worse, whichever way the metric points; NaN where one of the two
    accuracies is unknown, 0 for the dense network. A drop that the specification assumes counts also where no accuracy is known.
    """
    drop = _with_assumed(dataset, _losses(dataset, dataset.accuracy.values[:, None], relative), relative)[:, 0]
    attrs = {"units": UNITS[relative], "long_name": "loss of accuracy against the dense network of the source"}
    return xr.DataArray(drop, dims="variant", coords={"variant": dataset.variant}, attrs=attrs)


def accuracy_drop_interval(dataset: xr.Dataset, relative: bool = False) -> dict[str, xr.DataArray]:
    """The ends of the 90% interval of `accuracy_drop`, by name; empty if no accuracy has an interval."""
    if not has_accuracy_intervals(dataset):
        return {}
    ends = np.stack([dataset.accuracy_low.values, dataset.accuracy_high.values], axis=1)
    losses = _losses(dataset, np.where(np.isnan(dataset.accuracy.values)[:, None], np.nan, ends), relative)
    pruned = np.where((dataset.method.values == "dense")[:, None], np.nan, losses)
    attrs = {"units": UNITS[relative], "long_name": "of the 90% interval of the loss of accuracy"}
    return {
        f"accuracy_drop_{name}": xr.DataArray(values, dims="variant", coords={"variant": dataset.variant}, attrs=attrs)
        for name, values in (("low", pruned.min(axis=1)), ("high", pruned.max(axis=1)))
    }


def has_accuracy_intervals(dataset: xr.Dataset) -> bool:
    """Whether any accuracy of a dataset has an interval; older datasets have none."""
    return "accuracy_low" in dataset.coords and bool(np.isfinite(dataset.accuracy_low.values).any())


def sample_drops(dataset: xr.Dataset, relative: bool = False, samples: int = SAMPLES, seed: int = 0) -> Float[np.ndarray, "variant sample"]:
    """Samples of the losses of `accuracy_drop` [variant, sample]; those of an accuracy without an interval are all equal."""
    return _with_assumed(dataset, _losses(dataset, sample_dataset_accuracies(dataset, samples, seed), relative), relative)


def sample_dataset_accuracies(dataset: xr.Dataset, samples: int = SAMPLES, seed: int = 0) -> Float[np.ndarray, "variant sample"]:
    """Samples of the accuracies, in the unit of the metric [variant, sample]."""
    return sample_accuracies(_uncertain_accuracies(dataset), samples, seed)


def _uncertain_accuracies(dataset: xr.Dataset) -> list[UncertainAccuracy]:
    """The accuracy of each variant. A network has the same one for all inputs that it runs on."""
    columns = [dataset[name].values.tolist() for name in ("method", "pattern", "nominal_sparsity", "metric")]
    variants = [describe_variant(*row) for row in zip(*columns, strict=True)]
    networks = [network_name(str(name)) for name in dataset.workload.values]
    unknown = np.full(len(variants), np.nan)
    ends = [dataset[name].values if name in dataset.coords else unknown for name in ("accuracy_low", "accuracy_high")]
    rows = zip(dataset.accuracy.values, *ends, dataset.accuracy_kind.values, networks, variants, strict=True)
    return [UncertainAccuracy(*row) for row in rows]


def _losses(dataset: xr.Dataset, accuracies: Float[np.ndarray, "variant sample"], relative: bool) -> Float[np.ndarray, "variant sample"]:
    """Losses of some accuracies of each variant."""
    directions = _directions(dataset)
    dense = dataset.dense_accuracy.values
    losses = [accuracy_loss(row, value, direction) for row, value, direction in zip(accuracies, dense, directions, strict=True)]
    scale = (100 / abs(dense) if relative else np.ones(len(dense)))[:, None]
    return np.where((dataset.method.values == "dense")[:, None], 0.0, np.reshape(losses, accuracies.shape) * scale)


def _with_assumed(dataset: xr.Dataset, losses: Float[np.ndarray, "variant sample"], relative: bool) -> Float[np.ndarray, "variant sample"]:
    """Losses with the drops that are assumed, in points: those in % follow from accuracies alone."""
    if relative or ASSUMED_DROP not in dataset.coords:
        return losses
    assumed = dataset[ASSUMED_DROP].values[:, None]
    return np.where(np.isfinite(assumed), assumed, losses)


def _directions(dataset: xr.Dataset) -> Sequence[str]:
    """Which way of the metric of each variant is better."""
    metrics = json.loads(dataset.attrs["metrics"])
    return [metrics[w][m]["direction"] for w, m in zip(dataset.workload.values, dataset.metric.values, strict=True)]
