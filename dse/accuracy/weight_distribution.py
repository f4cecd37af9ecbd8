"""A distribution of weights, for networks whose weights are not at hand.

    w_ij = exp(row_spread a_i + column_spread b_j) z_ij,    a, b, z independent standard normal

Assumed: the family, and that weights are independent except through the scales of their row and column. Published masks of magnitude
pruning show the spreads: if some rows have larger weights, more of their weights survive, so the nonzeros of a row vary more than those of
independent weights. `TYPICAL` is fitted to that excess (`scale_spread`) in the masks of ResNet-50 and of the Transformer at 50% sparsity
(Deep Learning Matrix Collection; Gale et al. 2020).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.stats import norm

from dse.accuracy.saliency import SaliencyKind
from dse.base.errors import InputError

NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(41)  # quadrature over a standard normal
MAX_SPREAD = 4.0
MAX_SAMPLE_ROWS, MAX_SAMPLE_COLUMNS = 512, 1024


@dataclass(frozen=True)
class WeightDistribution:
    """Spreads of the scales of rows and columns: standard deviations of their natural logarithm."""

    row_spread: float
    column_spread: float

    def sample(self, rows: int, columns: int, seed: int = 0) -> Float[np.ndarray, "rows columns"]:
        """A random matrix of weights in fp32."""
        generator = np.random.default_rng(seed)
        scales = (generator.standard_normal((size, 1)) for size in (rows, columns))
        row_scale, column_scale = (np.exp(spread * z) for spread, z in zip((self.row_spread, self.column_spread), scales, strict=True))
        return (generator.standard_normal((rows, columns)) * row_scale * column_scale.T).astype(np.float32)


TYPICAL = WeightDistribution(row_spread=0.107, column_spread=0.101)  # medians over the layers of both networks


def scale_spread(density: float, count_deviation: float, length: int) -> float:
    """The spread of the scales of rows whose nonzeros have this standard deviation after magnitude pruning.

    Args:
        density: share of the weights above the threshold [1].
        count_deviation: standard deviation of the nonzeros of a row.
        length: weights of a row.

    Returns:
        The spread [1]: 0 where nonzeros vary no more than independent ones do, at most `MAX_SPREAD`.
    """
    excess = (count_deviation / length) ** 2 - density * (1 - density) / length
    if excess <= 0:
        return 0.0

    def missing_variance(spread: float) -> float:
        densities = _row_densities(_threshold(density, spread), spread)
        return float(NODE_WEIGHTS @ densities**2 / NODE_WEIGHTS.sum() - density**2 - excess)

    return _root(missing_variance, MAX_SPREAD) if missing_variance(MAX_SPREAD) > 0 else MAX_SPREAD


def _root(function: Callable[[float], float], high: float) -> float:
    """Where a function that changes its sign between 0 and `high` is zero."""
    return float(cast(float, brentq(function, 0.0, high)))


def _row_densities(threshold: float, spread: float) -> Float[np.ndarray, " node"]:
    """Share of the weights above a threshold in rows of different scales."""
    return 2 * norm.sf(threshold * np.exp(-spread * NODES))


def _threshold(density: float, spread: float) -> float:
    """The magnitude above which this share of all weights is."""
    return _root(lambda t: float(NODE_WEIGHTS @ _row_densities(t, spread) / NODE_WEIGHTS.sum() - density), 1e6)


def sampled_layers(sizes: Iterable[tuple[float, int, int]], kind: SaliencyKind) -> Iterator[tuple[float, Float[np.ndarray, "m k"]]]:
    """Saliencies of typical layers of the given (number of weights, rows, columns); layers of the same shape share one sample.

    Raises InputError for `second_order`, which needs the inputs of the network.
    """
    if kind == "second_order":
        raise InputError("without weights there is no curvature", "give --weights, or take --saliency l1 or l2")
    counts: dict[tuple[int, int], float] = {}
    for count, rows, columns in sizes:
        shape = min(rows, MAX_SAMPLE_ROWS), min(columns, MAX_SAMPLE_COLUMNS)
        counts[shape] = counts.get(shape, 0.0) + count
    for (rows, columns), count in counts.items():
        magnitudes = np.abs(TYPICAL.sample(rows, columns))
        yield count, magnitudes if kind == "l1" else np.square(magnitudes)
