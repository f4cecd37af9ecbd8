"""The share of a network's saliency that patterns keep, layer by layer, with one layer in memory at a time.

The share of each layer is normalised by the layer's own saliency, and layers count by their weights: the scale of a layer does not matter.
Every pruned layer has the same sparsity. Memory is bounded by the largest layer: about 16 bytes for each of its weights.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from dse.accuracy.retained import retained_saliency
from dse.base.errors import InputError, ProblemCollector
from dse.sparsity.kinds import UNSTRUCTURED
from dse.sparsity.mask import check_matrix_size
from dse.sparsity.pattern import Pattern
from dse.sparsity.pruned_pattern import PrunedPattern

GRID = np.linspace(0.0, 1.0, 1001)  # sparsities at which unstructured pruning is evaluated

Saliency = Float[np.ndarray, "m k"]


@dataclass(frozen=True)
class RetainedShares:
    """Shares of the saliency that are kept [1]: by each request, and by unstructured pruning at each sparsity of `grid`.

    `misfits` says of each pattern that does not fit every layer why; its requests have no share (NaN).
    """

    requests: tuple[PrunedPattern, ...]
    shares: Float[np.ndarray, " request"]
    grid: Float[np.ndarray, " sparsity"]
    unstructured: Float[np.ndarray, " sparsity"]
    misfits: Mapping[Pattern, str] = field(default_factory=dict)

    def equivalent_sparsity(self, request: PrunedPattern) -> float:
        """The sparsity [1] at which unstructured pruning keeps the same share of the saliency."""
        if request.pattern == UNSTRUCTURED:
            return request.sparsity
        share = self.shares[self.requests.index(request)]
        return float(np.interp(-share, -self.unstructured, self.grid))


def retained_shares(layers: Iterable[tuple[float, Saliency]], requests: Sequence[PrunedPattern]) -> RetainedShares:
    """The shares that patterns keep of the saliency of layers, each given with the number of weights that it counts for.

    A pattern with blocks larger than a layer has no share. Raises InputError with every layer without any saliency.
    """
    grid = np.unique(np.append(GRID, [request.sparsity for request in requests]))
    sums, unstructured, weights = np.zeros(len(requests)), np.zeros(len(grid)), 0.0
    problems, misfits = ProblemCollector(), dict[Pattern, str]()
    for count, saliency in layers:
        misfits = _find_misfits(saliency, requests) | misfits
        with problems.collect():
            layer_shares, layer_unstructured = _layer_shares(saliency, requests, grid)
            sums, unstructured, weights = sums + count * layer_shares, unstructured + count * layer_unstructured, weights + count
    problems.raise_if_any()
    return RetainedShares(tuple(requests), sums / weights, grid, np.minimum.accumulate(unstructured / weights), misfits)


def _find_misfits(saliency: Saliency, requests: Sequence[PrunedPattern]) -> dict[Pattern, str]:
    """The patterns that no mask of a layer has, each with the reason."""
    misfits = dict[Pattern, str]()
    for pattern in dict.fromkeys(request.pattern for request in requests):
        try:
            check_matrix_size(pattern, *saliency.shape)
        except InputError as error:
            misfits[pattern] = error.problems[0].message
    return misfits


def _layer_shares(
    saliency: Saliency, requests: Sequence[PrunedPattern], grid: Float[np.ndarray, " sparsity"]
) -> tuple[Float[np.ndarray, " request"], Float[np.ndarray, " sparsity"]]:
    total = float(saliency.sum(dtype=np.float64))
    if not total > 0:
        raise InputError("all weights of a layer are zero", "give the weights of the dense network")
    unstructured = retained_saliency(saliency, UNSTRUCTURED, list(grid)) / total
    shares, misfits = np.full(len(requests), np.nan), _find_misfits(saliency, requests)
    for pattern in dict.fromkeys(request.pattern for request in requests if request.pattern not in misfits):
        places = [place for place, request in enumerate(requests) if request.pattern == pattern]
        sparsities = [requests[place].sparsity for place in places]
        bound = unstructured[np.searchsorted(grid, sparsities)]
        shares[places] = np.minimum(retained_saliency(saliency, pattern, sparsities) / total, bound)
    return shares, unstructured
