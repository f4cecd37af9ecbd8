"""Parameters of a kernel from its measurements: regularised least squares of log times, with gradients by JAX."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from dse.calibrate import kernel
from dse.calibrate.launches import Kernel, Launches
from dse.calibrate.parameters import HIGH, LOW, PRIOR, SPREAD, Theta

NOISE = 0.05  # relative deviation that the prior is weighed against
WORTH = 0.8  # a kernel counts as special (one tile, padded slots) only if that leaves less than this share of the cost
FEWEST_SHAPES = 5
SIEVE, FINALISTS = 128, 5


@dataclass(frozen=True, eq=False)
class Fitted:
    """One kernel's parameters, what is special about it, and draws of the parameters from the bootstrap."""

    kernel: Kernel
    theta: Theta
    tile: tuple[int, int] | None = None
    power_slots: bool = False
    cost: float = np.inf
    draws: tuple[Theta, ...] = ()

    def seconds(self, launches: Launches) -> np.ndarray:
        """Predicted time of each launch [s]."""
        given, size = _features(launches, self.power_slots)
        return np.asarray(_compiled()[0](self.theta, given, kernel.allowed(self.tile)))[:size]


def fit(launches: Launches) -> Fitted:
    """The best of the special cases and, if none of them is worth it, the general one. The least promising are dropped early."""
    few = launches.take(np.unique(np.linspace(0, len(launches) - 1, SIEVE).astype(int)))
    promising = sorted((refit(case, few, 25) for case in _special(launches)), key=lambda case: case.cost)[:FINALISTS]
    general = refit(Fitted(launches.kernel, PRIOR), launches, 100)
    found = [refit(replace(case, theta=PRIOR), launches, 100) for case in promising]
    return min([*(case for case in found if case.cost < WORTH * general.cost), general], key=lambda case: case.cost)


def _special(launches: Launches) -> Iterator[Fitted]:
    padded = (False, True) if len(set(launches.density[launches.slots > 0])) > 2 else (False,)
    for tile, power in product((None, *kernel.TILES), padded):
        if tile or power:
            yield Fitted(launches.kernel, PRIOR, tile, power)


def refit(start: Fitted, launches: Launches, steps: int = 30, weight: np.ndarray | None = None) -> Fitted:
    """From where another fit ended; `weight` of each launch, 0 to leave it out."""
    given, size = _features(launches, start.power_slots)
    padded = np.zeros(len(given["k"]))
    padded[:size] = 1.0 if weight is None else np.sqrt(weight)
    time = np.resize(launches.time, len(padded))
    choice = kernel.allowed(start.tile)
    _, residuals, jacobian = _compiled()
    done = least_squares(
        lambda theta: np.asarray(residuals(theta, given, choice, time, padded)),
        np.clip(start.theta, LOW + 1e-9, HIGH - 1e-9),
        jac=lambda theta: np.asarray(jacobian(theta, given, choice, time, padded)),  # pyright: ignore[reportArgumentType]
        bounds=(LOW, HIGH),
        max_nfev=steps,
    )
    return replace(start, theta=done.x, cost=float(done.cost))


def bootstrap(fitted: Fitted, launches: Launches, draws: int, seed: int = 0) -> Fitted:
    """With the parameters of `draws` resamplings, whole shapes at a time: rows of one shape are no independent evidence."""
    rng, shapes = np.random.default_rng(seed), sorted(set(launches.shapes))
    index = np.array([shapes.index(shape) for shape in launches.shapes])
    weights = [np.bincount(rng.integers(len(shapes), size=len(shapes)), minlength=len(shapes))[index] for _ in range(draws)]
    return replace(fitted, draws=tuple(refit(fitted, launches, 12, weight.astype(float)).theta for weight in weights))


def informed(fitted: Fitted, launches: Launches) -> np.ndarray:
    """Which parameters the measurements say more of than the prior does [parameter]."""
    given, size = _features(launches, fitted.power_slots)
    weight = (np.arange(len(given["k"])) < size).astype(float)
    slopes = _compiled()[2](fitted.theta, given, kernel.allowed(fitted.tile), np.resize(launches.time, len(weight)), weight)
    return (np.asarray(slopes)[: len(weight)] ** 2).sum(axis=0) > SPREAD**-2.0


def _features(launches: Launches, power_slots: bool) -> tuple[kernel.Features, int]:
    """Padded to a power of two by repetition, so that few sizes are compiled."""
    found, size = kernel.features(launches, power_slots), len(launches)
    rows = np.arange(max(64, 2 ** int(np.ceil(np.log2(size))))) % size
    return {name: value[rows] for name, value in found.items()}, size


@cache
def _compiled() -> tuple[Any, Any, Any]:
    """The model, its residuals with the prior's below, and their Jacobian."""

    def residuals(theta: Any, given: Any, choice: Any, time: Any, weight: Any) -> Any:
        off = (jnp.log(kernel.seconds(theta, given, choice)) - jnp.log(time)) * weight / NOISE
        return jnp.concatenate([off, (theta - PRIOR) / SPREAD])

    def in_float64(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            with jax.enable_x64(True):
                return function(*arguments)

        return call

    return in_float64(jax.jit(kernel.seconds)), in_float64(jax.jit(residuals)), in_float64(jax.jit(jax.jacfwd(residuals)))
