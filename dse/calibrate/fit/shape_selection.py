"""Which few shapes to measure on a new device: those after which the times of all others are known best.

Greedy choice under a normal distribution of the parameters, with times linear in theta: a measurement with gradient g and noise s takes
S g g^T S / (g^T S g + s^2) from the covariance S (Bayesian experimental design; Chaloner and Verdinelli, 1995).
"""

import numpy as np
from jaxtyping import Float

from dse.calibrate.fit.parameters import NOISE
from dse.model.efficiency.interval import Z_SCORE
from dse.model.efficiency.kernels.launches import KernelLaunches
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.parameter import Distribution


def measurement_noise(half_width: float) -> float:
    """Standard deviation of the logarithm of a measured time about a model, from the half width of the 90% interval of similar kernels."""
    return max(NOISE, half_width / Z_SCORE)


def choose_launches(model: KernelModel, launches: KernelLaunches, prior: Distribution, count: int, noise: float = NOISE) -> list[int]:
    """Indices of `count` launches, each of which narrows the intervals of all times the most.

    `noise`: standard deviation of the logarithm of a measured time about the model. If it were taken to be less than it is, few launches
    would be chosen for what they seem to determine, and an unusual one would mislead.
    """
    gradient, covariance, chosen = model.log_time_gradient(launches), np.diag(prior.deviation**2), list[int]()
    for _ in range(min(count, len(launches))):
        spread = gradient @ covariance @ gradient.T  # [launch, launch]
        gain = (spread**2).sum(axis=0) / (spread.diagonal() + noise**2)
        gain[chosen] = -np.inf
        chosen.append(int(np.argmax(gain)))
        covariance = _after_measurement(covariance, gradient[chosen[-1]], noise)
    return chosen


def remaining_deviation(
    model: KernelModel, launches: KernelLaunches, prior: Distribution, chosen: list[int], noise: float = NOISE
) -> Float[np.ndarray, "launch"]:
    """Standard deviation of the logarithm of each time after the chosen launches are measured."""
    gradient, covariance = model.log_time_gradient(launches), np.diag(prior.deviation**2)
    for index in chosen:
        covariance = _after_measurement(covariance, gradient[index], noise)
    return np.sqrt(np.einsum("lp,pq,lq->l", gradient, covariance, gradient))


def _after_measurement(
    covariance: Float[np.ndarray, "parameter parameter"], gradient: Float[np.ndarray, "parameter"], noise: float
) -> Float[np.ndarray, "parameter parameter"]:
    effect = covariance @ gradient
    return covariance - np.outer(effect, effect) / (gradient @ effect + noise**2)
