"""What of a network's time depends on which axes of a grid: each part is worked out on the axes that it depends on, then broadcast.

A bandwidth x peak x decode grid so costs its distinct factors, not its product, up to the last sum. Executions that are never
the fastest on the grid are left out, and so are terms that never set a layer's time: what is left often depends on little. Where
it is many layers that depend on two rates, they are sorted and searched (`lines`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from dse.model.piecewise_linear import Lines
from dse.model.rate_pairs import Rate, pairs
from dse.model.terms import Distinct
from dse.schema.model_options import ResourceOverlap

WORTH = 4  # times as many designs as a part has of its own

Work = Float[np.ndarray, "layer execution term"]
Fixed = Float[np.ndarray, "layer execution"]


@dataclass(frozen=True, eq=False)
class LayerGroup:
    """Layers whose time depends on the same axes, and the executions that any of them may take, both by their numbers.

    `lines`: their time as a function of two inverse rates, where that is quicker than their sum; `rates`: which execution and term
    has each of the two.
    """

    axes: tuple[int, ...]
    executions: tuple[int, ...]
    work: Work
    fixed: Fixed | None  # time beside that of resources
    lines: Lines | None = None
    rates: tuple[Rate, ...] = ()
    preference: Int[np.ndarray, "layer execution"] | None = None  # ranks of the executions in a tie


def whole(layers: Distinct, axes: int) -> list[LayerGroup]:
    """All layers under all executions, on every axis."""
    executions = tuple(range(layers.work.shape[1]))
    return [LayerGroup(tuple(range(axes)), executions, layers.work, layers.fixed, preference=layers.preference)]


def parts(
    work: Work,
    fixed: Fixed | None,
    constant: Float[np.ndarray, "execution term"],
    factors: list[Any],
    overlap: ResourceOverlap,
    lengths: Sequence[int] | None = None,
) -> list[LayerGroup]:
    """The layers by the axes that their time depends on, fewest axes first; work and rates are as of `roofline` and `grid.Grid`.

    The times of the parts add up to that of all layers, on every design. A part whose own grid is hardly smaller than the
    whole one is worked out on that, with what depends on every axis. `lengths`: values on each axis, where the factors are those of its
    least and greatest value alone.
    """
    work = decisive(work, fixed, constant, factors, overlap)
    depends = dependence(work, factors)
    sizes = np.array([factor.shape[-1] for factor in factors] if lengths is None else lengths)
    depends[np.where(depends, sizes, 1).prod(axis=1) * WORTH > sizes.prod()] = True
    alike = pairs(work, constant, factors) if overlap == "full" and fixed is None else []
    found = []
    for key in np.unique(depends, axis=0):
        left = (depends == key).all(axis=1)
        for pair in alike:
            some = left & pair.layers
            if lines := pair.lines(some):
                found.append(replace(_part(key, work[some], None), lines=lines, rates=pair.rates))
                left &= ~some
        if left.any():
            found.append(_part(key, work[left], None if fixed is None else fixed[left]))
    return sorted(found, key=lambda part: (len(part.axes), part.axes))


def _part(axes: np.ndarray, work: Work, fixed: Fixed | None) -> LayerGroup:
    used = np.isfinite(work[:, :, 1]).any(axis=0)
    executions = tuple(np.flatnonzero(used).tolist())
    return LayerGroup(tuple(np.flatnonzero(axes).tolist()), executions, work[:, used], None if fixed is None else fixed[:, used])


def dependence(work: Work, factors: list[Any]) -> Bool[np.ndarray, "layer axis"]:
    """Which axes a layer's time may depend on: an axis of a single value, too, scales what it is about."""
    counts = (work > 0) & np.isfinite(work)
    scales = [(factor != 1).any(axis=-1) for factor in factors]
    return np.stack([(counts & scale).any(axis=(1, 2)) for scale in scales], axis=1) if factors else np.zeros((len(work), 0), bool)


def decisive(
    work: Work, fixed: Fixed | None, constant: Float[np.ndarray, "execution term"], factors: list[Any], overlap: ResourceOverlap
) -> Work:
    """The work without executions that another one beats, and (with full overlap) without terms that another outlasts, everywhere."""
    work = work.copy()
    for first, second in _pairs(work.shape[1]):
        ratio = _greatest(constant[second], constant[first], [(f[second], f[first]) for f in factors])
        with np.errstate(invalid="ignore"):
            most = np.where(work[:, second] > 0, work[:, second] * ratio, 0.0)
        beaten = np.all(most <= work[:, first], axis=1) & np.isfinite(work[:, second]).all(axis=1)
        beaten &= True if fixed is None else fixed[:, second] <= fixed[:, first]
        work[beaten, first] = 0.0
        work[beaten, first, 1] = np.inf
    for first, second in _pairs(work.shape[2]) if overlap == "full" else ():
        ratio = _greatest(constant[:, first], constant[:, second], [(f[:, first], f[:, second]) for f in factors])
        with np.errstate(invalid="ignore"):  # infinite work, or an infinite ratio
            work[:, :, first][work[:, :, first] * ratio <= work[:, :, second]] = 0.0
    return work


def _pairs(size: int) -> list[tuple[int, int]]:
    return [(first, second) for first in range(size) for second in range(size) if first != second]


def _greatest(above: np.ndarray, below: np.ndarray, factors: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The largest quotient of two inverse rates on the grid; infinite where the one below is never counted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = above / below
        for over, under in factors:
            ratio = ratio * (over / under).max(axis=-1)
    return np.where(below > 0, ratio, np.inf)
