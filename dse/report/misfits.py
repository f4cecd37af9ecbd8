"""Which networks fit the outermost memory of no design of a sweep, and by how much they exceed it."""

import json
from collections.abc import Iterator

import numpy as np
import xarray as xr

from dse.base.display_units import format_quantity

MAX_NAMED = 3  # networks at a batch size that a note names


def describe_misfits(dataset: xr.Dataset) -> str:
    """The networks that fit no design at a batch size, as in 'bert-base at batch 64 takes 30 GB, 6 GB more than the 24 GB of l4'.

    Empty where each fits some design. `dataset` has all dims; results of older versions have no footprints.
    """
    texts = list(_misfits(dataset)) if "capacity" in dataset.get("footprint", xr.DataArray()).attrs else []
    more = [f"and {len(texts) - MAX_NAMED} more"] if len(texts) > MAX_NAMED else []
    return "; ".join(texts[:MAX_NAMED] + more)


def _misfits(dataset: xr.Dataset) -> Iterator[str]:
    """A text for each network and batch size, with the design and the variant that miss least."""
    capacities = {name: _largest_capacity(dataset, *each) for name, each in json.loads(dataset.footprint.attrs["capacity"]).items()}
    for workload in dict.fromkeys(dataset.workload.values):
        variants = np.flatnonzero(dataset.workload.values == workload)
        for number, batch in enumerate(dataset.batch.values):
            results = dataset[["fits", "footprint"]].isel(batch=number, variant=variants)
            if not bool(results.fits.any()):
                least = results.footprint.min([dim for dim in results.footprint.dims if dim != "accelerator"])
                excess = {str(name): float(least.sel(accelerator=name)) - capacities[str(name)] for name in dataset.accelerator.values}
                device = min(excess, key=lambda name: excess[name])
                needed, missing, present = (
                    format_quantity(size, "B") for size in (excess[device] + capacities[device], excess[device], capacities[device])
                )
                yield f"{workload} at batch {batch} takes {needed}, {missing} more than the {present} of {device}"


def _largest_capacity(dataset: xr.Dataset, path: str, described: float | None) -> float:
    """The largest outermost capacity [B] of the designs of an accelerator; `described` is None where it is not limited."""
    if path in dataset.coords:
        return float(dataset[path].max())
    return np.inf if described is None else described
