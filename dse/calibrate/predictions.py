"""Predicted times of launches under each fidelity, checked for plausibility."""

from dataclasses import replace

import numpy as np

from dse.model.capacity import attainable_bytes
from dse.model.efficiency import assertions
from dse.model.efficiency.kernels.launches import KernelLaunches, PerLaunch
from dse.model.efficiency.kernels.model import KernelModel
from dse.schema.model_options import Fidelity

FIDELITIES: tuple[Fidelity, ...] = ("sol", "r3", "capacity", "calibrated")
PROBE_FACTORS = 2.0 ** np.arange(-4, 8)  # by which sizes of a launch are scaled


def speed_of_light_time(launches: KernelLaunches) -> PerLaunch:
    """The larger of stored FLOPs over peak and compulsory bytes over bandwidth [s] (Shinn et al. 2023)."""
    return np.maximum(launches.flops / launches.rates.peak, launches.needed_product.compulsory_bytes / launches.rates.bandwidth)


def capacity_time(launches: KernelLaunches) -> PerLaunch:
    """The time at the speed of light with the bytes that the best schedule moves for the cache of the device [s]."""
    rates, product = launches.rates, launches.needed_product
    moved_bytes = np.asarray(attainable_bytes(product, rates.cache)) if rates.cache else product.compulsory_bytes
    return np.maximum(launches.flops / rates.peak, moved_bytes / rates.bandwidth)


def constant_efficiency(launches: KernelLaunches, weight: PerLaunch | None = None) -> float:
    """The efficiency of `r3` [1] (Gale 2022): geometric mean of the measured shares of the speed of light, at most 1."""
    log_share = np.log(speed_of_light_time(launches) / launches.time)
    return float(min(1.0, np.exp(np.average(log_share, weights=weight))))


def predict_all_fidelities(launches: KernelLaunches, efficiency: float, model: KernelModel) -> dict[Fidelity, PerLaunch]:
    """Time of each launch [s] by fidelity; raises ImplausibleResultError for an impossible calibrated time."""
    sol = speed_of_light_time(launches)
    return {"sol": sol, "r3": sol / efficiency, "capacity": capacity_time(launches), "calibrated": predict_checked(model, launches)}


def predict_checked(model: KernelModel, launches: KernelLaunches) -> PerLaunch:
    """Calibrated time of each launch [s]; raises ImplausibleResultError if one is not positive or implies a rate above the peak."""
    time, kernel, rates = model.predict_times(launches), str(model.key), launches.rates
    assertions.check_times(time, launches.flops, rates.peak, rates.max_clock, kernel)
    assertions.check_efficiency(np.maximum(launches.flops / rates.peak, 1e-300) / time, rates.max_clock, kernel)
    return time


def check_monotone(model: KernelModel, launches: KernelLaunches) -> None:
    """Scale m, k and n of the first launch; raises ImplausibleResultError if the time ever falls with more work."""
    for name in ("m", "k", "n"):
        repeated = launches.take(np.zeros(len(PROBE_FACTORS), int))
        sizes = np.ceil(getattr(repeated, name) * PROBE_FACTORS)
        weight_bytes = repeated.weight_bytes * (1 if name == "n" else PROBE_FACTORS)
        scaled = replace(repeated, **{name: sizes}, weight_bytes=weight_bytes)
        assertions.check_monotone(predict_checked(model, scaled), f"{model.key}, growing {name}")
