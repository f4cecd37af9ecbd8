"""Find the layers whose latency depends on two rates only, up to constants, as that of one unit and one memory does."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float

from dse.model.piecewise_linear import PiecewiseLinear
from dse.model.roofline import NetworkWork

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
    legal: Bool[np.ndarray, "layer execution"]

    def piecewise_linear(self, layers: Bool[np.ndarray, "layer"]) -> PiecewiseLinear | None:
        """The latency of some of its layers as a function of u and v, if that is evaluated sooner than their sum."""
        legal = self.legal[layers]
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
