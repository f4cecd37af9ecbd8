"""Fit the parameters of a module to its measurements: robust least squares of log times with a prior."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from dse.calibrate.fit.parameters import log_residuals, minimize_residuals, pad_problem
from dse.calibrate.modules.launches import ModuleLaunches, PerLaunch
from dse.calibrate.modules.parameters import MODULE_DEVIATION, MODULE_LOWER, MODULE_PARAMETERS, MODULE_PRIOR, MODULE_UPPER
from dse.calibrate.modules.shapes import LatentShape
from dse.calibrate.modules.time import ModuleFeatures, module_features, module_time
from dse.model.efficiency.float64 import compile_in_float64
from dse.model.efficiency.parameter import Theta, theta_to_values

MAX_FITTED = 512  # launches that set the parameters, a random sample of more
STEPS, REFIT_STEPS = 60, 15


@dataclass(frozen=True, eq=False)
class ModuleModel:
    """Fitted parameters of one kernel for all networks and dtypes; `attends_to_all_slots`: see `module_features`."""

    attends_to_all_slots: bool
    theta: Theta
    cost: float = np.inf

    @property
    def values(self) -> dict[str, float]:
        """Value of each parameter by its name."""
        return theta_to_values(self.theta, MODULE_PARAMETERS)

    def predict_times(self, groups: Sequence[ModuleLaunches]) -> PerLaunch:
        """Time of each launch of all groups [s], repeated as it is measured."""
        return self.predict_features(join_features(groups, self.attends_to_all_slots))

    def predict_features(self, features: ModuleFeatures) -> PerLaunch:
        """Time of each launch [s]."""
        size = len(features.tokens)
        return np.asarray(_compiled()[2](self.theta, _pad(features, -(-size // MAX_FITTED) * MAX_FITTED)))[:size]


def join_features(groups: Sequence[ModuleLaunches], attends_to_all_slots: bool) -> ModuleFeatures:
    """The features of several groups of launches, one after the other."""
    features = [module_features(launches, attends_to_all_slots) for launches in groups]
    return ModuleFeatures(*(np.concatenate(values) for values in zip(*features, strict=True)))


def measured_times(groups: Sequence[ModuleLaunches]) -> PerLaunch:
    """Measured time of each launch of several groups [s]."""
    return np.concatenate([launches.time for launches in groups])


def fit_module(groups: Sequence[ModuleLaunches], seed: int = 0) -> ModuleModel:
    """Fit one kernel to its launches in all networks and dtypes; of latent attention with and without unused slots, the better model."""
    choices = (False, True) if isinstance(groups[0].key.shape, LatentShape) else (False,)
    time = measured_times(groups)
    starts = (ModuleModel(slots, MODULE_PRIOR) for slots in choices)
    models = [fit_features(start, join_features(groups, start.attends_to_all_slots), time, STEPS, seed) for start in starts]
    return min(models, key=lambda model: model.cost)


def fit_features(start: ModuleModel, features: ModuleFeatures, time: PerLaunch, steps: int = REFIT_STEPS, seed: int = 0) -> ModuleModel:
    """Fit the parameters to a sample of at most 512 launches, beginning at those of `start`."""
    if len(time) > MAX_FITTED:
        sample = np.sort(np.random.default_rng(seed).choice(len(time), MAX_FITTED, replace=False))
        features, time = take_features(features, sample), time[sample]
    problem = pad_problem(_pad(features, MAX_FITTED), time, MAX_FITTED)
    theta, cost = minimize_residuals(*_compiled()[:2], problem, start.theta, (MODULE_LOWER, MODULE_UPPER), steps)
    return ModuleModel(start.attends_to_all_slots, theta, cost)


def take_features(features: ModuleFeatures, index: np.ndarray | Bool[np.ndarray, "launch"]) -> ModuleFeatures:
    """The features of the launches at an index or under a mask."""
    return ModuleFeatures(*(values[index] for values in features))


def _pad(features: ModuleFeatures, size: int) -> ModuleFeatures:
    return ModuleFeatures(*(np.resize(values, size) for values in features))


def _residuals(
    theta: Float[Array, "parameter"], features: ModuleFeatures, time: Float[Array, "launch"], weight: Float[Array, "launch"]
) -> Float[Array, "residual"]:
    return log_residuals(module_time(theta, features), time, weight, (theta - MODULE_PRIOR) / MODULE_DEVIATION)


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """`_residuals`, its Jacobian, and `module_time`."""
    return compile_in_float64(_residuals), compile_in_float64(jax.jacfwd(_residuals)), compile_in_float64(module_time)
