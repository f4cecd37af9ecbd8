"""Fit an attention kernel to its measurements: which tiling it has, then its parameters, by least squares of log times with a prior."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from dse.calibrate.fit.parameters import FitProblem, log_residuals, minimize_residuals, pad_problem
from dse.model.efficiency.attention.launches import AttentionLaunches
from dse.model.efficiency.attention.model import AttentionFeatures, AttentionModel, attention_features, attention_time, pad_features
from dse.model.efficiency.attention.parameters import (
    ATTENTION_DEVIATION,
    ATTENTION_LOWER,
    ATTENTION_PRIOR,
    ATTENTION_UPPER,
    TILINGS,
    TILINGS_OF_PHASE,
)
from dse.model.efficiency.float64 import compile_in_float64
from dse.model.efficiency.parameter import Theta

MAX_FITTED, MAX_SCREENED = 1500, 250  # launches that set the parameters, and those that choose the tiling
SCREENING_STEPS, STEPS = 25, 60


def fit_attention(launches: AttentionLaunches, seed: int = 0) -> AttentionModel:
    """Fit the tilings of the phase to a sample of the launches, and the parameters of the best one to at most 1500 launches."""
    screened, fitted = sample_launches(launches, MAX_SCREENED, seed), sample_launches(launches, MAX_FITTED, seed)
    start = AttentionModel(launches.key, "", ATTENTION_PRIOR)
    candidates = [replace(start, tiling=name) for name in TILINGS_OF_PHASE[launches.key.phase]]
    best = min((fit_attention_parameters(each, screened, SCREENING_STEPS) for each in candidates), key=lambda model: model.cost)
    return fit_attention_parameters(best, fitted, STEPS)


def sample_launches(launches: AttentionLaunches, size: int, seed: int = 0) -> AttentionLaunches:
    """A random sample of at most `size` launches."""
    if len(launches) <= size:
        return launches
    return launches.take(np.sort(np.random.default_rng(seed).choice(len(launches), size, replace=False)))


def fit_attention_parameters(start: AttentionModel, launches: AttentionLaunches, steps: int = STEPS) -> AttentionModel:
    """Fit the parameters of a kernel whose tiling is known, beginning at those of `start`."""
    problem = _fit_problem(start, launches)
    theta, cost = minimize_residuals(*_compiled(), problem, start.theta, (ATTENTION_LOWER, ATTENTION_UPPER), steps)
    return replace(start, theta=theta, cost=cost)


def theta_deviation(model: AttentionModel, launches: AttentionLaunches) -> tuple[Theta, np.ndarray]:
    """Standard deviation of each theta given the launches (Laplace's approximation), and whether they determine it more than the prior."""
    problem = _fit_problem(model, launches)
    jacobian = np.asarray(_compiled()[1](model.theta, *problem))
    information = jacobian.T @ jacobian
    of_launches = (jacobian[: len(problem.time)] ** 2).sum(axis=0)
    return np.sqrt(np.diag(np.linalg.inv(information))), of_launches > ATTENTION_DEVIATION**-2.0


def _fit_problem(model: AttentionModel, launches: AttentionLaunches) -> FitProblem[AttentionFeatures]:
    features = pad_features(attention_features(launches, TILINGS[model.tiling]))
    return pad_problem(features, launches.time, len(features.rows))


def _residuals(
    theta: Float[Array, "parameter"], features: AttentionFeatures, time: Float[Array, "launch"], weight: Float[Array, "launch"]
) -> Float[Array, "residual"]:
    return log_residuals(attention_time(theta, features), time, weight, (theta - ATTENTION_PRIOR) / ATTENTION_DEVIATION)


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`_residuals` and its Jacobian."""
    return compile_in_float64(_residuals), compile_in_float64(jax.jacfwd(_residuals))
