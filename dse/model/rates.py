"""1 / (peak * efficiency) of every term of a layer's time, as a constant and one factor for each swept axis.

A rate is a product of numbers of the description, so its inverse is a product of factors, one for each axis that varies one of these
numbers. The terms of a layer's time under one execution, in the order of the last axis of every stacked array:

    DENSE_FLOPS      dense FLOPs    / (peak * gain * E)   zero where the run has no gain cap
    STORED_FLOPS     stored FLOPs   / (peak * E)          what is stored has to be worked through
    METADATA_BYTES   metadata bytes / decode              zero where the run has no decoder with a rate of its own
    TRAFFIC          bytes          / bandwidth           of the outermost memory; then a term for each inner memory that counts

The first two are those of the compute unit; `dse.model.gain` says what they are and how they combine.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

import numpy as np
from jaxtyping import Bool, Float

from dse.model.executions import Execution
from dse.schema.accelerator import Accelerator

DENSE_FLOPS, STORED_FLOPS, METADATA_BYTES, TRAFFIC = range(4)
UNIT_TERMS = METADATA_BYTES  # number of terms of the compute unit: dense and stored FLOPs


@dataclass(frozen=True, eq=False)
class AxisFactor:
    """What one axis multiplies the inverse rates by.

    `values`: the values of the axis. `numbers`: one pair for the axis itself and one for each number that a link derives from it: a mask of
    the rates that contain the number, and its value at each value of the axis. The factor is expanded for a part of the values at a time,
    because an axis may have millions.
    """

    values: Float[np.ndarray, "value"]
    numbers: Sequence[tuple[Bool[np.ndarray, "execution term"], Float[np.ndarray, "value"]]]

    @property
    def depends(self) -> Bool[np.ndarray, "execution term"]:
        """Which rates depend on the axis."""
        return np.any([mask for mask, _ in self.numbers], axis=0)

    def at(self, part: slice | np.ndarray = slice(None)) -> Float[np.ndarray, "execution term value"]:
        return reduce(mul, (np.where(mask[:, :, None], 1 / numbers[part], 1.0) for mask, numbers in self.numbers))

    @property
    def extremes(self) -> Float[np.ndarray, "execution term extreme"]:
        """The factor at some values of the axis, among them those at which the quotient of any two rates is largest."""
        if len(self.numbers) == 1:  # the quotients are monotonic
            values = self.numbers[0][1]
            return self.at(np.array([values.argmin(), values.argmax()]))
        combinations = np.unique(np.stack([mask.ravel() for mask, _ in self.numbers]), axis=1).T
        logarithms = [np.log(numbers) for _, numbers in self.numbers]
        distinct = [sum(log for used, log in zip(row, logarithms, strict=True) if used) * np.ones(len(self.values)) for row in combinations]
        pairs = [(first, second) for first in range(len(distinct)) for second in range(first)]
        at = [extreme for a, b in pairs for extreme in ((distinct[a] - distinct[b]).argmin(), (distinct[a] - distinct[b]).argmax())]
        return self.at(np.unique(np.array([0, *at])))


def inverse_rates(executions: Sequence[Execution], accelerator: Accelerator) -> Float[np.ndarray, "execution term"]:
    """1 / (peak * efficiency) of each term on one accelerator [s/FLOP or s/B]; 0 for a term without a rate, which takes no time."""
    return factored_inverse_rates(executions, accelerator, {})[0]


def factored_inverse_rates(
    executions: Sequence[Execution], accelerator: Accelerator, axes: Mapping[str, np.ndarray]
) -> tuple[Float[np.ndarray, "execution term"], list[AxisFactor]]:
    """The inverse rates without the numbers that change with `axes` (values by dotted path), and the factor of each axis."""
    used = rate_paths(executions)
    linked = {path: _factor_link(accelerator, path, axes) for path in accelerator.links.dependents(axes) if path in used}
    constant = np.zeros((len(executions), len(executions[0].rates)))
    uses = {path: np.zeros(constant.shape, bool) for path in [*axes, *linked]}
    for e, execution in enumerate(executions):
        for term, paths in enumerate(execution.rates):
            if paths is not None:
                numbers = [linked[path].constant if path in linked else accelerator.value(path) for path in paths if path not in axes]
                constant[e, term] = 1 / np.prod(numbers)
                for path in paths:
                    if path in uses:
                        uses[path][e, term] = True
    followers = {axis: [(uses[path], link.by_axis[axis]) for path, link in linked.items() if axis in link.by_axis] for axis in axes}
    return constant, [AxisFactor(values, [(uses[axis], values), *followers[axis]]) for axis, values in axes.items()]


@dataclass(frozen=True, eq=False)
class _LinkFactors:
    """A linked number as a constant times a function of each axis that it depends on."""

    constant: float
    by_axis: Mapping[str, Float[np.ndarray, "value"]]


def _factor_link(accelerator: Accelerator, path: str, axes: Mapping[str, np.ndarray]) -> _LinkFactors:
    """The factors of a linked number that is a product of functions of one axis each (`Links.joined` says which are not)."""
    links, sources = accelerator.links, [axis for axis in axes if axis in accelerator.links.sources(path, axes)]

    def evaluate(values: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.asarray(links.evaluate(values, accelerator.value)[path], float)

    if len(sources) == 1:
        return _LinkFactors(1.0, {sources[0]: evaluate({axis: axes[axis] for axis in sources})})
    # f(x, y) = f(x, y0) f(x0, y) / f(x0, y0), with x0 and y0 of the base, so that parts of an axis have the same factors as the whole axis.
    reference = {axis: np.asarray(accelerator.base.value(axis), float) for axis in sources}
    constant = float(evaluate(reference)) ** (1 - len(sources))
    return _LinkFactors(constant, {axis: evaluate(reference | {axis: axes[axis]}) for axis in sources})


def rate_paths(executions: Iterable[Execution]) -> set[str]:
    """Every dotted path of the description that some rate depends on."""
    return {path for execution in executions for paths in execution.rates for path in paths or ()}
