"""Fit the kernels of a device to few launches each, which share what they show of the device.

    theta of a kernel = prediction + effect of the device + effect of the kernel

Kernels of other devices predict each kernel, and say how far devices and kernels differ. The effect on the parameters of the device
(`Parameter.of_device`: launch, clock, caches, bandwidth) is common to its kernels, in proportion to how far devices differ in the kernels
like each. Each kernel is fitted with what all others say about that effect as prior, in turn. A launch that a library runs unlike its
neighbours then misleads the fit of its kernel less: the other kernels contradict it.

Times count as linear in theta about the present fit (a Gaussian linear model), and launches that deviate far count less, as in the fit.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from dse.calibrate.fit.discrepancy import MIN_LAUNCHES
from dse.calibrate.fit.joint import JointFit
from dse.calibrate.fit.parameters import fit_parameters
from dse.calibrate.fit.shape_selection import measurement_noise
from dse.model.efficiency.kernels.launches import KernelLaunches
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.population import OF_DEVICE, KernelPrediction
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.kernels.transfer import predict_kernel
from dse.model.efficiency.parameter import Distribution, Theta

ROUNDS = 4  # of fits with what the other kernels say


class FewLaunches(NamedTuple):
    """A kernel as kernels of other devices predict it, and the few launches of it that were measured.

    `half_width`: of the 90% interval of the logarithm of the times of kernels like it.
    """

    model: KernelModel
    launches: KernelLaunches
    prediction: KernelPrediction
    half_width: float

    @classmethod
    def predicted_by(cls, candidates: Sequence[KernelRecord], launches: KernelLaunches, kernels: Sequence[KernelRecord]) -> Self:
        """Predicted by `candidates`, kernels like it on other devices, and by all `kernels` of its own device."""
        record, prediction = predict_kernel(candidates, launches.key, launches.rates.memory, kernels)
        return cls(replace(record.model, key=launches.key), launches, prediction, record.half_width or record.error)

    @property
    def noise(self) -> float:
        """Standard deviation of the logarithm of a measured time about the model: kernels like it deviate as much."""
        return measurement_noise(self.half_width)

    @property
    def device_deviation(self) -> Theta:
        """Standard deviation of the effect that the kernels of the device share."""
        return self.prediction.of_device * OF_DEVICE

    @property
    def kernel_deviation(self) -> Theta:
        """Standard deviation of the effect of the kernel alone."""
        return np.hypot(self.prediction.of_kernel, self.prediction.of_device * ~OF_DEVICE)


class Evidence(NamedTuple):
    """What launches say about the effect of the device, in units of its standard deviation [parameter]."""

    precision: np.ndarray  # [parameter, parameter]
    weighted_mean: Theta  # precision times mean


def select_few(launches: KernelLaunches, others: Sequence[KernelRecord]) -> list[KernelRecord]:
    """The kernels of its library on other devices, which predict a kernel with few launches; none of a kernel with many."""
    key = launches.key
    if len(launches) >= MIN_LAUNCHES:
        return []
    return [each for each in others if each.key.group == key.group and each.kernel == key.kernel and each.device != key.device]


def fit_together(kernels: Sequence[FewLaunches]) -> list[JointFit]:
    """Fit kernels of one device, in their order."""
    fits = [_fit(kernel, kernel.prediction.distribution) for kernel in kernels]
    for _ in range(ROUNDS if len(kernels) > 1 else 0):
        evidence = [_evidence(kernel, fit.model) for kernel, fit in zip(kernels, fits, strict=True)]
        fits = [_fit(kernel, _prior(kernel, [*evidence[:number], *evidence[number + 1 :]])) for number, kernel in enumerate(kernels)]
    return fits


def _fit(kernel: FewLaunches, prior: Distribution) -> JointFit:
    """A fit to the launches of a kernel; it holds as deep as the kernels that predict it were measured."""
    fitted = fit_parameters(replace(kernel.model, theta=prior.mean), kernel.launches, prior=prior, noise=kernel.noise)
    return JointFit(replace(fitted, max_k=kernel.model.max_k), kernel.launches, prior, kernel.noise)


def _evidence(kernel: FewLaunches, fitted: KernelModel) -> Evidence:
    gradient, residual = fitted.log_time_gradient(kernel.launches), np.log(kernel.launches.time / fitted.predict_times(kernel.launches))
    variance = kernel.noise**2 * np.sqrt(1 + (residual / kernel.noise) ** 2)  # the weights of a soft L1 loss
    covariance = np.diag(variance) + (gradient * kernel.kernel_deviation**2) @ gradient.T
    of_prediction = residual + gradient @ (fitted.theta - kernel.prediction.theta)
    scaled = gradient * kernel.device_deviation
    solved = np.linalg.solve(covariance, np.column_stack([scaled, of_prediction]))
    return Evidence(scaled.T @ solved[:, :-1], scaled.T @ solved[:, -1])


def _prior(kernel: FewLaunches, others: Sequence[Evidence]) -> Distribution:
    """Theta of a kernel, given what the launches of others say about their device."""
    covariance = np.linalg.inv(np.eye(len(OF_DEVICE)) + sum(each.precision for each in others))
    effect = covariance @ sum(each.weighted_mean for each in others)
    of_device = kernel.device_deviation * np.sqrt(np.diag(covariance))
    return Distribution(kernel.prediction.theta + kernel.device_deviation * effect, np.hypot(of_device, kernel.kernel_deviation))
