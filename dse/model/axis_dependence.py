"""Split a network's layers by the grid axes that their latency depends on. Each group is evaluated on its own axes and then broadcast.

A bandwidth x peak x decode grid then costs the sum of its smaller grids, not their product. Executions that are never the fastest on the
grid are dropped first, and so are terms that never set a layer's time: what is left often depends on little. Groups of many layers that
depend on two rates are evaluated by a piecewise-linear sum (`dse.model.piecewise_linear`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float

from dse.base.array_types import AnyArray
from dse.model.piecewise_linear import PiecewiseLinear
from dse.model.roofline import NetworkWork
from dse.schema.model_options import ResourceOverlap

BREAK_EVEN = 48  # executions of layers that take as long to add up as a search, or as a step of it, measured in both precisions

RateIndex = tuple[int, int]  # index of an execution and of a term of its work


@dataclass(frozen=True, eq=False)
class RatePair:
    """Layers that depend on two rates u and v only.

    `rates`: an execution and a term that has each of the two; `times`: what each execution takes by either rate [s] where the factors of
    all axes are 1.
    """

    layers: Bool[np.ndarray, "layer"]
    rates: tuple[RateIndex, RateIndex]
    times: Float[np.ndarray, "2 layer execution"]
    legal: Bool[AnyArray, "layer execution"]

    def piecewise_linear(self, layers: Bool[np.ndarray, "layer"]) -> PiecewiseLinear | None:
        """The latency of some of its layers as a function of u and v, if that is evaluated sooner than their sum."""
        legal = np.asarray(self.legal[layers])
        size = legal.sum()
        if size <= BREAK_EVEN:
            return None
        by_u, by_v = self.times[:, layers]
        function = PiecewiseLinear.of_layers(by_u, by_v, legal)
        return function if size > BREAK_EVEN * (1 + function.table(np.dtype(float))[1]) else None


def layers_of_rate_pairs(
    network: NetworkWork, constant: Float[np.ndarray, "execution term"], factors: Sequence[Float[np.ndarray, "execution term _"]]
) -> list[RatePair]:
    """The layers by the two rates that they depend on; inverse rates are `constant` times one of `factors` for each axis."""
    scales = np.concatenate([np.ones((*constant.shape, 1)), *factors], axis=-1)
    _, first, kind = np.unique(scales.reshape(constant.size, -1), axis=0, return_index=True, return_inverse=True)
    times = np.where(network.legal_mask[:, :, None], network.work, 0.0) * constant
    by_kind = np.stack([np.where(kind.reshape(constant.shape) == one, times, 0.0).max(axis=2) for one in range(len(first))])
    uses = np.any(by_kind > 0, axis=2)
    indices = [divmod(int(index), constant.shape[1]) for index in first]
    pairs = ((u, v, uses[u] & uses[v] & (uses.sum(axis=0) == 2)) for u, v in combinations(range(len(first)), 2))
    return [RatePair(layers, (indices[u], indices[v]), by_kind[[u, v]], network.legal_mask) for u, v, layers in pairs if layers.any()]


LEAST_REDUCTION = 4  # a group has a grid of its own if that is at least so many times smaller

Rates = Float[np.ndarray, "execution term"]
Factors = Sequence[Float[np.ndarray, "execution term _"]]


@dataclass(frozen=True, eq=False)
class LayerGroup:
    """Layers whose latency depends on the same axes, and the executions that any of them may take, both by index.

    `piecewise_linear` is their latency as a function of two inverse rates, where that is quicker than their sum; `rates` says which
    execution and term has each of the two.
    """

    axes: tuple[int, ...]
    executions: tuple[int, ...]
    network: NetworkWork
    piecewise_linear: PiecewiseLinear | None = None
    rates: tuple[RateIndex, ...] = ()


def single_group(network: NetworkWork, axes: int) -> LayerGroup:
    """All layers under all executions, on every axis."""
    return LayerGroup(tuple(range(axes)), tuple(range(network.work.shape[1])), network)


def group_layers(
    network: NetworkWork, constant: Rates, factors: Factors, overlap: ResourceOverlap, lengths: Sequence[int] | None = None
) -> list[LayerGroup]:
    """Groups whose latencies add up to that of the network on every design, those of the fewest axes first.

    Inverse rates are `constant` times one of `factors` for each axis. A group whose own grid is hardly smaller than the whole one is
    evaluated on that, with what depends on every axis. `lengths`: how many values each axis has, where the factors are only those of its
    smallest and largest value.
    """
    network = drop_dominated(network, constant, factors, overlap)
    depends = axis_dependence(network, factors)
    sizes = np.array([factor.shape[-1] for factor in factors] if lengths is None else lengths)
    depends[np.where(depends, sizes, 1).prod(axis=1) * LEAST_REDUCTION > sizes.prod()] = True
    linear = overlap == "full" and network.overhead is None
    pairs = layers_of_rate_pairs(network, constant, factors) if linear else []
    groups = []
    for key in np.unique(depends, axis=0):
        remaining = (depends == key).all(axis=1)
        for pair in pairs:
            layers = remaining & pair.layers
            if function := pair.piecewise_linear(layers):
                groups.append(replace(_group(key, network, layers), piecewise_linear=function, rates=pair.rates))
                remaining &= ~layers
        if remaining.any():
            groups.append(_group(key, network, remaining))
    return sorted(groups, key=lambda group: (len(group.axes), group.axes))


def _group(axes: np.ndarray, network: NetworkWork, layers: np.ndarray) -> LayerGroup:
    used = network.legal_mask[layers].any(axis=0)
    overhead = None if network.overhead is None else network.overhead[layers][:, used]
    part = NetworkWork(network.work[layers][:, used], network.legal_mask[layers][:, used], overhead)
    return LayerGroup(tuple(np.flatnonzero(axes).tolist()), tuple(np.flatnonzero(used).tolist()), part)


def axis_dependence(network: NetworkWork, factors: Factors) -> Bool[np.ndarray, "layer axis"]:
    """Which axes a layer's latency may depend on; an axis of a single value counts, since its factor scales the latency."""
    counts = (network.work > 0) & network.legal_mask[:, :, None]
    scales = [(factor != 1).any(axis=-1) for factor in factors]
    depends = [(counts & scale).any(axis=(1, 2)) for scale in scales]
    return np.stack(depends, axis=1) if factors else np.zeros((len(network.work), 0), bool)


def drop_dominated(network: NetworkWork, constant: Rates, factors: Factors, overlap: ResourceOverlap) -> NetworkWork:
    """Drop, layer by layer, executions that another one beats on the whole grid, and (with full overlap) terms that another one exceeds."""
    work, legal, overhead = network.work.copy(), network.legal_mask.copy(), network.overhead
    for first, second in _ordered_pairs(work.shape[1]):
        ratio = _greatest_ratio(constant[second], constant[first], [(f[second], f[first]) for f in factors])
        with np.errstate(invalid="ignore"):
            largest = np.where(work[:, second] > 0, work[:, second] * ratio, 0.0)
        dominated = np.all(largest <= work[:, first], axis=1) & legal[:, first] & legal[:, second]
        dominated &= True if overhead is None else overhead[:, second] <= overhead[:, first]
        work[dominated, first], legal[dominated, first] = 0.0, False
    for first, second in _ordered_pairs(work.shape[2]) if overlap == "full" else ():
        ratio = _greatest_ratio(constant[:, first], constant[:, second], [(f[:, first], f[:, second]) for f in factors])
        with np.errstate(invalid="ignore"):  # no work at an infinite ratio
            work[:, :, first][work[:, :, first] * ratio <= work[:, :, second]] = 0.0
    return network._replace(work=work, legal=legal)


def _ordered_pairs(size: int) -> Iterator[tuple[int, int]]:
    return ((first, second) for first in range(size) for second in range(size) if first != second)


def _greatest_ratio(above: np.ndarray, below: np.ndarray, factors: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The largest quotient of two inverse rates on the grid; infinite where the one below takes no time."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = above / below
        for over, under in factors:
            ratio = ratio * (over / under).max(axis=-1)
    return np.where(below > 0, ratio, np.inf)
