"""Pareto fronts, hypervolumes and knees of arrays [point, objective] in which every objective is minimised.

A point dominates another one if it is nowhere worse and somewhere better. All numbers are finite. Of many points, `select_candidates`
first selects those that may be on the front, without comparing all with each other: a point that another one dominates in the exact numbers
is not on the front, however numbers are rounded.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

Points = Float[np.ndarray, "point objective"]

BLOCK = 256  # points that are compared with a front at once: their comparisons stay in the cache
SIGNIFICANT_BITS = {8: 40, 4: 20, 2: 8}  # by the bytes of the type of a number: differences in the remaining bits are rounding
BUCKETS = 2**16  # of a filter, which then stays in the cache
MAX_EDGES = 1024  # of the buckets along one objective
SAMPLE = 20_000  # points whose front fills a filter
MAX_CANDIDATES = 100_000  # so few points are not filtered
CHUNK = 2**17  # points that are filtered at once: they stay in the cache


def significant_bits(dtype: np.dtype) -> int:
    """Number of bits of a type that are not rounding: relative differences of 1e-12 in float64 or 1e-6 in float32 are."""
    return SIGNIFICANT_BITS.get(dtype.itemsize, 40) if dtype.kind == "f" else 40


def round_to_bits(points: np.ndarray, bits: int | np.ndarray = 40) -> np.ndarray:
    """Round to a number of significant bits, one for all or one for each objective."""
    mantissa, exponent = np.frexp(points)
    scale = np.exp2(bits)
    mantissa *= scale
    return np.ldexp(np.rint(mantissa, out=mantissa) / scale, exponent)


def nondominated(points: Points, bits: int | np.ndarray = 40) -> Bool[np.ndarray, " point"]:
    """Which points are on the Pareto front.

    Numbers with equal first `bits` significant bits are equal, so that no point is on the front for a difference that is rounding.
    Of points that are equal in that sense, the first in lexicographic order of the exact numbers is on the front, with all its exact
    duplicates. So the front of the fronts of any parts is the front of the whole.
    """
    rounded = round_to_bits(points, bits)
    on_front, group = _exactly_nondominated(rounded)
    shared = np.flatnonzero(on_front & (np.bincount(group)[group] > 1 if len(points) else False))
    if len(shared) and (rounded[shared] != points[shared]).any():
        order = shared[np.lexsort((*points[shared].T[::-1], group[shared]))]
        is_first = np.concatenate([[True], np.diff(group[order]) > 0])
        representatives = points[order[is_first]][np.cumsum(is_first) - 1]
        on_front[order] = (points[order] == representatives).all(axis=1)
    return on_front


def _exactly_nondominated(points: Points) -> tuple[Bool[np.ndarray, " point"], Int[np.ndarray, " point"]]:
    """Which points no other one dominates, equal ones included, and a number that equal points share.

    O(n log n) up to three objectives: for two a running minimum (Kung, Luccio, Preparata 1975, J. ACM 22(4)), for three a staircase
    that grows; for more, blocks of points are compared with the front so far.
    """
    order = np.lexsort(points.T[::-1])
    ordered = points[order]
    is_first = np.ones(len(points), bool)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    on_front = _FILTERS.get(points.shape[1], _filter_by_blocks)(ordered[is_first])
    group = np.empty(len(points), int)
    group[order] = np.cumsum(is_first) - 1
    return on_front[group], group


def _filter_1d(points: Points) -> Bool[np.ndarray, " point"]:
    return np.arange(len(points)) == 0


def _filter_2d(points: Points) -> Bool[np.ndarray, " point"]:
    """Distinct points by ascending x, then y: one is on the front if it is lower than all before it."""
    lowest = np.minimum.accumulate(points[:, 1])
    return np.concatenate([[True], points[1:, 1] < lowest[:-1]])


def _filter_3d(points: Points) -> Bool[np.ndarray, " point"]:
    """Distinct points in lexicographic order: one is on the front unless the staircase of those before it, seen along x, covers it."""
    stairs, on_front = Staircase(), np.zeros(len(points), bool)
    for number, (y, z) in enumerate(points[:, 1:].tolist()):
        if not stairs.covers(y, z):
            stairs.add(y, z)
            on_front[number] = True
    return on_front


def _filter_by_blocks(points: Points) -> Bool[np.ndarray, " point"]:
    """Distinct points with any number of objectives.

    A point has a larger sum of ranks than any point that dominates it, so in ascending order of that sum the front only grows.
    """
    ranks = np.array([np.unique(column, return_inverse=True)[1] for column in points.T])
    order = ranks.sum(axis=0).argsort(kind="stable")
    front = order[:0]
    for start in range(0, len(order), BLOCK):
        candidates = order[start : start + BLOCK]
        for block in range(0, len(front), BLOCK):
            candidates = candidates[~_dominated(points[candidates], points[front[block : block + BLOCK]])]
        front = np.concatenate([front, candidates[~_dominated(points[candidates], points[candidates])]])
    return np.isin(np.arange(len(points)), front)


def _dominated(points: Points, others: Float[np.ndarray, "other objective"]) -> Bool[np.ndarray, " point"]:
    """Which points some other point dominates."""
    nowhere_worse = np.ones((len(points), len(others)), bool)
    somewhere_better = np.zeros_like(nowhere_worse)
    for values, other_values in zip(points.T, others.T, strict=True):
        nowhere_worse &= other_values <= values[:, None]
        somewhere_better |= other_values < values[:, None]
    return np.any(nowhere_worse & somewhere_better, axis=1)


_FILTERS = {1: _filter_1d, 2: _filter_2d, 3: _filter_3d}


class Staircase:
    """A Pareto front in two objectives to which points are added: x ascends, y descends."""

    def __init__(self) -> None:
        self.x: list[float] = []
        self.y: list[float] = []

    def covers(self, x: float, y: float) -> bool:
        """Whether some point of the front is nowhere worse than (x, y)."""
        index = bisect_right(self.x, x)
        return index > 0 and self.y[index - 1] <= y

    def add(self, x: float, y: float, right: float = 0.0, top: float = 0.0) -> float:
        """Add a point that is not covered; returns the area that the front gains below and left of (right, top)."""
        start, stop = bisect_left(self.x, x), bisect_right(self.x, x)
        left, ceiling, gain = x, self.y[stop - 1] if stop else top, 0.0
        while stop < len(self.x) and self.y[stop] >= y:
            gain += (self.x[stop] - left) * (ceiling - y)
            left, ceiling, stop = self.x[stop], self.y[stop], stop + 1
        self.x[start:stop], self.y[start:stop] = [x], [y]
        end = self.x[start + 1] if start + 1 < len(self.x) else right
        return gain + (end - left) * (ceiling - y)


def hypervolume(points: Points, reference: Float[np.ndarray, " objective"]) -> float:
    """Volume between the reference point and the points that it is dominated by (Zitzler and Thiele 1998), exactly.

    Points beyond the reference add nothing. O(n log n) up to three objectives; for more, slices along the first objective of what
    each point adds alone (While, Bradstreet, Barone 2012, IEEE Trans. Evol. Comput. 16(1)), which grows fast with their number.
    """
    inside = points[(points < reference).all(axis=1)]
    if not len(inside):
        return 0.0
    front = inside[_exactly_nondominated(inside)[0]]
    front = front[np.lexsort(front.T[::-1])]
    return _VOLUMES.get(front.shape[1], _volume_by_slices)(front, reference)


def _volume_1d(front: Points, reference: Float[np.ndarray, " objective"]) -> float:
    return float(reference[0] - front[0, 0])


def _volume_2d(front: Points, reference: Float[np.ndarray, " objective"]) -> float:
    """Area in two objectives: by ascending x, each point adds a rectangle from its x to the reference and from its y to the previous y."""
    above = np.concatenate([reference[1:], front[:-1, 1]])
    return float(((reference[0] - front[:, 0]) * (above - front[:, 1])).sum())


def _volume_3d(front: Points, reference: Float[np.ndarray, " objective"]) -> float:
    """Volume in three objectives: by ascending x, each point adds an area in the plane of y and z, times its depth to the reference."""
    stairs, (depth, right, top) = Staircase(), map(float, reference)
    return sum((depth - x) * stairs.add(y, z, right, top) for x, y, z in front.tolist() if not stairs.covers(y, z))


def _volume_by_slices(front: Points, reference: Float[np.ndarray, " objective"]) -> float:
    """Volume in more objectives: by ascending first objective, each point adds the new volume in the others, times its depth."""
    volume = 0.0
    for number, point in enumerate(front):
        shared = np.maximum(front[:number, 1:], point[1:])
        alone = float(np.prod(reference[1:] - point[1:])) - hypervolume(shared, reference[1:])
        volume += float(reference[0] - point[0]) * alone
    return volume


_VOLUMES = {1: _volume_1d, 2: _volume_2d, 3: _volume_3d}


def knee(front: Points) -> int:
    """Index of the point with the smallest sum of objectives, each scaled from 0 (best of the front) to 1 (worst); the first of several.

    With two objectives it is the point farthest below the line through the ends of the front (Das 1999, Struct. Optim. 18; with more,
    below the plane through the unit vectors). A front that bulges the other way has its knee at an end.
    """
    low, span = front.min(axis=0), np.ptp(front, axis=0)
    return int(((front - low) / np.where(span > 0, span, 1.0)).sum(axis=1).argmin())


@dataclass(frozen=True)
class RankFilter:
    """Lookup table of the values that a front reaches, over buckets that hold about equally many points.

    `edges` are the lower ends of all buckets but the first, by objective without the last. A point is dominated if another one is in a
    lower bucket of each of these objectives, and not higher in the last.
    """

    edges: tuple[Float[np.ndarray, " edge"], ...]
    lowest: Float[np.ndarray, "..."]

    @classmethod
    def from_sample(cls, sample: Float[np.ndarray, "point objective"]) -> "RankFilter":
        """The filter of the front of some points, whose buckets are their quantiles."""
        others = sample.shape[1] - 1
        size = min(MAX_EDGES, int(BUCKETS ** (1 / max(1, others))))
        quantiles = np.linspace(0, 1, size)
        edges = tuple(np.unique(np.quantile(column, quantiles, method="lower")) for column in sample.T[:-1])
        front = sample[nondominated(sample)]
        lowest = np.full([len(each) + 1 for each in edges], np.inf)
        above = np.array([np.searchsorted(each, column, side="right") + 1 for each, column in zip(edges, front.T[:-1], strict=True)])
        inside = (above < np.reshape(lowest.shape, (-1, 1))).all(axis=0)
        np.minimum.at(lowest, tuple(above[:, inside]), front[inside, -1])
        for axis in range(others):
            lowest = np.minimum.accumulate(lowest, axis=axis)
        return cls(edges, lowest)

    def select(self, columns: Sequence[Float[np.ndarray, " point"]]) -> Int[np.ndarray, " selected"]:
        """Indices of the points that may be on the front."""
        bucket = tuple(np.searchsorted(each, column, side="right") for each, column in zip(self.edges, columns[:-1], strict=True))
        return np.flatnonzero(~(self.lowest[bucket] <= columns[-1]))


def select_candidates(columns: Sequence[Float[np.ndarray, " point"]]) -> Int[np.ndarray, " candidate"]:
    """Indices of the points that may be on the front, in ascending order; the columns are minimised objectives without NaN.

    Points are compared with the front of a sample of those that are left, each time with another objective as the last one.
    """
    count, selected = len(columns), None
    for turn in range(2 * count if count > 1 else 0):
        left = len(columns[0] if selected is None else selected)
        if left <= MAX_CANDIDATES:
            break
        order = [(turn + 1 + number) % count for number in range(count)]
        parts = [slice(start, start + CHUNK) for start in range(0, left, CHUNK)]
        chunks = parts if selected is None else [selected[part] for part in parts]
        sample = slice(None, None, left // SAMPLE) if selected is None else selected[:: left // SAMPLE]
        table = RankFilter.from_sample(np.stack([columns[number][sample] for number in order], axis=-1))
        remaining = [table.select([columns[number][chunk] for number in order]) for chunk in chunks]
        selected = np.concatenate([_indices(chunk, inside) for chunk, inside in zip(chunks, remaining, strict=True)])
    return np.arange(len(columns[0])) if selected is None else selected


def _indices(chunk: slice | Int[np.ndarray, " point"], inside: Int[np.ndarray, " selected"]) -> Int[np.ndarray, " selected"]:
    """Indices of some members of a chunk, which is a range or a list of indices."""
    return chunk.start + inside if isinstance(chunk, slice) else chunk[inside]
