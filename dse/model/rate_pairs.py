"""Which layers' times depend on two of the rates alone, up to constants, as those of one unit and one memory do."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dse.model.piecewise_linear import Lines

PAYS = 48  # executions of layers that take as long to add up as a search, or as a step of it, measured in both precisions

Rate = tuple[int, int]  # number of an execution and of a term of its work
Layers = Bool[np.ndarray, "layer"]


@dataclass(frozen=True, eq=False)
class Pair:
    """`rates`: execution and term of one inverse rate of each kind, u and v; `times`: what each execution takes by either [s] where the
    factors of all axes are 1, infinite where it is illegal."""

    layers: Layers
    rates: tuple[Rate, Rate]
    times: Float[np.ndarray, "2 layer execution"]

    def lines(self, layers: Layers) -> Lines | None:
        """The time of some of its layers, if that is found sooner than it is added up."""
        times = self.times[:, layers]
        size = np.isfinite(times[0]).sum()
        if size <= PAYS:
            return None
        lines = Lines.of(*times)
        return lines if size > PAYS * (1 + lines.table(np.dtype(float))[1]) else None


def pairs(work: Float[np.ndarray, "layer execution term"], constant: Float[np.ndarray, "execution term"], factors: list[Any]) -> list[Pair]:
    """The layers by their two rates; work and rates are as of `roofline` and `grid.Grid`."""
    scales = np.concatenate([np.ones((*constant.shape, 1)), *factors], axis=-1)
    _, first, kind = np.unique(scales.reshape(constant.size, -1), axis=0, return_index=True, return_inverse=True)
    legal = np.isfinite(work)
    times = np.where(legal, work, 0.0) * constant
    of_kind = np.stack([np.where(kind.reshape(constant.shape) == one, times, 0.0).max(axis=2) for one in range(len(first))])
    of_kind[:, ~legal.all(axis=2)] = np.inf
    uses = np.any((of_kind > 0) & np.isfinite(of_kind), axis=2)
    places = [divmod(int(place), constant.shape[1]) for place in first]
    found = ((u, v, uses[u] & uses[v] & (uses.sum(axis=0) == 2)) for u, v in combinations(range(len(first)), 2))
    return [Pair(layers, (places[u], places[v]), of_kind[[u, v]]) for u, v, layers in found if layers.any()]
