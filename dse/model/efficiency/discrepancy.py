"""What the parameters of a kernel leave unexplained: a Gaussian process over the sizes of its launches.

    log(measured / predicted time) = f(log2 m, log2 k, log2 n, log2 density) + noise        f ~ GP(0, deviation^2 exp(-distance))

Libraries choose among more tiles than the model knows, so that neighbouring shapes deviate by similar amounts (model discrepancy;
Kennedy and O'Hagan, 2001). Far from every measured launch the correction is none. `dse.calibrate.fit_discrepancy` estimates it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from dse.model.efficiency.launches import KernelLaunches, PerLaunch

SIZES = ("m", "k", "n", "density")
LEAST_DISTANCE = 1e-6  # at which a distance has a derivative

Sizes = Float[np.ndarray, "launch 4"]  # logarithms of `SIZES` [doublings]


def log_sizes(launches: KernelLaunches) -> Sizes:
    """Logarithms of the sizes of each launch to base 2."""
    return np.log2(np.maximum(np.stack([getattr(launches, name) for name in SIZES], axis=1), 1e-12))


def correlation(one: Any, other: Any, lengths: Any, arrays: ModuleType = np) -> Any:
    """exp(-distance) of each row of `one` and of `other`, in `lengths`; `arrays`: numpy, or its counterpart in JAX."""
    distances = (one[:, None] - other[None]) / lengths
    return arrays.exp(-arrays.sqrt((distances**2).sum(axis=-1) + LEAST_DISTANCE**2))


@dataclass(frozen=True, eq=False)
class Discrepancy:
    """Deviations of measured launches from the predictions of a kernel, and how they are correlated.

    `sizes`: logarithms to base 2 of m, k, n and the density of each launch. `log_ratios`: log(measured / predicted time). `lengths`: in
    which the correlation falls to 1/e [doublings]. `deviation`: standard deviation of f. `noise`: of a single measurement about f.
    `own`: of what the device adds, if f is that of its library on other devices (`shared_discrepancy`).
    """

    sizes: Sizes
    log_ratios: PerLaunch
    lengths: Float[np.ndarray, "4"]
    deviation: float
    noise: float
    own: float = 0.0
    _known: dict[bytes, Float[np.ndarray, "2 launch"]] = field(default_factory=dict, init=False, repr=False)

    def log_factor(self, launches: KernelLaunches) -> PerLaunch:
        """Expected logarithm of actual over predicted time; 0 for several products in one launch, which were not measured."""
        return np.where(_is_single(launches), self.expected(log_sizes(launches)), 0.0)

    def relative_deviation(self, launches: KernelLaunches) -> PerLaunch:
        """Standard deviation of the logarithm of a measured time, over that of a launch far from every measured one."""
        return np.where(_is_single(launches), self._posterior(log_sizes(launches))[1], 1.0)

    def expected(self, sizes: Sizes) -> PerLaunch:
        """Mean of f at the logarithms of sizes."""
        return self._posterior(sizes)[0]

    def _posterior(self, sizes: Sizes) -> Float[np.ndarray, "2 launch"]:
        """Mean of f, and relative deviation of a measured time; computed once for the layers of a network, which repeat sizes."""
        sizes, inverse = np.unique(sizes, axis=0, return_inverse=True)
        key = sizes.tobytes()
        if key not in self._known:
            self._known[key] = self._condition(sizes)
        return self._known[key][:, inverse.ravel()]

    def _condition(self, sizes: Sizes) -> Float[np.ndarray, "2 launch"]:
        covariance = self.deviation**2 * correlation(sizes, self.sizes, self.lengths)
        explained = self._whiten(covariance.T)
        remaining = np.maximum(self.deviation**2 - (explained**2).sum(axis=0), 0.0)
        unexplained = self.noise**2 + self.own**2
        deviation = np.sqrt((remaining + unexplained) / (self.deviation**2 + unexplained))
        return np.stack([self._whitened_log_ratios @ explained, deviation])

    @cached_property
    def _whitened_log_ratios(self) -> PerLaunch:
        return self._whiten(self.log_ratios)

    def _whiten(self, values: np.ndarray) -> np.ndarray:
        """Rows of one value per measured launch, combined so that measured deviations become independent with unit variance."""
        from scipy.linalg import solve_triangular  # takes a tenth of a second: imported where a launch is corrected

        return solve_triangular(self._factor, values, lower=True)

    @cached_property
    def _factor(self) -> np.ndarray:
        """Lower Cholesky factor of the covariance of the measured deviations."""
        covariance = self.deviation**2 * correlation(self.sizes, self.sizes, self.lengths)
        return np.linalg.cholesky(covariance + self.noise**2 * np.eye(len(self.sizes)))


def _is_single(launches: KernelLaunches) -> np.ndarray:
    return np.broadcast_to(np.asarray(launches.products) == 1, len(launches))
