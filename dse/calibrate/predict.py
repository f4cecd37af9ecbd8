"""What a fitted kernel would take: the `calibrated` fidelity of one product, with its alarms."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dse.calibrate.measured_launches import asked
from dse.model.efficiency import assertions
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelLaunches, Shape
from dse.schema.accelerator import Accelerator
from dse.sparsity.grammar import parse


def seconds(
    device: Accelerator,
    fitted: KernelModel,
    shapes: Sequence[Shape],
    pattern: str,
    density: float | None = None,
    row_spread: float | None = None,
) -> np.ndarray:
    """Time [s] of `fitted` on `device`, which need not be the one that it was fitted on, for each (m, k, n).

    `density` where the pattern leaves it open; `row_spread`: standard deviation of the nonzeros in a row over their mean, from
    a trace (default: random). Raises an ImplausibleResultError for a prediction that can't be true.
    """
    known = parse(pattern)
    kept = density if density is not None else known.density
    assert kept is not None, f"'{pattern}' may keep any fraction: say which"
    launches = asked(replace(fitted.key, device=device.name), device, shapes, known, kept)
    if row_spread is not None:
        launches = replace(launches, spread=np.full(len(shapes), row_spread))
    return checked(fitted, launches)


def checked(fitted: KernelModel, launches: KernelLaunches) -> np.ndarray:
    """Predicted times [s], after the alarms have been heard."""
    time, what = fitted.seconds(launches), str(fitted.key)
    assertions.check(time, launches.flops, launches.rates.peak, what)
    assertions.efficiency(np.maximum(launches.flops / launches.rates.peak, 1e-300) / time, what)
    return time


def probe(fitted: KernelModel, launches: KernelLaunches) -> None:
    """Double each size of a launch in turn, many times: raises an ImplausibleResultError if the time ever falls."""
    for name in ("m", "k", "n"):
        grown = launches.take(np.zeros(12, int))
        steps = getattr(grown, name) * 2.0 ** np.arange(-4, 8)
        bytes_too = grown.weight_bytes * (1 if name == "n" else 2.0 ** np.arange(-4, 8))
        larger = replace(grown, **{name: np.ceil(steps)}, weight_bytes=bytes_too)
        assertions.monotone(checked(fitted, larger), f"{fitted.key}, growing {name}")
