"""How far a unit speeds up a pattern: by dense work / stored work, and at most by the `gain` of its run.

    compute time = dense FLOPs / (peak * g * E)                                     g = min(gain, dense FLOPs / stored FLOPs)
                 = max(dense FLOPs / (peak * gain * E), stored FLOPs / (peak * E))

The second line is what is computed: two terms of work, each with a rate of its own, of which the slower one sets the time. A run without
`gain` has the second term alone. This module has the work and the rate of the first term, and how the terms combine; stored FLOPs are
those of `dse.model.work`. Under the fidelity `calibrated`, both terms are multiplied by the slowdown of the kernel.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeVar

import numpy as np

from dse.networks.layers import PerLayer
from dse.schema.unit_run import Run

Times = TypeVar("Times")  # seconds, as arrays of NumPy or JAX


def capped_flops(dense_flops: PerLayer, column_share: PerLayer, run: Run) -> PerLayer:
    """FLOPs that `gain` applies to [FLOP]: those of the dense product of the columns that the unit reads; 0 without `gain`.

    `column_share`: the columns that the unit reads over those of the layer: below 1 where V:N:M is gathered, above 1 for an expanded k.
    """
    return np.zeros(len(dense_flops)) if run.gain is None else dense_flops * column_share


def capped_rate(stored_rate: tuple[str, ...], run: Run, run_path: str) -> tuple[str, ...] | None:
    """The numbers whose product is the rate of these FLOPs, by dotted path: `gain` times that of stored FLOPs; None without `gain`."""
    return None if run.gain is None else (*stored_rate, f"{run_path}.gain")


def compute_time(times: Sequence[Times], larger: Callable[[Times, Times], Times]) -> Times:
    """Time of the unit [s]: of its terms (capped and stored FLOPs), the slower one sets it. `larger`: the elementwise maximum.

    `dse.model.axis_dependence` and `dse.model.piecewise_linear` rely on this being a maximum.
    """
    return reduce(larger, times)
