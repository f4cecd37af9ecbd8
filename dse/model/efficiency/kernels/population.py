"""Populations of fitted kernels: how parameters vary over devices and libraries, and what that predicts for other kernels.

    Population          theta = mean + deviation of the device + deviation of the kernel
    MixedPopulation     theta = mean + effects of memory technology, device, library and kernel

Each term is normal, for each parameter. `Population` is the prior of a joint fit, `MixedPopulation` predicts kernels that were not
measured. It is a linear mixed model: the variances by restricted maximum likelihood (Patterson and Thompson, 1971) with a weak prior, the
mean and the effects by the best linear unbiased prediction. A library that was measured elsewhere moves the prediction towards its own
kernels, as far as libraries differ more than devices do; one that was not measured widens the interval by the whole spread between
libraries. Devices with the same kind of memory move it in the same way, since GPUs with HBM and with GDDR differ in their caches. So do
other kernels of the device: those of the population in all parameters, those of other families in those of the device
(`Parameter.is_of_device`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from jaxtyping import Float

from dse.model.efficiency.interval import LEVEL, Z_SCORE
from dse.model.efficiency.kernels.parameters import PARAMETERS, PRIOR
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.parameter import Distribution, Theta

# The variances are estimated with a prior of this weight, in devices and in kernels, at these shares of the prior deviation of theta.
PRIOR_WEIGHT, BETWEEN_DEVICES, BETWEEN_KERNELS = 2.0, 0.5, 0.35
OF_DEVICE = np.array([p.is_of_device for p in PARAMETERS])

# Prior deviations between devices, libraries, kinds of memory and kernels, as shares of the prior deviation of theta.
PRIOR_SHARES = np.array([BETWEEN_DEVICES, BETWEEN_KERNELS, BETWEEN_KERNELS, BETWEEN_KERNELS])
SHARES = (0.05, 0.15, 0.35, 0.7, 1.25, 2.25, 3.5)  # candidates for each, by maximum likelihood
CANDIDATES = np.array(list(product(SHARES, repeat=len(PRIOR_SHARES))))
NO_THETAS = np.zeros((0, len(PARAMETERS)))

Thetas = Float[np.ndarray, "kernel parameter"]
Covariance = Float[np.ndarray, "kernel kernel"]


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
    device_deviation: Theta
    kernel_deviation: Theta

    @property
    def distribution(self) -> Distribution:
        """Mean and total standard deviation, as the prior of a fit to few measurements."""
        return Distribution(self.theta, np.hypot(self.device_deviation, self.kernel_deviation))


def similar_kernels(kernel: KernelRecord, kernels: Sequence[KernelRecord]) -> list[KernelRecord]:
    """The kernels of the same family and unit, with values of the same width and the same scales."""
    return [other for other in kernels if other.key.group == kernel.key.group]


def _variance(squares: Theta, degrees: int, estimation: Theta, prior_share: float) -> Theta:
    """Variance from a sum of squares of estimates that have a variance themselves, shrunk to that of the prior."""
    prior = (prior_share * PRIOR.deviation) ** 2
    return (PRIOR_WEIGHT * prior + np.maximum(squares - degrees * estimation, 0.0)) / (PRIOR_WEIGHT + degrees)


@dataclass(frozen=True, eq=False)
class MixedPopulation:
    """Fitted kernels, one row of `thetas` each, with the standard deviations of the effects that they share and of the kernel itself."""

    devices: Sequence[str]
    libraries: Sequence[str]
    memories: Sequence[str]
    thetas: Thetas
    deviations: Thetas
    between_devices: Theta
    between_libraries: Theta
    between_memories: Theta
    between_kernels: Theta

    @classmethod
    def of(
        cls, devices: Sequence[str], libraries: Sequence[str], memories: Sequence[str], thetas: Thetas, deviations: Thetas
    ) -> "MixedPopulation":
        """The population of fitted kernels, one row of `thetas` each with its uncertainty in `deviations`."""
        labels = tuple(devices), tuple(libraries), tuple(memories)
        return cls(*labels, thetas, deviations, *_most_likely_deviations(labels, thetas.tobytes(), deviations.tobytes()).T)

    @classmethod
    def of_records(cls, kernels: Sequence[KernelRecord]) -> "MixedPopulation":
        """The population of recorded kernels. A device whose memory is not known shares its kind with no other."""
        thetas, deviations = (np.array([getattr(kernel, name) for kernel in kernels]) for name in ("theta", "theta_deviation"))
        memories = [kernel.rates.memory or kernel.device for kernel in kernels]
        return cls.of([kernel.device for kernel in kernels], [kernel.kernel for kernel in kernels], memories, thetas, deviations)

    def predict(
        self, library: str, device: str | None = None, memory: str | None = None, other_families: Thetas = NO_THETAS
    ) -> KernelPrediction:
        """Theta of a kernel of `library` on a device with a kind of memory, which kernels of the population may run on as well.

        `other_families`: how far kernels of other populations on the device are from the predictions for their libraries; they inform of
        the parameters of the device. Few devices say little about how far devices differ, so spreads are those of Student's t.
        """
        from scipy.special import stdtrit  # which devices with kernels of their own do not need

        labels = device, library, memory
        predicted = [self._predict_parameter(number, labels, other_families[:, number]) for number in range(len(PARAMETERS))]
        means, of_device, of_library = np.array(predicted).T
        widening = float(stdtrit(len(set(self.devices)) - 1 + PRIOR_WEIGHT, (1 + LEVEL) / 2)) / Z_SCORE
        return KernelPrediction(means, widening * of_device, widening * np.hypot(of_library, self.between_kernels))

    def _predict_parameter(
        self, number: int, labels: Sequence[str | None], other_families: Float[np.ndarray, "kernel"]
    ) -> tuple[float, float, float]:
        """One parameter, the standard deviation of the effects of device and memory, and that of mean and library."""
        theta, effects = self.thetas[:, number], self._shared_variances(number)
        inverse = np.linalg.inv(self._covariance(number))
        total = inverse.sum()
        mean = inverse.sum(axis=0) @ theta / total
        of_device, of_library, of_memory = (
            variance * np.array([other == label for other in names]) for label, (variance, names) in zip(labels, effects, strict=True)
        )
        own, shared = of_device + of_memory, of_device + of_memory + of_library
        of_mean = 1 - inverse.sum(axis=0) @ shared  # weight of the mean in the prediction
        own_variance = effects[0][0] + effects[2][0] - own @ inverse @ own
        rest = sum(variance for variance, _ in effects) - shared @ inverse @ shared + of_mean**2 / total - own_variance
        predicted = mean + shared @ inverse @ (theta - mean)
        if OF_DEVICE[number] and len(other_families):
            weight = own_variance / (own_variance + self.between_kernels[number] ** 2 / len(other_families))
            predicted += weight * (other_families.mean() - of_device @ inverse @ (theta - mean))
            own_variance *= 1 - weight
        return float(predicted), float(np.sqrt(max(own_variance, 0.0))), float(np.sqrt(max(rest, 0.0)))

    def _shared_variances(self, number: int) -> list[tuple[float, Sequence[str]]]:
        """Variance of the effects of device, library and memory on a parameter, with the label of each kernel."""
        deviations = self.between_devices, self.between_libraries, self.between_memories
        labels = self.devices, self.libraries, self.memories
        return [(float(each[number] ** 2), names) for each, names in zip(deviations, labels, strict=True)]

    def _covariance(self, number: int) -> Covariance:
        """Covariance of one parameter between the kernels."""
        own = self.between_kernels[number] ** 2 + self.deviations[:, number] ** 2
        return np.diag(own) + sum(variance * _shared(labels) for variance, labels in self._shared_variances(number))


def _shared(labels: Sequence[str]) -> Covariance:
    """1 for each pair of kernels with equal labels, else 0."""
    return np.array([[float(one == other) for other in labels] for one in labels])


@lru_cache(maxsize=256)  # every execution of a sweep predicts from the same few populations
def _most_likely_deviations(labels: tuple[tuple[str, ...], ...], thetas: bytes, deviations: bytes) -> Float[np.ndarray, "parameter effect"]:
    """Standard deviations of the effects on each parameter, from the bytes of arrays of kernels and parameters."""
    structures = np.array([*map(_shared, labels), np.eye(len(labels[0]))])
    of_theta, of_deviation = (np.frombuffer(each).reshape(len(labels[0]), -1) / PRIOR.deviation for each in (thetas, deviations))
    shares = [_most_likely_shares(structures, *columns) for columns in zip(of_theta.T, of_deviation.T, strict=True)]
    return np.array(shares) * PRIOR.deviation[:, None]


def _most_likely_shares(
    structures: Float[np.ndarray, "effect kernel kernel"], theta: Float[np.ndarray, "kernel"], deviation: Float[np.ndarray, "kernel"]
) -> Float[np.ndarray, "effect"]:
    """Standard deviations of the effects of greatest posterior density; everything in units of the prior deviation of theta."""
    covariance = np.tensordot(CANDIDATES**2, structures, 1) + np.diag(deviation**2)
    solved = np.linalg.solve(covariance, np.stack([np.ones(len(theta)), theta], axis=1))
    total = solved[:, :, 0].sum(axis=1)
    squares = solved[:, :, 1] @ theta - solved[:, :, 1].sum(axis=1) ** 2 / total
    log_likelihood = -(np.linalg.slogdet(covariance)[1] + np.log(total) + squares) / 2
    log_prior = -PRIOR_WEIGHT / 2 * (np.log(CANDIDATES**2) + (PRIOR_SHARES / CANDIDATES) ** 2)  # inverse chi-squared
    return CANDIDATES[np.argmax(log_likelihood + log_prior.sum(axis=1))]
