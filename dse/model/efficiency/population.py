"""Populations of fitted kernels: how parameters vary over devices and kernels, and what that predicts for a kernel that was not measured.

    theta = mean + deviation of the device + deviation of the kernel        each normal, for each parameter

The mean is that of the library, as far as kernels of one family agree. The kernels of a device, of any family, determine
its clock, bandwidth, launch and cache (`Parameter.of_device`); its kernels of the same family determine the other parameters as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dse.model.efficiency.kernel_file import KernelRecord
from dse.model.efficiency.parameters import PARAMETERS, PRIOR, Distribution, Theta

# The variances are estimated with a prior of this weight, in devices and in kernels, at these shares of the prior deviation of theta.
PRIOR_WEIGHT, BETWEEN_DEVICES, BETWEEN_KERNELS = 2.0, 0.5, 0.35
OF_DEVICE = np.array([p.of_device for p in PARAMETERS])

Thetas = Float[np.ndarray, "kernel parameter"]


@dataclass(frozen=True, eq=False)
class Population:
    """Mean of theta over devices, and its standard deviations between devices and between kernels of one device."""

    mean: Theta
    between_devices: Theta
    between_kernels: Theta

    @classmethod
    def of(cls, devices: Sequence[str], thetas: Thetas, deviations: Thetas) -> "Population":
        """The population that fitted kernels of `devices` belong to, with the uncertainty of each theta.

        Devices count equally.
        """
        by_device = [thetas[[device == other for other in devices]] for device in dict.fromkeys(devices)]
        variance, count = (deviations**2).mean(axis=0), len(by_device)
        within = np.sum([((each - each.mean(axis=0)) ** 2).sum(axis=0) for each in by_device], axis=0)
        between_kernels = _variance(within, len(devices) - count, variance, BETWEEN_KERNELS)
        means = np.array([each.mean(axis=0) for each in by_device])
        between_devices = _variance(((means - means.mean(axis=0)) ** 2).sum(axis=0), count - 1, variance, BETWEEN_DEVICES)
        return cls(means.mean(axis=0), np.sqrt(between_devices), np.sqrt(between_kernels))

    @classmethod
    def of_records(cls, kernels: Sequence[KernelRecord]) -> "Population":
        """The population of recorded kernels."""
        thetas, deviations = ([getattr(kernel, name) for kernel in kernels] for name in ("theta", "theta_deviation"))
        return cls.of([kernel.device for kernel in kernels], np.array(thetas), np.array(deviations))

    @property
    def distribution(self) -> Distribution:
        """Theta of a kernel of an unknown device."""
        return Distribution(self.mean, np.hypot(self.between_devices, self.between_kernels))

    def predict(self, deviations: Thetas, same_family: Float[np.ndarray, "similar parameter"]) -> "KernelPrediction":
        """Theta of another kernel of a device, given how far those of its kernels are from the means of their populations.

        `deviations`: of all kernels of the device, which determine its own parameters; `same_family`: of those of this population.
        """
        count = np.where(OF_DEVICE, len(deviations), len(same_family))
        total = np.where(OF_DEVICE, deviations.sum(axis=0), same_family.sum(axis=0))
        weight = self.between_devices**2 / (self.between_devices**2 + self.between_kernels**2 / np.maximum(count, 1))
        weight = np.where(count > 0, weight, 0.0)
        shift = weight * total / np.maximum(count, 1)
        return KernelPrediction(self.mean + shift, self.between_devices * np.sqrt(1 - weight), self.between_kernels)


@dataclass(frozen=True, eq=False)
class KernelPrediction:
    """Theta of a kernel that was not measured, with the standard deviations that its device and the kernel itself add."""

    theta: Theta
    of_device: Theta
    of_kernel: Theta

    @property
    def distribution(self) -> Distribution:
        """Mean and total standard deviation, as the prior of a fit to few measurements."""
        return Distribution(self.theta, np.hypot(self.of_device, self.of_kernel))


def predict_kernel(candidates: Sequence[KernelRecord], kernels: Sequence[KernelRecord], device: str) -> KernelPrediction:
    """Predict a kernel of a device from the `candidates` on all devices, and from all `kernels` of the device itself."""
    population, own = Population.of_records(candidates), [kernel for kernel in kernels if kernel.device == device]
    same_family = [kernel.theta - population.mean for kernel in own if kernel in candidates]
    others = [kernel for kernel in own if kernel not in candidates]
    deviations = [*same_family, *(kernel.theta - Population.of_records(similar_kernels(kernel, kernels)).mean for kernel in others)]
    shape = -1, len(PARAMETERS)  # also where there are none
    return population.predict(np.reshape(deviations, shape), np.reshape(same_family, shape))


def similar_kernels(kernel: KernelRecord, kernels: Sequence[KernelRecord]) -> list[KernelRecord]:
    """The kernels of the same family and unit, with values of the same width and the same scales."""
    return [other for other in kernels if other.key.group == kernel.key.group]


def _variance(squares: Theta, degrees: int, estimation: Theta, prior_share: float) -> Theta:
    """Variance from a sum of squares of estimates that have a variance themselves, shrunk to that of the prior."""
    prior = (prior_share * PRIOR.deviation) ** 2
    return (PRIOR_WEIGHT * prior + np.maximum(squares - degrees * estimation, 0.0)) / (PRIOR_WEIGHT + degrees)
