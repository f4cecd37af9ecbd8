"""1 / (peak * efficiency) of every term of a layer's time, as a constant and one factor for each swept axis.

A rate is a product of numbers of the description, so its inverse is a product of factors, one for each axis that varies one of these
numbers. The terms of a layer's time under one execution, in the order of the last axis of every stacked array:

    DENSE_FLOPS      dense FLOPs    / (peak * gain * E)   zero where the run has no gain cap
    STORED_FLOPS     stored FLOPs   / (peak * E)          what is stored has to be worked through
    METADATA_BYTES   metadata bytes / decode              zero where the run has no decoder with a rate of its own
    TRAFFIC          bytes          / bandwidth           of the outermost memory; then a term for each inner memory that counts

The compute time max(DENSE_FLOPS, STORED_FLOPS) is dense FLOPs / (peak * g * E) with g = min(gain, dense FLOPs / stored FLOPs).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from dse.model.executions import Execution
from dse.schema.accelerator import Accelerator

DENSE_FLOPS, STORED_FLOPS, METADATA_BYTES, TRAFFIC = range(4)


@dataclass(frozen=True, eq=False)
class AxisFactor:
    """Factor of one axis in the inverse rates: 1 / value where a rate depends on the axis, else 1.

    The factor is expanded for a part of the values at a time, because an axis may have millions.
    """

    depends: Bool[np.ndarray, "execution term"]
    values: Float[np.ndarray, "value"]

    def at(self, part: slice = slice(None)) -> Float[np.ndarray, "execution term value"]:
        return np.where(self.depends[:, :, None], 1 / self.values[part], 1.0)

    @property
    def extremes(self) -> Float[np.ndarray, "execution term extreme"]:
        """The factor at the smallest and at the largest value, between which all others lie."""
        return np.where(self.depends[:, :, None], 1 / np.array([self.values.min(), self.values.max()]), 1.0)


def inverse_rates(executions: Sequence[Execution], accelerator: Accelerator) -> Float[np.ndarray, "execution term"]:
    """1 / (peak * efficiency) of each term on one accelerator [s/FLOP or s/B]; 0 for a term without a rate, which takes no time."""
    return factored_inverse_rates(executions, accelerator, {})[0]


def factored_inverse_rates(
    executions: Sequence[Execution], accelerator: Accelerator, axes: Mapping[str, np.ndarray]
) -> tuple[Float[np.ndarray, "execution term"], list[AxisFactor]]:
    """The inverse rates without the numbers that `axes` (values by dotted path) vary, and the factor of each axis."""
    constant = np.zeros((len(executions), len(executions[0].rates)))
    depends = np.zeros((len(axes), *constant.shape), bool)
    for e, execution in enumerate(executions):
        for term, paths in enumerate(execution.rates):
            if paths is not None:
                constant[e, term] = 1 / np.prod([accelerator.value(path) for path in paths if path not in axes])
                depends[:, e, term] = [path in paths for path in axes]
    return constant, [AxisFactor(mask, values) for mask, values in zip(depends, axes.values(), strict=True)]


def rate_paths(executions: Iterable[Execution]) -> set[str]:
    """Every dotted path of the description that some rate depends on."""
    return {path for execution in executions for paths in execution.rates for path in paths or ()}
