"""What the parameters of a kernel leave unexplained: a Gaussian process over the sizes of its launches.

    log(measured / predicted time) = f(log2 m, log2 k, log2 n, log2 density) + noise        f ~ GP(0, deviation^2 exp(-distance))

Libraries choose among more tiles than the model knows, so that neighbouring shapes deviate by similar amounts (model discrepancy;
Kennedy and O'Hagan, 2001). Far from every measured launch the correction is none. `dse.calibrate.fit.discrepancy` estimates it.

A library that takes the same tiles on several devices deviates from the model at the same shapes. What it leaves unexplained on another
device is the mean discrepancy of its kernels, as far as devices deviate together:

    f = weight * mean over devices of f_device

The weight is the slope of the deviations of each measured device on the mean of the others: 0 if they have nothing in common, 1 if they are
equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from dse.model.efficiency.kernels.launches import KernelLaunches, PerLaunch

SIZES = ("m", "k", "n", "density")
LEAST_DISTANCE = 1e-6  # at which a distance has a derivative
MAX_COMPARED = 128  # launches of each kernel by which devices are compared
MAX_POINTS = 512  # launches that describe what the devices share
SHARED_NOISE = 1e-3  # of their deviations, which are expected ones

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


DeviceDiscrepancies = tuple[tuple[Discrepancy, ...], ...]  # of the kernels of each device


class _Agreement(NamedTuple):
    """How far devices deviate together: the slope of each on the others, and the share of the squared deviations that this explains."""

    weight: float
    explained: float


def shared_discrepancy(of_devices: Mapping[str, Sequence[Discrepancy]]) -> Discrepancy | None:
    """What the kernels of one library on some devices say about another device; None if the devices do not deviate together.

    Fewer than two devices do not show whether they do.
    """
    return _shared(tuple(map(tuple, of_devices.values()))) if len(of_devices) > 1 else None


@cache
def _shared(of_devices: DeviceDiscrepancies) -> Discrepancy | None:
    weight, explained = _agreement(of_devices)
    if weight == 0:
        return None
    kernels = [discrepancy for device in of_devices for discrepancy in device]
    sizes = np.unique(np.concatenate([kernel.sizes for kernel in kernels]), axis=0)
    sizes = sizes[_spread(len(sizes), MAX_POINTS)]
    variance = np.mean([kernel.deviation**2 + kernel.noise**2 for kernel in kernels])
    return Discrepancy(
        sizes,
        weight * _expected(of_devices, sizes),
        np.exp(np.mean([np.log(kernel.lengths) for kernel in kernels], axis=0)),
        deviation=float(np.sqrt(explained * variance)),
        noise=SHARED_NOISE * float(np.sqrt(variance)),
        own=float(np.sqrt((1 - explained) * variance)),
    )


def _agreement(of_devices: DeviceDiscrepancies) -> _Agreement:
    covariance = expected_variance = variance = 0.0
    for device in of_devices:
        others = [other for other in of_devices if other is not device]
        for discrepancy in device:
            compared = _spread(len(discrepancy.sizes), MAX_COMPARED)
            measured, expected = discrepancy.log_ratios[compared], _expected(others, discrepancy.sizes[compared])
            covariance += float(expected @ measured)
            expected_variance += float(expected @ expected)
            variance += float(measured @ measured)
    if covariance <= 0:
        return _Agreement(0.0, 0.0)
    return _Agreement(min(1.0, covariance / expected_variance), covariance**2 / (expected_variance * variance))


def _expected(of_devices: Iterable[Sequence[Discrepancy]], sizes: Sizes) -> Float[np.ndarray, "launch"]:
    """Mean over devices of the mean deviation of the kernels of each."""
    return np.mean([np.mean([each.expected(sizes) for each in device], axis=0) for device in of_devices], axis=0)


def _spread(count: int, limit: int) -> np.ndarray:
    """Indices of at most `limit` of `count` items, spread evenly."""
    return np.unique(np.linspace(0, count - 1, limit).astype(int))
