"""Fit kernels with few launches on one device; what they share is the effect of the device.

    theta of a kernel = prediction + effect of the device + effect of the kernel

Kernels of other devices give the prediction of each kernel, and the spreads of both effects. The effect of the device on its parameters
(`Parameter.is_of_device`: launch, clock, caches, bandwidth) is common to its kernels, in units of the spread of each. It is estimated for
each kernel from the launches of all others, and is the prior of its fit; this is repeated with the new fits. An unusual launch then affects
the fit of its kernel less, because the other kernels contradict it.

Times count as linear in theta about the present fit (a Gaussian linear model), and launches that deviate far count less, as in the fit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from dse.calibrate.fit.discrepancy import MIN_LAUNCHES
from dse.calibrate.fit.joint import JointFit
from dse.calibrate.fit.parameters import fit_parameters
from dse.calibrate.fit.shape_selection import measurement_noise
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.population import OF_DEVICE, KernelPrediction
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.kernels.transfer import predict_kernel
from dse.model.efficiency.parameter import Distribution, Theta

ITERATIONS = 4  # over all kernels


class FewLaunches(NamedTuple):
    """The prediction of a kernel from kernels of other devices, and its few measured launches."""

    record: KernelRecord
    prediction: KernelPrediction
    launches: KernelLaunches

    @classmethod
    def predicted_by(cls, candidates: Sequence[KernelRecord], launches: KernelLaunches, kernels: Sequence[KernelRecord]) -> Self:
        """Predicted by `candidates`, kernels like it on other devices, and by all `kernels` of its own device."""
        return cls(*predict_kernel(candidates, launches.key, launches.rates.memory, kernels), launches)

    @property
    def model(self) -> KernelModel:
        """The predicted kernel."""
        return replace(self.record.model, key=self.launches.key)

    @property
    def half_width(self) -> float:
        """Half width of the 90% interval of the logarithm of the times of kernels like it."""
        return self.record.half_width_or_estimate

    @property
    def noise(self) -> float:
        """Standard deviation of the logarithm of a measured time about the model: kernels like it deviate as much."""
        return measurement_noise(self.half_width)

    @property
    def shared_deviation(self) -> Theta:
        """Standard deviation of the effect that the kernels of the device share."""
        return self.prediction.device_deviation * OF_DEVICE

    @property
    def own_deviation(self) -> Theta:
        """Standard deviation of the effect of the kernel alone."""
        return np.hypot(self.prediction.kernel_deviation, self.prediction.device_deviation * ~OF_DEVICE)


class Evidence(NamedTuple):
    """Precision and mean of the effect of the device, from the launches of one kernel; in units of its standard deviation."""

    precision: np.ndarray  # [parameter, parameter]
    weighted_mean: Theta  # precision times mean


def similar_to(key: KernelKey, kernels: Sequence[KernelRecord]) -> list[KernelRecord]:
    """The kernels from which the parameters of a kernel are predicted: of its group, or of another unit if there is none.

    A sparse kernel has those of its own name if there are any; a dense one has those of all libraries, which count by how far libraries
    differ.
    """
    similar = [kernel for kernel in kernels if kernel.key.group == key.group]
    similar = similar or [kernel for kernel in kernels if kernel.key.group[1:] == key.group[1:]]
    of_library = [kernel for kernel in similar if kernel.kernel == key.kernel]
    return of_library if of_library and key.family != "dense" else similar


def is_predicted_by_others(launches: KernelLaunches, known: Iterable[KernelKey]) -> bool:
    """Whether a kernel has so few launches that kernels of its library predict it, which are `known` on another device."""
    key = launches.key
    elsewhere = any(other.device != key.device and (other.group, other.kernel) == (key.group, key.kernel) for other in known)
    return elsewhere and len(launches) < MIN_LAUNCHES


def predicting_kernels(key: KernelKey, kernels: Sequence[KernelRecord]) -> list[KernelRecord]:
    """The kernels of other devices that predict a kernel."""
    return similar_to(key, [kernel for kernel in kernels if kernel.device != key.device])


def fit_few_launches(kernels: Sequence[FewLaunches]) -> list[JointFit]:
    """Fit kernels of one device, in their order."""
    fits = [_fit(kernel, kernel.prediction.distribution) for kernel in kernels]
    for _ in range(ITERATIONS if len(kernels) > 1 else 0):
        evidence = [_evidence(kernel, fit.model) for kernel, fit in zip(kernels, fits, strict=True)]
        fits = [_fit(kernel, _prior(kernel, [*evidence[:number], *evidence[number + 1 :]])) for number, kernel in enumerate(kernels)]
    return fits


def _fit(kernel: FewLaunches, prior: Distribution) -> JointFit:
    """A fit to the launches of a kernel, valid up to the greatest k of them and of the kernels that predict it."""
    fitted = fit_parameters(replace(kernel.model, theta=prior.mean), kernel.launches, prior=prior, noise=kernel.noise)
    return JointFit(replace(fitted, max_k=max(kernel.model.max_k, fitted.max_k)), kernel.launches, prior, kernel.noise)


def _evidence(kernel: FewLaunches, fitted: KernelModel) -> Evidence:
    gradient, residual = fitted.log_time_gradient(kernel.launches), np.log(kernel.launches.time / fitted.predict_times(kernel.launches))
    variance = kernel.noise**2 * np.sqrt(1 + (residual / kernel.noise) ** 2)  # the weights of a soft L1 loss
    covariance = np.diag(variance) + (gradient * kernel.own_deviation**2) @ gradient.T
    deviation = residual + gradient @ (fitted.theta - kernel.prediction.theta)
    scaled = gradient * kernel.shared_deviation
    solved = np.linalg.solve(covariance, np.column_stack([scaled, deviation]))
    return Evidence(scaled.T @ solved[:, :-1], scaled.T @ solved[:, -1])


def _prior(kernel: FewLaunches, others: Sequence[Evidence]) -> Distribution:
    """Theta of a kernel, given the evidence of the other kernels about their device."""
    covariance = np.linalg.inv(np.eye(len(OF_DEVICE)) + sum(each.precision for each in others))
    effect = covariance @ sum(each.weighted_mean for each in others)
    of_device = kernel.shared_deviation * np.sqrt(np.diag(covariance))
    return Distribution(kernel.prediction.theta + kernel.shared_deviation * effect, np.hypot(of_device, kernel.own_deviation))
