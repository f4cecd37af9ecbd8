"""Populations of kernels by device and by library: what they predict for a kernel of a known library on a device without measurements.

    theta = mean + effect of the device + effect of the library + effect of the kernel        each normal, for each parameter

A linear mixed model: the variances by restricted maximum likelihood (Patterson and Thompson, 1971) with a weak prior, the mean and the
effect of the library by the best linear unbiased prediction. A library that was measured elsewhere moves the prediction towards its own
kernels, as far as libraries differ more than devices do. One that was not measured widens the interval by the whole spread between
libraries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from dse.model.efficiency.interval import LEVEL, Z_SCORE
from dse.model.efficiency.parameters import PRIOR, Theta
from dse.model.efficiency.population import BETWEEN_DEVICES, BETWEEN_KERNELS, PRIOR_WEIGHT, KernelPrediction, Thetas

BETWEEN_LIBRARIES = BETWEEN_KERNELS  # prior deviation between libraries, as share of the prior deviation of theta
PRIOR_SHARES = np.array([BETWEEN_DEVICES, BETWEEN_LIBRARIES, BETWEEN_KERNELS])
SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.25, 3.5)  # candidates for each, by maximum likelihood
CANDIDATES = np.array(list(product(SHARES, repeat=len(PRIOR_SHARES))))

Covariance = Float[np.ndarray, "kernel kernel"]


@dataclass(frozen=True, eq=False)
class MixedPopulation:
    """Fitted kernels of several devices and libraries, with the standard deviations of the effects of both and of the kernel itself."""

    devices: Sequence[str]
    libraries: Sequence[str]
    thetas: Thetas
    deviations: Thetas
    between_devices: Theta
    between_libraries: Theta
    between_kernels: Theta

    @classmethod
    def of(cls, devices: Sequence[str], libraries: Sequence[str], thetas: Thetas, deviations: Thetas) -> "MixedPopulation":
        """The population of fitted kernels, one row of `thetas` each with its uncertainty in `deviations`."""
        structures = [_shared(devices), _shared(libraries), np.eye(len(devices))]
        columns = zip(thetas.T, deviations.T, PRIOR.deviation, strict=True)
        shares = np.array([_most_likely_shares(structures, theta / scale, deviation / scale) for theta, deviation, scale in columns])
        return cls(devices, libraries, thetas, deviations, *(shares.T * PRIOR.deviation))

    def predict(self, library: str) -> KernelPrediction:
        """Theta of a kernel of `library` on another device.

        Few devices say little about how far devices differ, so spreads are those of Student's t.
        """
        means, deviations = zip(*(self._predict_parameter(number, library) for number in range(self.thetas.shape[1])), strict=True)
        widening = float(stdtrit(len(set(self.devices)) - 1 + PRIOR_WEIGHT, (1 + LEVEL) / 2)) / Z_SCORE
        return KernelPrediction(
            np.array(means), widening * self.between_devices, widening * np.hypot(np.array(deviations), self.between_kernels)
        )

    def _predict_parameter(self, number: int, library: str) -> tuple[float, float]:
        """Mean of one parameter for a library, and its standard deviation without the effects of device and kernel."""
        theta, of_library = self.thetas[:, number], self.between_libraries[number] ** 2
        inverse = np.linalg.inv(self._covariance(number))
        total = inverse.sum()
        mean = inverse.sum(axis=0) @ theta / total
        shared = of_library * np.array([other == library for other in self.libraries])
        of_mean = 1 - inverse.sum(axis=0) @ shared  # weight of the mean in the prediction
        variance = of_library - shared @ inverse @ shared + of_mean**2 / total
        return float(mean + shared @ inverse @ (theta - mean)), float(np.sqrt(max(variance, 0.0)))

    def _covariance(self, number: int) -> Covariance:
        """Covariance of one parameter between the kernels."""
        devices, libraries = self.between_devices[number] ** 2, self.between_libraries[number] ** 2
        own = self.between_kernels[number] ** 2 + self.deviations[:, number] ** 2
        return devices * _shared(self.devices) + libraries * _shared(self.libraries) + np.diag(own)


def _shared(labels: Sequence[str]) -> Covariance:
    """1 for each pair of kernels with equal labels, else 0."""
    return np.array([[float(one == other) for other in labels] for one in labels])


def _most_likely_shares(
    structures: Sequence[Covariance], theta: Float[np.ndarray, "kernel"], deviation: Float[np.ndarray, "kernel"]
) -> Float[np.ndarray, "effect"]:
    """Standard deviations of the effects of greatest posterior density; everything in units of the prior deviation of theta."""
    covariance = np.einsum("ce,eij->cij", CANDIDATES**2, np.array(structures)) + np.diag(deviation**2)
    inverse = np.linalg.inv(covariance)
    weights = inverse.sum(axis=2)
    total = weights.sum(axis=1)
    squares = np.einsum("cij,i,j->c", inverse, theta, theta) - (weights @ theta) ** 2 / total
    log_likelihood = -(np.linalg.slogdet(covariance)[1] + np.log(total) + squares) / 2
    log_prior = -PRIOR_WEIGHT / 2 * (np.log(CANDIDATES**2) + (PRIOR_SHARES / CANDIDATES) ** 2)  # inverse chi-squared
    return CANDIDATES[np.argmax(log_likelihood + log_prior.sum(axis=1))]
