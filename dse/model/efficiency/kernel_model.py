"""A fitted kernel: its parameters, and the times that they predict for launches of any shape."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import numpy as np

from dse.model.efficiency import kernel_time
from dse.model.efficiency.kernel_time import Features
from dse.model.efficiency.launches import KernelKey, KernelLaunches
from dse.model.efficiency.parameters import Theta
from dse.model.efficiency.tiles import Deeper, Tile


@dataclass(frozen=True, eq=False)
class KernelModel:
    """One kernel's parameters, what is special about it, what its tiles stage, and draws of the parameters from the bootstrap.

    `tile`: the only one it has; None: it takes the fastest, of those with edges of at least `least`, and may cut k if it `splits`.
    `deeper`: from which k on the kernel takes which other tile (None: the fastest). `staged`: density, and the bytes of a scratchpad
    that a tile takes at it, as measured; empty if that is not known. `processors`: as its waves tell, where no description counts them.
    `max_k`: greatest k of the launches that it was fitted to; deeper products are as efficient as those of this k.
    """

    key: KernelKey
    theta: Theta
    tile: Tile | None = None
    splits: bool = True
    least: int = 1
    power_slots: bool = False
    deeper: Deeper = ()
    processors: float = np.nan
    staged: tuple[tuple[float, float], ...] = ()
    cost: float = np.inf
    samples: tuple[Theta, ...] = ()
    max_k: float = np.inf

    def seconds(self, launches: KernelLaunches) -> np.ndarray:
        """Predicted time of each launch [s]."""
        given, size = features_of(self, launches)
        return np.asarray(_compiled()[0](self.theta, given, self.allowed_tiles(given)))[:size]

    def allowed_tiles(self, given: Features) -> np.ndarray:
        return kernel_time.allowed(self.tile, self.deeper, given["k"], self.splits, self.least)

    def time_components(self, launches: KernelLaunches, moved: np.ndarray) -> np.ndarray:
        """Time of launch, unit and memory [part, launch] in seconds; `moved`: bytes of each launch [B]."""
        given, size = features_of(self, launches, moved)
        return np.stack([np.asarray(part) for part in _compiled()[1](self.theta, given, self.allowed_tiles(given))])[:, :size]


def features_of(fitted: KernelModel, launches: KernelLaunches, moved: np.ndarray | None = None) -> tuple[Features, int]:
    """Padded to a power of two by repetition, so that few sizes are compiled."""
    rates = launches.rates if not np.isnan(launches.rates.processors) else replace(launches.rates, processors=fitted.processors)
    known = replace(launches, staged=_staged(fitted, launches), rates=rates)
    found, size = kernel_time.features(known, fitted.power_slots, moved, fitted.max_k), len(launches)
    rows = np.arange(max(64, 2 ** int(np.ceil(np.log2(size))))) % size
    return {name: value[rows] for name, value in found.items()}, size


def _staged(fitted: KernelModel, launches: KernelLaunches) -> np.ndarray:
    """What a tile of each launch stages [B]: as the launches know, else as the kernel did at the nearest density."""
    own = np.broadcast_to(launches.staged, len(launches))
    if not fitted.staged:
        return own
    density, staged = np.array(fitted.staged).T
    nearest = np.argmin(np.abs(np.log(launches.density[:, None] / density)), axis=1)
    return np.where(np.isnan(own), staged[nearest], own)


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of JAX, compiled and called in double precision."""
    compiled = jax.jit(function)

    def call(*arguments: Any) -> Any:
        with jax.enable_x64(True):
            return compiled(*arguments)

    return call


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The time of launches, and its parts."""
    return in_float64(kernel_time.seconds), in_float64(kernel_time.parts)
