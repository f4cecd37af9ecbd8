"""What no prediction may be: each absurdity has a name."""

from typing import Any

import numpy as np

from dse.base.errors import ImplausibleResultError


class NotPositiveError(ImplausibleResultError):
    """A time that is zero, negative, infinite or no number."""


class AbovePeakError(ImplausibleResultError):
    """A rate above what the data sheet gives."""


class EfficiencyError(ImplausibleResultError):
    """A share of a peak outside (0, 1]."""


class NotMonotoneError(ImplausibleResultError):
    """More work that takes less time."""


ROUNDING = 1e-9


def check(time: Any, flops: Any, peak: float, what: str = "") -> None:
    """Raise the alarm that predicted times [s] of so many FLOPs at so high a peak [FLOP/s] give cause for."""
    time, flops = np.asarray(time, float), np.asarray(flops, float)
    if not np.all(np.isfinite(time) & (time > 0)):
        raise NotPositiveError(f"{what}: a predicted time of {_first(time, ~(np.isfinite(time) & (time > 0)))} s")
    rate = flops / time
    if np.any(rate > peak * (1 + ROUNDING)):
        raise AbovePeakError(f"{what}: {_first(rate, rate > peak) / 1e12:.4g} TFLOP/s predicted, the peak is {peak / 1e12:.4g}")


def efficiency(share: Any, what: str = "") -> None:
    """Raise if a share of a peak is outside (0, 1]."""
    share = np.asarray(share, float)
    wrong = ~((share > 0) & (share <= 1 + ROUNDING))
    if np.any(wrong):
        raise EfficiencyError(f"{what}: an efficiency of {_first(share, wrong):.4g}, outside (0, 1]")


def check_slowdown(slowed: Any, what: str = "") -> None:
    """Raise if something takes no time, or less than at the speed of light: `slowed` is how many times as long it takes [1]."""
    slowed = np.asarray(slowed, float)
    if not np.all(np.isfinite(slowed) & (slowed > 0)):
        raise NotPositiveError(f"{what}: {_first(slowed, ~(np.isfinite(slowed) & (slowed > 0)))} times as long as at the speed of light")
    efficiency(1 / slowed, what)


def monotone(time: Any, what: str = "") -> None:
    """Raise if times [s], in the order of growing work, ever fall."""
    time = np.asarray(time, float)
    falls = np.diff(time) < -ROUNDING * time[:-1]
    if np.any(falls):
        at = int(np.argmax(falls))
        raise NotMonotoneError(f"{what}: {time[at]:.4g} s, then {time[at + 1]:.4g} s for more work")


def _first(values: np.ndarray, which: np.ndarray) -> float:
    return float(values[which].flat[0])
