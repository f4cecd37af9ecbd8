"""Find the points that may be on a Pareto front, without comparing all points with each other.

A point that another point dominates in the exact numbers is not on the front, however numbers are rounded. All objectives are minimised.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from dse.sweeping.pareto_front import nondominated

BUCKETS = 2**16  # of a filter, which then stays in the cache
MAX_EDGES = 1024  # of the buckets along one objective
SAMPLE = 20_000  # points whose front fills a filter
MAX_CANDIDATES = 100_000  # so few points are not filtered
CHUNK = 2**17  # points that are filtered at once: they stay in the cache


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
