"""The fidelities side by side: time of each launch at the speed of light, with one efficiency, with a cache, calibrated."""

import numpy as np

from dse.calibrate.predict import checked
from dse.model.capacity import attainable
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelLaunches

RUNGS = ("sol", "r3", "capacity", "calibrated")


def speed_of_light(launches: KernelLaunches) -> np.ndarray:
    """The larger of stored FLOPs over peak and compulsory bytes over bandwidth [s] (Shinn et al. 2023)."""
    return np.maximum(launches.flops / launches.rates.peak, launches.needed_product.compulsory / launches.rates.bandwidth)


def with_capacity(launches: KernelLaunches) -> np.ndarray:
    """The same with the bytes that the best schedule moves for the cache of the device [s]."""
    rates = launches.rates
    moved = np.asarray(attainable(launches.needed_product, rates.cache)) if rates.cache else launches.needed_product.compulsory
    return np.maximum(launches.flops / rates.peak, moved / rates.bandwidth)


def constant_efficiency(launches: KernelLaunches, weight: np.ndarray | None = None) -> float:
    """The one E of `r3` [1] (Gale 2022): the geometric mean of the shares of the speed of light that were measured."""
    share = np.log(speed_of_light(launches) / launches.time)
    return float(min(1.0, np.exp(np.average(share, weights=weight))))


def predictions(launches: KernelLaunches, efficiency: float, fitted: KernelModel) -> dict[str, np.ndarray]:
    """Time of each launch [s] on every rung; raises an ImplausibleResultError for a calibrated one that can't be true."""
    light = speed_of_light(launches)
    return {"sol": light, "r3": light / efficiency, "capacity": with_capacity(launches), "calibrated": checked(fitted, launches)}
