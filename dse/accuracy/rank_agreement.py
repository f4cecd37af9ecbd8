"""Whether estimates put patterns of equal sparsity in the order of their measured accuracies: Kendall's tau."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dse.accuracy.interval import Interval
from dse.accuracy.published_points import PublishedGrid
from dse.accuracy.validate import Case

SAME_SPARSITY = 1e-9


@dataclass(frozen=True)
class RankAgreement:
    """Pairs of patterns at equal sparsity that the estimate puts in the measured order, and in the opposite one."""

    concordant: int
    discordant: int

    @property
    def pairs(self) -> int:
        return self.concordant + self.discordant

    @property
    def tau(self) -> float:
        """Kendall's tau over the pairs that differ; NaN without any."""
        return (self.concordant - self.discordant) / self.pairs if self.pairs else np.nan


@dataclass(frozen=True)
class _Ranked:
    """A pattern of a grid; `measured` is the 90% interval of its accuracy."""

    sparsity: float
    equivalent_sparsity: float
    loss: float
    measured: Interval


def rank_agreement(cases: Sequence[Case], distinct: bool = False) -> RankAgreement:
    """Order of patterns at equal sparsity within each grid, unstructured pruning included where its curve was measured there.

    `distinct`: only pairs whose measured 90% intervals do not overlap; values without an interval are exact.
    """
    agrees = []
    for grid in dict.fromkeys(case.grid for case in cases):
        own = [case for case in cases if case.grid is grid]
        agrees += [
            (a.equivalent_sparsity < b.equivalent_sparsity) == (a.loss < b.loss)
            for a, b in combinations([*map(_rank, own), *_rank_unstructured(grid, own)], 2)
            if _are_comparable(a, b) and not (distinct and _overlap(a.measured, b.measured))
        ]
    return RankAgreement(sum(agrees), len(agrees) - sum(agrees))


def _rank(case: Case) -> _Ranked:
    return _Ranked(case.sparsity, case.equivalent_sparsity, case.curve.loss(case.point.value), case.point.interval)


def _rank_unstructured(grid: PublishedGrid, cases: Sequence[Case]) -> Iterator[_Ranked]:
    """Unstructured pruning at the sparsities of the cases."""
    for sparsity in sorted({case.sparsity for case in cases}):
        if grid.curve.reaches(sparsity):
            value, (low, high) = grid.curve.value(sparsity), grid.curve.measured.interval(sparsity)
            measured = Interval(value, value) if np.isnan(low) else Interval(float(low), float(high))
            yield _Ranked(sparsity, sparsity, grid.curve.loss(value), measured)


def _are_comparable(a: _Ranked, b: _Ranked) -> bool:
    """Whether two patterns of equal sparsity differ, as measured and as estimated."""
    return abs(a.sparsity - b.sparsity) < SAME_SPARSITY and a.loss != b.loss and a.equivalent_sparsity != b.equivalent_sparsity


def _overlap(a: Interval, b: Interval) -> bool:
    return a.low <= b.high and b.low <= a.high
