"""A fitted kernel: its parameters and tiles, and the times that they predict for launches of any shape."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from dse.model.efficiency import kernel_time
from dse.model.efficiency.kernel_time import AllowedTiles, LaunchFeatures
from dse.model.efficiency.launches import KernelKey, KernelLaunches, PerLaunch
from dse.model.efficiency.parameters import Theta
from dse.model.efficiency.tiles import Tile, TilesByDepth

MIN_PADDED_SIZE = 64


@dataclass(frozen=True, eq=False)
class KernelModel:
    """Parameters of one kernel, the tiles that it may use, and bootstrap samples of the parameters.

    `tile`: the only tile; None: the fastest of those without an edge below `min_edge`, with k split if it `splits_k`. `tiles_by_depth`:
    other tiles from some k on. `pads_to_power_of_two`: N of an N:M pattern. `processors`: estimated from waves, NaN if described or
    unknown. `staged_bytes`: (density, scratchpad of a tile [B]) as measured. `max_k`: greatest fitted k; deeper products are as efficient.
    `cost`: residual of the fit.
    """

    key: KernelKey
    theta: Theta
    tile: Tile | None = None
    splits_k: bool = True
    min_edge: int = 1
    pads_to_power_of_two: bool = False
    tiles_by_depth: TilesByDepth = ()
    processors: float = np.nan
    staged_bytes: tuple[tuple[float, float], ...] = ()
    cost: float = np.inf
    samples: tuple[Theta, ...] = ()
    max_k: float = np.inf

    def predict_times(self, launches: KernelLaunches) -> PerLaunch:
        """Predicted time of each launch [s]."""
        features = self.padded_features(launches)
        return np.asarray(_compiled()[0](self.theta, features, self.allowed_tiles(features)))[: len(launches)]

    def time_components(self, launches: KernelLaunches, moved_bytes: PerLaunch) -> Float[np.ndarray, "component launch"]:
        """Overhead, time of the unit and time of the memory [s]; `moved_bytes`: traffic of each launch [B]."""
        features = self.padded_features(launches, moved_bytes)
        components = _compiled()[1](self.theta, features, self.allowed_tiles(features))
        return np.stack([np.asarray(component) for component in components])[:, : len(launches)]

    def allowed_tiles(self, features: LaunchFeatures) -> AllowedTiles:
        """Which tiles and splits the kernel may use for each launch."""
        return kernel_time.allowed_tiles(self.tile, self.tiles_by_depth, features.k, self.splits_k, self.min_edge)

    def padded_features(self, launches: KernelLaunches, moved_bytes: PerLaunch | None = None) -> LaunchFeatures:
        """The features of launches, repeated up to a power of two, so that few sizes are compiled."""
        rates = launches.rates if not np.isnan(launches.rates.processors) else replace(launches.rates, processors=self.processors)
        completed = replace(launches, staged_bytes=self._staged_bytes(launches), rates=rates)
        features = kernel_time.launch_features(completed, self.pads_to_power_of_two, moved_bytes, self.max_k)
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


def compile_in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a JAX function and call it in double precision."""
    compiled = jax.jit(function)

    def call(*arguments: Any) -> Any:
        with jax.enable_x64(True):
            return compiled(*arguments)

    return call


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`launch_time` and `time_components`."""
    return compile_in_float64(kernel_time.launch_time), compile_in_float64(kernel_time.time_components)
