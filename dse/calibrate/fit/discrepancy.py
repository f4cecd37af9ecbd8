"""Estimate what the parameters of a kernel leave unexplained, as a Gaussian process over the sizes of its launches.

Lengths, deviation and noise maximise the marginal likelihood of the deviations of measured from predicted times, with weak priors. A kernel
with few launches deviates as its library does on other devices (`device_effects`).
"""

from dataclasses import replace
from functools import cache
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.optimize import minimize
from scipy.stats import median_abs_deviation

from dse.calibrate.fit.kernel import MAX_FITTED
from dse.model.efficiency.float64 import compile_in_float64
from dse.model.efficiency.kernels.discrepancy import SIZES, Discrepancy, Sizes, correlation, log_sizes
from dse.model.efficiency.kernels.launches import KernelLaunches, PerLaunch
from dse.model.efficiency.kernels.model import KernelModel

MIN_LAUNCHES = 20  # that show how neighbouring shapes deviate
MAX_LIKELIHOOD = 256  # launches of which the likelihood is computed
MAX_POINTS = MAX_FITTED  # launches that are kept
OUTLIER = 4.0  # robust standard deviations from the median, beyond which a deviation counts as that far

# Logarithms of the lengths [doublings] are normal about this mean with this deviation; their range, and those of deviation and noise over
# the standard deviation of all residuals.
LENGTH_PRIOR = np.log(4.5), 1.0
LENGTH_RANGE, SHARE_RANGE = (np.log(0.4), np.log(32.0)), (np.log(0.08), np.log(1.6))
LEAST_SCALE = 1e-4  # root mean square of the residuals, against which deviation and noise are bounded
UNUSED = 1e6  # standard deviation of a padded residual, which then says nothing

Logs = Float[Array, "6"]  # logarithms of the four lengths, the deviation and the noise


def with_discrepancy(model: KernelModel, launches: KernelLaunches) -> KernelModel:
    """The model with what it leaves unexplained of measured launches; unchanged if they are few."""
    if len(launches) < MIN_LAUNCHES:
        return model
    log_ratios = _limit_outliers(np.log(launches.time / replace(model, discrepancy=None).predict_times(launches)))
    discrepancy = _most_likely(log_sizes(launches), log_ratios)
    kept = _most_informative(discrepancy)
    return replace(model, discrepancy=replace(discrepancy, sizes=discrepancy.sizes[kept], log_ratios=log_ratios[kept]))


def _limit_outliers(values: PerLaunch) -> PerLaunch:
    """Values within `OUTLIER` robust standard deviations of their median."""
    median = np.median(values)
    reach = OUTLIER * median_abs_deviation(values, scale=NormalDist().inv_cdf(0.75))
    return np.clip(values, median - reach, median + reach)


def _most_likely(sizes: Sizes, log_ratios: PerLaunch) -> Discrepancy:
    """All deviations, with the lengths, deviation and noise under which a sample of them is most likely."""
    scale = max(float(np.sqrt(np.mean(log_ratios**2))), LEAST_SCALE)
    sample = np.random.default_rng(0).permutation(len(sizes))[:MAX_LIKELIHOOD]
    index = np.resize(sample, MAX_LIKELIHOOD)
    unused = np.where(np.arange(MAX_LIKELIHOOD) < len(sample), 0.0, UNUSED)
    arguments = sizes[index], log_ratios[index] / scale, unused
    start = np.array([LENGTH_PRIOR[0]] * len(SIZES) + [np.log(0.8), np.log(0.4)])
    bounds = [LENGTH_RANGE] * len(SIZES) + [SHARE_RANGE] * 2
    optimum = minimize(lambda logs: _as_floats(_compiled()(logs, *arguments)), start, jac=True, method="L-BFGS-B", bounds=bounds)
    values = np.exp(optimum.x)
    return Discrepancy(sizes, log_ratios, values[: len(SIZES)], float(values[-2] * scale), float(values[-1] * scale))


def _as_floats(value_and_gradient: tuple[Any, Any]) -> tuple[float, np.ndarray]:
    value, gradient = value_and_gradient
    return float(value), np.asarray(gradient)


@cache
def _compiled() -> Any:
    return compile_in_float64(jax.value_and_grad(_negative_log_posterior))


def _negative_log_posterior(
    logs: Logs, sizes: Float[Array, "launch 4"], log_ratios: Float[Array, "launch"], unused: Float[Array, "launch"]
) -> Float[Array, ""]:
    """Up to a constant; `unused`: further standard deviation of each residual."""
    lengths, (deviation, noise) = jnp.exp(logs[: len(SIZES)]), jnp.exp(logs[len(SIZES) :])
    covariance = deviation**2 * correlation(sizes, sizes, lengths, jnp) + jnp.diag(noise**2 + unused**2)
    factor = jnp.linalg.cholesky(covariance)
    whitened = jax.scipy.linalg.solve_triangular(factor, log_ratios, lower=True)
    of_lengths = ((logs[: len(SIZES)] - LENGTH_PRIOR[0]) / LENGTH_PRIOR[1]) ** 2
    return 0.5 * (whitened**2).sum() + jnp.log(jnp.diag(factor)).sum() + 0.5 * of_lengths.sum()


def _most_informative(discrepancy: Discrepancy) -> Int[np.ndarray, "kept"]:
    """Indices of at most `MAX_POINTS` launches, each of which was the least known given those before it (pivoted Cholesky)."""
    sizes, variance = discrepancy.sizes, np.full(len(discrepancy.sizes), discrepancy.deviation**2)
    if len(sizes) <= MAX_POINTS:
        return np.arange(len(sizes))
    explained, kept = np.zeros((MAX_POINTS, len(sizes))), list[int]()
    for number in range(MAX_POINTS):
        kept.append(pivot := int(np.argmax(variance)))
        covariance = discrepancy.deviation**2 * correlation(sizes[[pivot]], sizes, discrepancy.lengths)[0]
        covariance = covariance - explained[:number, pivot] @ explained[:number]
        explained[number] = covariance / np.sqrt(covariance[pivot] + discrepancy.noise**2)
        variance = variance - explained[number] ** 2
        variance[kept] = -np.inf
    return np.sort(kept)
