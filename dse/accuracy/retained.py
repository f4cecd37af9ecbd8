"""The saliency that the best masks of patterns keep, of a layer and of a network, at many sparsities at once.

The best mask has the largest sum of saliencies, as `dse.sparsity.pruning` finds it. Only its sum is needed here, so tiles are sorted once
for all sparsities, and no mask is stored.

Every pattern keeps exactly the share 1 - sparsity of the weights of the matrix: of the last tile a share is kept, and an incomplete
group of an N:M keeps its share of N. So patterns compare at equal sparsity, and a pattern that contains another keeps at least as much,
because its best mask is chosen from more masks. V:N:M and nested patterns are searched with padded edges; `retained_shares` bounds them
by unstructured pruning.

In a network, the share of each layer is normalised by the layer's own saliency, and layers count by their weights: the scale of a layer
does not matter. Every pruned layer has the same sparsity. One layer is in memory at a time: about 16 bytes for each of its weights.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from dse.base.errors import InputError, ProblemCollector
from dse.sparsity.hierarchy import Hierarchy, inner_density
from dse.sparsity.kinds import NM, UNSTRUCTURED, Block, Structured
from dse.sparsity.mask import check_matrix_size, split_into_tiles
from dse.sparsity.pattern import Pattern
from dse.sparsity.pruned_pattern import PrunedPattern
from dse.sparsity.pruning import best_mask

Saliency = Float[np.ndarray, "m k"]
PerSparsity = Float[np.ndarray, " sparsity"]

GRID = np.linspace(0.0, 1.0, 1001)  # sparsities at which unstructured pruning is evaluated


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


def retained_saliency(saliency: Saliency, pattern: Pattern, sparsities: Sequence[float]) -> PerSparsity:
    """The saliency that the best mask of `pattern` keeps at each sparsity; `sparsities` are those of the pattern where it fixes one.

    Raises InputError if the matrix is smaller than one block.
    """
    check_matrix_size(pattern, *saliency.shape)
    densities = 1 - np.asarray(sparsities, float)
    if isinstance(pattern, Block | Structured):
        return _retained_in_tiles(saliency, pattern, densities)
    if isinstance(pattern, NM) and pattern.v == 1:
        return np.full(len(densities), _retained_in_groups(saliency, pattern))
    if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block):
        inside = saliency * best_mask(saliency, pattern.inner)
        return _retained_in_tiles(inside, pattern.outer, np.minimum(densities / inner_density(pattern), 1.0))
    return np.full(len(densities), (saliency * best_mask(saliency, pattern)).sum(dtype=np.float64))


def _retained_in_tiles(saliency: Saliency, pattern: Block | Structured, densities: PerSparsity) -> PerSparsity:
    """The sums of the tiles with the largest mean saliency."""
    if isinstance(pattern, Structured):
        return largest_sums(saliency.sum(axis=1 if pattern.axis == "row" else 0, dtype=np.float64), densities)
    rows, columns = pattern.tile
    if pattern.tile == (1, 1):
        return largest_sums(saliency.ravel(), densities)
    sums = np.asarray(split_into_tiles(saliency, rows, columns).sum(axis=(1, 3), dtype=np.float64))
    if saliency.shape[0] % rows == 0 and saliency.shape[1] % columns == 0:
        return largest_sums(sums.ravel(), densities)
    sizes = np.outer(_tile_lengths(saliency.shape[0], rows), _tile_lengths(saliency.shape[1], columns))
    return _largest_sums_of_unequal(sums.ravel(), sizes.ravel(), densities)


def _tile_lengths(length: int, tile: int) -> Float[np.ndarray, " tile"]:
    """Rows (or columns) of the matrix in each tile."""
    return np.minimum(tile, length - np.arange(0, length, tile)).astype(float)


def largest_sums(values: Float[np.ndarray, " value"], densities: PerSparsity) -> PerSparsity:
    """The sum of the largest values that each density keeps, and of the share that it keeps of the next one."""
    ascending = np.sort(values)
    places = densities * len(values)
    counts = np.clip(np.floor(places + 1e-9), 0, len(values)).astype(int)  # decimals: 0.3 * 10 is a bit less than 3
    starts, position = np.unique(len(values) - counts, return_inverse=True)
    segments = np.add.reduceat(ascending, starts[starts < len(values)], dtype=np.float64) if (starts < len(values)).any() else np.zeros(0)
    suffix_sums = np.append(np.cumsum(segments[::-1])[::-1], np.zeros(len(starts) - len(segments)))
    following = ascending[np.maximum(len(values) - counts - 1, 0)]
    return suffix_sums[position] + np.clip(places - counts, 0, 1) * np.where(counts < len(values), following, 0)


def _largest_sums_of_unequal(sums: Float[np.ndarray, " tile"], sizes: Float[np.ndarray, " tile"], densities: PerSparsity) -> PerSparsity:
    """As `largest_sums`, of tiles with different numbers of weights."""
    order = np.argsort(-sums / sizes, kind="stable")
    ends, totals = np.append(0.0, np.cumsum(sizes[order])), np.append(0.0, np.cumsum(sums[order]))
    return np.interp(densities * ends[-1], ends, totals)


def _retained_in_groups(saliency: Saliency, pattern: NM) -> float:
    """The sum of the n largest of each group of m along the columns."""
    whole, rest = saliency.shape[1] // pattern.m * pattern.m, saliency.shape[1] % pattern.m
    groups, dropped = saliency[:, :whole].reshape(-1, pattern.m), pattern.m - pattern.n
    total = float(np.partition(groups, dropped, axis=1)[:, dropped:].sum(dtype=np.float64))
    if rest:
        descending = -np.sort(-saliency[:, whole:], axis=1)
        share = np.clip(pattern.density * rest - np.arange(rest), 0, 1)
        total += float((descending * share).sum(dtype=np.float64))
    return total
