"""A fitted kernel: its parameters and tiles, and the times that they predict for launches of any shape."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dse.model.efficiency.float64 import compile_in_float64
from dse.model.efficiency.kernels.discrepancy import Discrepancy
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches, PerLaunch
from dse.model.efficiency.kernels.parameters import Tile
from dse.model.efficiency.kernels.time import (
    AllowedTiles,
    LaunchFeatures,
    TracedTheta,
    launch_components,
    launch_features,
    launch_time,
    mask_tiles,
)
from dse.model.efficiency.parameter import Theta

MIN_PADDED_SIZE = 64


@dataclass(frozen=True, eq=False)
class KernelModel:
    """Parameters of one kernel, the tiles that it may use, and bootstrap samples of the parameters.

    `tile`: the only tile; None: the fastest of those without an edge below `min_edge`, with k split if it `splits_k`.
    `pads_to_power_of_two`: N of an N:M pattern. `processors`: estimated from waves, NaN if described or unknown. `staged_bytes`: (density,
    scratchpad of a tile [B]) as measured. `max_k`: greatest fitted k; deeper products are as efficient. `cost`: residual of the fit.
    `discrepancy`: what the parameters leave unexplained, None if unknown; it multiplies all components of a time.
    """

    key: KernelKey
    theta: Theta
    tile: Tile | None = None
    splits_k: bool = True
    min_edge: int = 1
    pads_to_power_of_two: bool = False
    processors: float = np.nan
    staged_bytes: tuple[tuple[float, float], ...] = ()
    cost: float = np.inf
    samples: tuple[Theta, ...] = ()
    max_k: float = np.inf
    discrepancy: Discrepancy | None = None

    def transferred(self, key: KernelKey, theta: Theta) -> "KernelModel":
        """The model of another kernel with these tiles, slots and scratchpad, of a device whose processors are described."""
        return replace(self, key=key, theta=theta, processors=np.nan, max_k=np.inf, cost=np.inf, samples=(), discrepancy=None)

    def predict_times(self, launches: KernelLaunches) -> PerLaunch:
        """Predicted time of each launch [s], not above the peak at the highest clock."""
        features = self.padded_features(launches)
        time = np.asarray(_compiled(launch_time)(self.theta, features, self.allowed_tiles))[: len(launches)]
        if self.discrepancy is None:
            return time
        return np.maximum(time * self.correction(launches), launches.flops / (launches.rates.peak * launches.rates.max_clock))

    def correction(self, launches: KernelLaunches) -> PerLaunch:
        """Factor by which launches of these sizes take longer than the parameters explain."""
        return np.ones(len(launches)) if self.discrepancy is None else np.exp(self.discrepancy.log_factor(launches))

    def relative_deviation(self, launches: KernelLaunches) -> PerLaunch:
        """Standard deviation of the logarithm of each time, over that of a launch far from every measured one."""
        return np.ones(len(launches)) if self.discrepancy is None else self.discrepancy.relative_deviation(launches)

    def time_components(self, launches: KernelLaunches, moved_bytes: PerLaunch) -> Float[np.ndarray, "component launch"]:
        """Overhead, time of the unit and time of the memory [s]; `moved_bytes`: traffic of each launch [B].

        No correction makes the unit faster than its peak at the highest clock, or the memory faster than its bandwidth.
        """
        features, rates = self.padded_features(launches, moved_bytes), launches.rates
        components = _compiled(launch_components)(self.theta, features, self.allowed_tiles)
        times = np.stack([np.asarray(component) for component in components])[:, : len(launches)]
        least = np.stack([np.zeros(len(launches)), launches.flops / (rates.peak * rates.max_clock), moved_bytes / rates.bandwidth])
        return np.maximum(times * self.correction(launches), np.minimum(times, least))

    def log_time_gradient(self, launches: KernelLaunches, moved_bytes: PerLaunch | None = None) -> Float[np.ndarray, "launch parameter"]:
        """Derivative of the logarithm of the time of each launch with respect to theta."""
        features = self.padded_features(launches, moved_bytes)
        return np.asarray(_compiled(_log_time_jacobian)(self.theta, features, self.allowed_tiles))[: len(launches)]

    def log_component_gradients(self, launches: KernelLaunches, moved_bytes: PerLaunch) -> Float[np.ndarray, "component launch parameter"]:
        """Derivatives of the logarithms of overhead, time of the unit and time of the memory with respect to theta.

        They depend neither on the peak of the unit nor on the bandwidth of the memory.
        """
        features = self.padded_features(launches, moved_bytes)
        return np.asarray(_compiled(_log_component_jacobians)(self.theta, features, self.allowed_tiles))[:, : len(launches)]

    @property
    def allowed_tiles(self) -> AllowedTiles:
        """Which tiles and splits the kernel may use."""
        return mask_tiles(self.tile, self.splits_k, self.min_edge)

    def padded_features(self, launches: KernelLaunches, moved_bytes: PerLaunch | None = None) -> LaunchFeatures:
        """The features of launches, repeated up to a power of two, so that few sizes are compiled."""
        rates = launches.rates if not np.isnan(launches.rates.processors) else replace(launches.rates, processors=self.processors)
        completed = replace(launches, staged_bytes=self._staged_bytes(launches), rates=rates)
        features = launch_features(completed, self.pads_to_power_of_two, moved_bytes, self.max_k)
        rows = np.arange(max(MIN_PADDED_SIZE, 2 ** int(np.ceil(np.log2(len(launches)))))) % len(launches)
        return LaunchFeatures(*(value[rows] for value in features))

    def _staged_bytes(self, launches: KernelLaunches) -> PerLaunch:
        """Scratchpad of a tile [B]: as measured with the launch, else as measured at the nearest density."""
        measured = np.broadcast_to(launches.staged_bytes, len(launches))
        if not self.staged_bytes:
            return measured
        density, staged = np.array(self.staged_bytes).T
        nearest = np.argmin(np.abs(np.log(launches.density[:, None] / density)), axis=1)
        return np.where(np.isnan(measured), staged[nearest], measured)


def _log_time_jacobian(theta: TracedTheta, features: LaunchFeatures, allowed: AllowedTiles) -> Float[Array, "launch parameter"]:
    return jax.jacfwd(lambda theta: jnp.log(launch_time(theta, features, allowed)))(theta)


def _log_component_jacobians(
    theta: TracedTheta, features: LaunchFeatures, allowed: AllowedTiles
) -> Float[Array, "component launch parameter"]:
    def log_components(theta: TracedTheta) -> Float[Array, "component launch"]:
        components = jnp.stack(launch_components(theta, features, allowed))
        return jnp.log(jnp.where(components > 0, components, 1.0))

    return jax.jacfwd(log_components)(theta)


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return compile_in_float64(function)
