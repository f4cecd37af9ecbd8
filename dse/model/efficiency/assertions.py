"""Plausibility checks of predictions; each failure has an error class of its own."""

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from dse.base.errors import ImplausibleResultError

ROUNDING = 1e-9  # relative deviation that rounding explains


class NotPositiveError(ImplausibleResultError):
    """A time is zero, negative, infinite or not a number."""


class AbovePeakError(ImplausibleResultError):
    """A rate is above the peak of the data sheet at the highest clock."""


class EfficiencyError(ImplausibleResultError):
    """A share of a peak is not positive, or above 1 at the highest clock."""


class NotMonotoneError(ImplausibleResultError):
    """More work takes less time."""


def check_times(time: ArrayLike, flops: ArrayLike, peak: float, max_clock: float = 1.0, kernel: str = "") -> None:
    """Raise if a predicted time [s] is not positive or implies a rate above the peak [FLOP/s] at `max_clock` times its clock."""
    time, flops = np.asarray(time, float), np.asarray(flops, float)
    if not np.all(is_valid := np.isfinite(time) & (time > 0)):
        raise NotPositiveError(f"{kernel}: a predicted time of {_first(time, ~is_valid)} s")
    rate = flops / time
    if np.any(is_above := rate > max_clock * peak * (1 + ROUNDING)):
        raise AbovePeakError(f"{kernel}: {_first(rate, is_above) / 1e12:.4g} TFLOP/s predicted, the peak is {peak / 1e12:.4g}")


def check_efficiency(efficiency: ArrayLike, max_clock: float = 1.0, kernel: str = "") -> None:
    """Raise if an efficiency is not positive, or above that of `max_clock`."""
    efficiency = np.asarray(efficiency, float)
    is_wrong = ~((efficiency > 0) & (efficiency <= max_clock * (1 + ROUNDING)))
    if np.any(is_wrong):
        raise EfficiencyError(f"{kernel}: an efficiency of {_first(efficiency, is_wrong):.4g}, outside (0, {max_clock:g}]")


def check_slowdown(slowdown: ArrayLike, max_clock: float = 1.0, kernel: str = "") -> None:
    """Raise if a slowdown over the speed of light is below that of `max_clock` or not finite."""
    slowdown = np.asarray(slowdown, float)
    if not np.all(is_valid := np.isfinite(slowdown) & (slowdown > 0)):
        raise NotPositiveError(f"{kernel}: {_first(slowdown, ~is_valid)} times as long as at the speed of light")
    check_efficiency(1 / slowdown, max_clock, kernel)


def check_monotone(time: ArrayLike, kernel: str = "") -> None:
    """Raise if times [s], in the order of growing work, ever fall."""
    time = np.asarray(time, float)
    is_falling = np.diff(time) < -ROUNDING * time[:-1]
    if np.any(is_falling):
        index = int(np.argmax(is_falling))
        raise NotMonotoneError(f"{kernel}: {time[index]:.4g} s, then {time[index + 1]:.4g} s for more work")


def _first(values: Float[np.ndarray, "..."], mask: Bool[np.ndarray, "..."]) -> float:
    return float(values[mask].flat[0])
