"""Fronts, hypervolumes and knees of points [point, objective] of which every objective is minimised.

A point dominates another if it is nowhere worse and somewhere better. Numbers are finite.
"""

from bisect import bisect_left, bisect_right

import numpy as np

BLOCK = 256  # points that are held against a front at once: their comparisons stay in the cache


SIGNIFICANT = {8: 40, 4: 20, 2: 8}  # bits of a number that count, by the bytes it was computed in: what is beyond them is rounding


def significant_bits(dtype: np.dtype) -> int:
    """How many bits of a number of this type count: a relative difference of about 1e-12 in float64 and 1e-6 in float32 does not."""
    return SIGNIFICANT.get(dtype.itemsize, 40) if dtype.kind == "f" else 40


def rounded(points: np.ndarray, bits: int | np.ndarray = 40) -> np.ndarray:
    """Points with each number rounded to so many significant bits (one number for each objective, or one for all)."""
    mantissa, exponent = np.frexp(points)
    scale = np.exp2(bits)
    mantissa *= scale
    return np.ldexp(np.rint(mantissa, out=mantissa) / scale, exponent)


def nondominated(points: np.ndarray, bits: int | np.ndarray = 40) -> np.ndarray:
    """Which points [point, objective], all minimised, are on the front: no other one is nowhere worse and somewhere better.

    Numbers that are equal in their first `bits` significant bits are equal, so that no point is on the front for a difference that
    is rounding. Of points that are equal so, the first in lexicographic order of the exact numbers is kept, with all its exact equals.
    So the front of the fronts of any parts is the front of the whole.
    """
    coarse = rounded(points, bits)
    kept, number = _exactly_nondominated(coarse)
    shared = np.flatnonzero(kept & (np.bincount(number)[number] > 1 if len(points) else False))
    if len(shared) and (coarse[shared] != points[shared]).any():
        order = shared[np.lexsort((*points[shared].T[::-1], number[shared]))]
        first = np.concatenate([[True], np.diff(number[order]) > 0])
        representatives = points[order[first]][np.cumsum(first) - 1]
        kept[order] = (points[order] == representatives).all(axis=1)
    return kept


def _exactly_nondominated(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which points no other one dominates, where equal ones are all kept; and a number for each point that its equals share.

    O(n log n) up to three objectives: for two a running minimum (Kung, Luccio, Preparata 1975, J. ACM 22(4)), for three a staircase that
    grows, beyond that blocks compared with the front found so far.
    """
    order = np.lexsort(points.T[::-1])
    ordered = points[order]
    first = np.ones(len(points), bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    distinct = _FILTERS.get(points.shape[1], _by_blocks)(ordered[first])
    number = np.empty(len(points), int)
    number[order] = np.cumsum(first) - 1
    return distinct[number], number


def _on_a_line(points: np.ndarray) -> np.ndarray:
    return np.arange(len(points)) == 0


def _in_a_plane(points: np.ndarray) -> np.ndarray:
    """Distinct points by ascending x, then y: one stays if it is lower than all before it."""
    lowest = np.minimum.accumulate(points[:, 1])
    return np.concatenate([[True], points[1:, 1] < lowest[:-1]])


def _in_space(points: np.ndarray) -> np.ndarray:
    """Distinct points in lexicographic order: one stays if the staircase of those before it, seen along x, doesn't cover it."""
    stairs, kept = Staircase(), np.zeros(len(points), bool)
    for number, (y, z) in enumerate(points[:, 1:].tolist()):
        if not stairs.covers(y, z):
            stairs.add(y, z)
            kept[number] = True
    return kept


def _by_blocks(points: np.ndarray) -> np.ndarray:
    """Distinct points, any number of objectives. Who dominates has the lower sum of ranks, so the front only grows."""
    ranks = np.array([np.unique(column, return_inverse=True)[1] for column in points.T])
    order = ranks.sum(axis=0).argsort(kind="stable")
    front = order[:0]
    for start in range(0, len(order), BLOCK):
        left = order[start : start + BLOCK]
        for part in range(0, len(front), BLOCK):
            left = left[~_dominated(points[left], points[front[part : part + BLOCK]])]
        front = np.concatenate([front, left[~_dominated(points[left], points[left])]])
    return np.isin(np.arange(len(points)), front)


def _dominated(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which points some other one dominates; equal ones are taken to be the same one."""
    nowhere_worse = np.ones((len(points), len(others)), bool)
    somewhere_better = np.zeros_like(nowhere_worse)
    for mine, theirs in zip(points.T, others.T, strict=True):
        nowhere_worse &= theirs <= mine[:, None]
        somewhere_better |= theirs < mine[:, None]
    return np.any(nowhere_worse & somewhere_better, axis=1)


_FILTERS = {1: _on_a_line, 2: _in_a_plane, 3: _in_space}


class Staircase:
    """A front in the plane to which points are added: x ascends, y descends."""

    def __init__(self) -> None:
        self.x: list[float] = []
        self.y: list[float] = []

    def covers(self, x: float, y: float) -> bool:
        """Whether some step is nowhere worse."""
        before = bisect_right(self.x, x)
        return before > 0 and self.y[before - 1] <= y

    def add(self, x: float, y: float, right: float = 0.0, top: float = 0.0) -> float:
        """Take in a point that is not covered; returns the area that it adds below and left of (right, top)."""
        start, stop = bisect_left(self.x, x), bisect_right(self.x, x)
        left, ceiling, gained = x, self.y[stop - 1] if stop else top, 0.0
        while stop < len(self.x) and self.y[stop] >= y:
            gained += (self.x[stop] - left) * (ceiling - y)
            left, ceiling, stop = self.x[stop], self.y[stop], stop + 1
        self.x[start:stop], self.y[start:stop] = [x], [y]
        end = self.x[start + 1] if start + 1 < len(self.x) else right
        return gained + (end - left) * (ceiling - y)


def hypervolume(points: np.ndarray, reference: np.ndarray) -> float:
    """Volume of what is dominated by some point and dominates the reference point (Zitzler and Thiele 1998), exactly.

    Points beyond the reference add nothing. O(n log n) up to three objectives; for more, slices along the last objective of what
    each point adds alone (While, Bradstreet, Barone 2012, IEEE Trans. Evol. Comput. 16(1)), which grows fast with their number.
    """
    inside = points[(points < reference).all(axis=1)]
    if not len(inside):
        return 0.0
    front = inside[_exactly_nondominated(inside)[0]]
    front = front[np.lexsort(front.T[::-1])]
    return _VOLUMES.get(front.shape[1], _by_slices)(front, reference)


def _length(front: np.ndarray, reference: np.ndarray) -> float:
    return float(reference[0] - front[0, 0])


def _area(front: np.ndarray, reference: np.ndarray) -> float:
    """By ascending x: each point adds a rectangle from its x to the reference, from its y to the one before."""
    above = np.concatenate([reference[1:], front[:-1, 1]])
    return float(((reference[0] - front[:, 0]) * (above - front[:, 1])).sum())


def _volume(front: np.ndarray, reference: np.ndarray) -> float:
    """By ascending x: each point adds an area in the plane of y and z, as deep as from its x to the reference."""
    stairs, (depth, right, top) = Staircase(), map(float, reference)
    return sum((depth - x) * stairs.add(y, z, right, top) for x, y, z in front.tolist() if not stairs.covers(y, z))


def _by_slices(front: np.ndarray, reference: np.ndarray) -> float:
    """By ascending first objective: what each point adds in the others, beyond those before it, as deep as it lies."""
    volume = 0.0
    for number, point in enumerate(front):
        shared = np.maximum(front[:number, 1:], point[1:])
        alone = float(np.prod(reference[1:] - point[1:])) - hypervolume(shared, reference[1:])
        volume += float(reference[0] - point[0]) * alone
    return volume


_VOLUMES = {1: _length, 2: _area, 3: _volume}


def knee(front: np.ndarray) -> int:
    """The point with the least sum of objectives, each scaled from 0 (best of the front) to 1 (worst of it); the first of several.

    With two objectives it lies farthest below the line through the ends of the front (Das 1999, Struct. Optim. 18; the plane
    through the unit vectors for more). A front that bulges the other way has it at an end.
    """
    low, span = front.min(axis=0), np.ptp(front, axis=0)
    return int(((front - low) / np.where(span > 0, span, 1.0)).sum(axis=1).argmin())
