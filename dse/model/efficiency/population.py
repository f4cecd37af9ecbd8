"""Populations of fitted kernels: how parameters vary over devices and kernels, and what that predicts for a kernel that was not measured.

    theta = mean + deviation of the device + deviation of the kernel        each normal, for each parameter

It is the prior of a joint fit. `mixed_population` adds the effect of the library, and predicts kernels that were not measured.
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


def similar_kernels(kernel: KernelRecord, kernels: Sequence[KernelRecord]) -> list[KernelRecord]:
    """The kernels of the same family and unit, with values of the same width and the same scales."""
    return [other for other in kernels if other.key.group == kernel.key.group]


def _variance(squares: Theta, degrees: int, estimation: Theta, prior_share: float) -> Theta:
    """Variance from a sum of squares of estimates that have a variance themselves, shrunk to that of the prior."""
    prior = (prior_share * PRIOR.deviation) ** 2
    return (PRIOR_WEIGHT * prior + np.maximum(squares - degrees * estimation, 0.0)) / (PRIOR_WEIGHT + degrees)
