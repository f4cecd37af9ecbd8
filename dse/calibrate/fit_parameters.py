"""Fit the parameters of a kernel whose tiles are known: least squares of log times with a normal prior, gradients by JAX."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.optimize import least_squares

from dse.model.efficiency import kernel_time
from dse.model.efficiency.kernel_model import KernelModel, compile_in_float64
from dse.model.efficiency.kernel_time import AllowedTiles, LaunchFeatures
from dse.model.efficiency.launches import KernelLaunches, PerLaunch
from dse.model.efficiency.parameters import LOWER_BOUND, PRIOR, PRIOR_DEVIATION, UPPER_BOUND, Theta

NOISE = 0.05  # relative deviation of the measurements, against which the prior is weighed
BOOTSTRAP_STEPS = 12


def fit_parameters(
    start: KernelModel, launches: KernelLaunches, steps: int = 30, weight: PerLaunch | None = None, prior: Theta = PRIOR
) -> KernelModel:
    """Fit the parameters of `start`, beginning at its own; a `weight` of 0 leaves a launch out."""
    start = replace(start, max_k=float((launches.k if weight is None else launches.k[weight > 0]).max()))
    features = start.padded_features(launches)
    padded_weight = np.zeros(len(features.k))
    padded_weight[: len(launches)] = 1.0 if weight is None else np.sqrt(weight)
    arguments = features, start.allowed_tiles(features), np.resize(launches.time, len(features.k)), padded_weight, prior
    residuals, jacobian = _compiled()
    solution = least_squares(
        lambda theta: np.asarray(residuals(theta, *arguments)),
        np.clip(start.theta, LOWER_BOUND + 1e-9, UPPER_BOUND - 1e-9),
        jac=lambda theta: np.asarray(jacobian(theta, *arguments)),  # pyright: ignore[reportArgumentType]
        bounds=(LOWER_BOUND, UPPER_BOUND),
        max_nfev=steps,
    )
    return replace(start, theta=solution.x, cost=float(solution.cost))


def bootstrap(model: KernelModel, launches: KernelLaunches, sample_count: int, seed: int = 0) -> KernelModel:
    """Add samples of the parameters, each fitted to shapes that are drawn with replacement.

    Whole shapes are drawn, since launches of one shape are not independent. The prior is drawn as well, so that parameters that the
    measurements do not determine vary as much as the prior does.
    """
    rng, shapes = np.random.default_rng(seed), sorted(set(launches.shapes))
    index = np.array([shapes.index(shape) for shape in launches.shapes])
    weights = [np.bincount(rng.integers(len(shapes), size=len(shapes)), minlength=len(shapes))[index] for _ in range(sample_count)]
    priors = np.clip(PRIOR + PRIOR_DEVIATION * rng.standard_normal((sample_count, len(PRIOR))), LOWER_BOUND, UPPER_BOUND)
    fits = [
        fit_parameters(model, launches, BOOTSTRAP_STEPS, weight.astype(float), prior) for weight, prior in zip(weights, priors, strict=True)
    ]
    return replace(model, samples=tuple(fit.theta for fit in fits))


def find_determined_parameters(model: KernelModel, launches: KernelLaunches) -> Bool[np.ndarray, "parameter"]:
    """Which parameters the measurements determine more closely than the prior does."""
    features = model.padded_features(launches)
    weight = (np.arange(len(features.k)) < len(launches)).astype(float)
    jacobian = _compiled()[1](model.theta, features, model.allowed_tiles(features), np.resize(launches.time, len(weight)), weight, PRIOR)
    return (np.asarray(jacobian)[: len(weight)] ** 2).sum(axis=0) > PRIOR_DEVIATION**-2.0


def _residuals(
    theta: Float[Array, "parameter"],
    features: LaunchFeatures,
    allowed: AllowedTiles,
    time: Float[Array, "launch"],
    weight: Float[Array, "launch"],
    prior: Float[Array, "parameter"],
) -> Float[Array, "residual"]:
    """Residuals of the logarithm of each time over the noise, then of each parameter over its prior deviation."""
    of_times = (jnp.log(kernel_time.launch_time(theta, features, allowed)) - jnp.log(time)) * weight / NOISE
    return jnp.concatenate([of_times, (theta - prior) / PRIOR_DEVIATION])


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`_residuals` and its Jacobian."""
    return compile_in_float64(_residuals), compile_in_float64(jax.jacfwd(_residuals))
