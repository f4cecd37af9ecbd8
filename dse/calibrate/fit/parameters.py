"""Fit the parameters of a kernel whose tiles are known: robust least squares of log times with a normal prior, gradients by JAX."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import least_squares

from dse.model.efficiency.float64 import compile_in_float64
from dse.model.efficiency.kernels.launches import KernelLaunches, PerLaunch
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import LOWER_BOUND, PRIOR, UPPER_BOUND
from dse.model.efficiency.kernels.time import AllowedTiles, LaunchFeatures, launch_time
from dse.model.efficiency.parameter import Distribution, Theta

NOISE = 0.08  # standard deviation of the logarithm of a measured time about a fitted model, against which the prior is weighed
MAX_COUNTED = 100  # launches that many similar ones count as, whose errors are those of the model rather than of the measurements
MAX_INDEPENDENT = 200  # launches of a kernel of attention or of a module that count as independent
BOOTSTRAP_STEPS = 12
Features = TypeVar("Features")


class FitProblem(NamedTuple, Generic[Features]):
    """Arrays of a fit of attention or of a module, padded; a `weight` of 0 leaves a launch out."""

    features: Features
    time: PerLaunch
    weight: PerLaunch


def pad_problem(features: Features, time: PerLaunch, size: int) -> FitProblem[Features]:
    """The problem of launches with features that are padded to a size already; all launches together count as at most 200."""
    weight = np.where(np.arange(size) < len(time), 1 / np.sqrt(max(len(time) / MAX_INDEPENDENT, 1.0)), 0.0)
    return FitProblem(features, np.resize(time, size), weight)


def fit_parameters(
    start: KernelModel,
    launches: KernelLaunches,
    steps: int = 30,
    weight: PerLaunch | None = None,
    prior: Distribution = PRIOR,
    noise: float = NOISE,
) -> KernelModel:
    """Fit the parameters of `start`, beginning at its own, under its discrepancy; a `weight` of 0 leaves a launch out.

    `noise`: standard deviation of the logarithm of a measured time about the model.
    """
    weight = np.ones(len(launches)) if weight is None else weight
    start = replace(start, max_k=float(launches.k[weight > 0].max()))
    arguments = _residual_arguments(start, launches, weight * (NOISE / noise) ** 2, prior)
    theta, cost = minimize_residuals(*_compiled(), arguments, start.theta, (LOWER_BOUND, UPPER_BOUND), steps)
    return replace(start, theta=theta, cost=cost)


def minimize_residuals(
    residuals: Callable[..., Any],
    jacobian: Callable[..., Any],
    arguments: Sequence[Any],
    start: Theta,
    bounds: tuple[Theta, Theta],
    steps: int,
) -> tuple[Theta, float]:
    """Theta of the least robust sum of squares of `residuals(theta, *arguments)` within bounds, and its cost."""
    low, high = bounds
    solution = least_squares(
        lambda theta: np.asarray(residuals(theta, *arguments)),
        np.clip(start, low + 1e-9, high - 1e-9),
        jac=lambda theta: np.asarray(jacobian(theta, *arguments)),  # pyright: ignore[reportArgumentType]
        bounds=bounds,
        loss="soft_l1",
        max_nfev=steps,
    )
    return solution.x, float(solution.cost)


def log_residuals(
    predicted: Float[Array, "launch"],
    time: Float[Array, "launch"],
    weight: Float[Array, "launch"],
    of_parameters: Float[Array, "parameter"],
) -> Float[Array, "residual"]:
    """Residuals of the logarithm of each time over the noise, then those of the parameters, over their prior deviations."""
    return jnp.concatenate([(jnp.log(predicted) - jnp.log(time)) * weight / NOISE, of_parameters])


def bootstrap(
    model: KernelModel, launches: KernelLaunches, sample_count: int, seed: int = 0, prior: Distribution = PRIOR, noise: float = NOISE
) -> KernelModel:
    """Add samples of the parameters, each fitted to a sample of the shapes with replacement.

    Whole shapes are sampled, since launches of one shape are not independent. The mean of the prior is sampled as well, so that
    parameters that the measurements do not determine vary as much as the prior does.
    """
    rng, shapes = np.random.default_rng(seed), sorted(set(launches.shapes))
    numbers = {shape: number for number, shape in enumerate(shapes)}
    index = np.array([numbers[shape] for shape in launches.shapes])
    samples = []
    for _ in range(sample_count):
        weight = np.bincount(rng.integers(len(shapes), size=len(shapes)), minlength=len(shapes))[index]
        shifted = Distribution(np.clip(rng.normal(prior.mean, prior.deviation), LOWER_BOUND, UPPER_BOUND), prior.deviation)
        samples.append(fit_parameters(model, launches, BOOTSTRAP_STEPS, weight.astype(float), shifted, noise).theta)
    return replace(model, samples=tuple(samples))


def posterior_deviation(model: KernelModel, launches: KernelLaunches, prior: Distribution = PRIOR, noise: float = NOISE) -> Theta:
    """Standard deviation of each parameter given the measurements and the prior, where residuals are linear in theta."""
    weight = np.full(len(launches), (NOISE / noise) ** 2)
    jacobian = np.asarray(_compiled()[1](model.theta, *_residual_arguments(model, launches, weight, prior)))
    return np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))


def _residual_arguments(
    model: KernelModel, launches: KernelLaunches, weight: PerLaunch, prior: Distribution
) -> tuple[LaunchFeatures, AllowedTiles, PerLaunch, PerLaunch, Theta, Theta]:
    """The arguments of `_residuals` but theta; features and weights are padded to sizes that are compiled once.

    The parameters have to explain what the discrepancy of the model does not.
    """
    features, times = model.padded_features(launches), launches.time / model.correction(launches)
    padded_weight = np.zeros(len(features.depth))
    padded_weight[: len(launches)] = np.sqrt(weight * min(1.0, MAX_COUNTED / max(weight.sum(), 1e-9)))
    return features, model.allowed_tiles, np.resize(times, len(features.depth)), padded_weight, prior.mean, prior.deviation


def _residuals(
    theta: Float[Array, "parameter"],
    features: LaunchFeatures,
    allowed: AllowedTiles,
    time: Float[Array, "launch"],
    weight: Float[Array, "launch"],
    prior_mean: Float[Array, "parameter"],
    prior_deviation: Float[Array, "parameter"],
) -> Float[Array, "residual"]:
    return log_residuals(launch_time(theta, features, allowed), time, weight, (theta - prior_mean) / prior_deviation)


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`_residuals` and its Jacobian."""
    return compile_in_float64(_residuals), compile_in_float64(jax.jacfwd(_residuals))
