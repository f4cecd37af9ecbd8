"""How often the pattern of the best result of a sweep stays the best over samples of uncertain accuracies, in a sentence."""

import numpy as np
import xarray as xr

from dse.html_report.fronts import cell_dims
from dse.sweeping.accuracy_losses import has_accuracy_intervals
from dse.sweeping.iso_speedup import iso_speedup, pattern_shares


def describe_sampled_choice(dataset: xr.Dataset, cell: int, tolerance: float) -> list[str]:
    """The sentence about the design of a cell and its network; none where no accuracy of the network has an interval.

    `cell`: index into all results; `tolerance`: the allowed loss of accuracy, in points.
    """
    if "point" in dataset.dims or "speedup" not in dataset or not has_accuracy_intervals(dataset):
        return []
    dims = cell_dims(dataset)
    position = dict(zip(dims, map(int, np.unravel_index(cell, [dataset.sizes[dim] for dim in dims])), strict=True))
    of_network = dataset.workload.values == dataset.workload.values[position.pop("variant")]
    design = dataset.isel({dim: [index] for dim, index in position.items()}).isel(variant=of_network)
    if not has_accuracy_intervals(design):
        return []
    fitting = design.assign(speedup=design.speedup.where(design.fits)) if "fits" in design else design
    return [f"Over samples of the accuracies: {pattern_shares(iso_speedup(fitting, tolerance).squeeze()).sentence}."]
