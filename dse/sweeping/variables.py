"""Units and descriptions of the variables and coordinates of a sweep's results."""

import xarray as xr

ATTRIBUTES = {
    "latency": {"units": "s", "long_name": "network latency"},
    "dense_latency": {"units": "s", "long_name": "latency of the dense network on the same design"},
    "speedup": {"units": "1", "long_name": "dense latency / latency"},
    "latency_bound": {"units": "s", "long_name": "lower bound of the latency over all schedules of the on-chip memory"},
    "dense_latency_bound": {
        "units": "s",
        "long_name": "lower bound of the dense latency over all schedules of the on-chip memory",
    },
    "speedup_low": {"units": "1", "long_name": "lower bound of the speedup: lower bound of the dense latency / latency"},
    "speedup_high": {"units": "1", "long_name": "upper bound of the speedup: dense latency / lower bound of the latency"},
    "latency_low": {"units": "s", "long_name": "5% quantile of the latency over samples of the kernel parameters"},
    "latency_high": {"units": "s", "long_name": "95% quantile of the latency over samples of the kernel parameters"},
    "dense_latency_low": {"units": "s", "long_name": "5% quantile of the dense latency over samples of the kernel parameters"},
    "dense_latency_high": {"units": "s", "long_name": "95% quantile of the dense latency over samples of the kernel parameters"},
    "bound_share": {"units": "1", "long_name": "share of the latency that the resource sets"},
    "execution_share": {"units": "1", "long_name": "share of the latency in the execution"},
    "fits": {
        "long_name": "weights (stored as small as a legal execution allows), key-value cache and the largest working set of activations "
        "at this batch fit the outermost memory together (true if its capacity is not given)"
    },
    "area": {"units": "m^2", "long_name": "silicon area of the design"},
    "power": {"units": "W", "long_name": "power of the design at full load"},
    "energy": {"units": "J", "long_name": "energy of one run of the network, leakage included"},
    "edp": {"units": "J s", "long_name": "energy x latency"},
    "performance_per_area": {"units": "1/(s m^2)", "long_name": "samples per second (batch / latency) / area"},
    "performance_per_watt": {"units": "1/J", "long_name": "samples per second (batch / latency) / power at full load"},
    "average_power": {"units": "W", "long_name": "energy / latency; above the power of the design, the latency is not attainable"},
    "power_limited_latency": {
        "units": "s",
        "long_name": "latency at which the average power is at most the power of the design: no less than the latency, infinite where "
        "leakage alone exceeds the power",
    },
    "sparsity": {"units": "1", "long_name": "1 - nnz / size over the prunable weights, as realised"},
    "nominal_sparsity": {"units": "1", "long_name": "sparsity that the source states"},
    "accuracy": {"long_name": "metric of the pruned network"},
    "metric": {"long_name": "what the accuracy measures"},
    "dense_accuracy": {"long_name": "metric of the dense network of the same source"},
    "densities_from": {"long_name": "source of the layer densities, unless they were counted"},
}

SAMPLED_ATTRIBUTES = {  # where an interval of the speedup comes from samples of kernel parameters instead of lower bounds
    "speedup_low": {"units": "1", "long_name": "5% quantile of the speedup over samples of the kernel parameters"},
    "speedup_high": {"units": "1", "long_name": "95% quantile of the speedup over samples of the kernel parameters"},
}

EXTRA_DIMS = {"bound_share": ("resource",), "execution_share": ("execution",)}  # beyond those of the sweep


def with_speedup(dataset: xr.Dataset) -> xr.Dataset:
    """Add the speedup, and its bounds where the latencies have lower bounds."""
    derived = {"speedup": dataset.dense_latency / dataset.latency}
    if "latency_bound" in dataset:
        derived["speedup_low"] = dataset.dense_latency_bound / dataset.latency
        derived["speedup_high"] = dataset.dense_latency / dataset.latency_bound
    return dataset.assign({name: variable.assign_attrs(ATTRIBUTES[name]) for name, variable in derived.items()})
