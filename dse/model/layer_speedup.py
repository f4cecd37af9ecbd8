"""Speedup of each layer over a baseline, with its interval and the probability that it exceeds one."""

import numpy as np
import xarray as xr
from jaxtyping import Float

from dse.base.errors import InputError
from dse.model.efficiency.interval import quantiles
from dse.model.efficiency.probability import probability_above_one
from dse.networks.layers import LayerArrays

LatencySamples = Float[np.ndarray, "sample layer"]  # sample 0 is the best estimate of fitted kernels, the only sample without them

ATTRS = {
    "baseline_latency": {"units": "s", "long_name": "time of all repeats of the layer in the baseline"},
    "speedup": {"units": "1", "long_name": "latency in the baseline / latency"},
    "speedup_low": {"units": "1", "long_name": "5% quantile of the speedup over samples of the fitted kernels"},
    "speedup_high": {"units": "1", "long_name": "95% quantile of the same"},
    "faster_probability": {"units": "1", "long_name": "probability that the layer is faster than in the baseline"},
}


def check_same_layers(layers: LayerArrays, baseline: LayerArrays) -> None:
    """Raises InputError if the layers of a baseline have other names."""
    if not np.array_equal(layers.name, baseline.name):
        raise InputError("the baseline has other layers", "give a variant of the same workload with the same inputs")


def speedup_over_baseline(latency: LatencySamples, baseline: LatencySamples) -> dict[str, xr.DataArray]:
    """The variables of `ATTRS` of each layer from latencies [s]; 1 for a layer that takes no time in either."""
    with np.errstate(divide="ignore", invalid="ignore"):
        speedup = np.where(latency == baseline, 1.0, baseline / latency)
    columns = {"baseline_latency": baseline[0], "speedup": speedup[0]}
    if len(speedup) > 1:
        low, high = quantiles(speedup[1:])
        columns |= {"speedup_low": low, "speedup_high": high, "faster_probability": probability_above_one(speedup[0], low, high)}
    return {name: xr.DataArray(values, dims="layer", attrs=ATTRS[name]) for name, values in columns.items()}
