"""The base class of attention patterns: which keys each query of a sequence attends to.

The query at position p has the key at p. A launch has the last queries of a context: all in prefill, one in decode. In causal patterns a
query attends to none of the later keys, and what it attends to depends on its position alone, not on the launch: so the scores of a
prefill are the sum of those of all decode steps.

Sizes are whole numbers, or numpy arrays of them where this is stated; counts are exact.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from dse.base.errors import InputError

Whole = Any  # a whole number or a numpy array of them; the functions work elementwise
Ranges = tuple[Int[np.ndarray, "queries range"], Int[np.ndarray, "queries range"]]  # first keys, and the keys after the last
MAX_RANGES = 2**20  # in one array


def triangle(size: Whole) -> Whole:
    """1 + 2 + ... + size: scores of a causal square."""
    return size * (size + 1) // 2


def capped_sum(size: Whole, cap: int) -> Whole:
    """The sum of min(cap, 1 + x) over 0 <= x < size."""
    growing = np.minimum(size, cap)
    return triangle(growing) + (size - growing) * cap


class AttentionPattern(ABC):
    """Which keys each query attends to.

    Attributes:
        is_chosen: whether the data choose the keys; otherwise the positions fix the mask.
        is_causal: whether no query attends to later keys.
    """

    is_chosen: ClassVar[bool] = False
    is_causal: ClassVar[bool] = False

    @abstractmethod
    def __str__(self) -> str:
        """The canonical text: equal patterns have equal texts."""

    @property
    @abstractmethod
    def shortest_context(self) -> int:
        """The fewest keys for which all sizes of the pattern mean something."""

    @abstractmethod
    def count_scores(self, queries: Whole, keys: Whole) -> Whole:
        """Scores of the last `queries` positions of a context of `keys` tokens, elementwise."""

    @abstractmethod
    def touched_keys(self, queries: int, keys: int) -> int:
        """Keys that any of the last `queries` positions of a context of `keys` tokens attends to."""

    @abstractmethod
    def touched_scores(self, queries: int, keys: int, tile: tuple[int, int] = (1, 1)) -> int:
        """Scores that a kernel computes for the last `queries` positions if it skips whole tiles of queries x keys only."""

    @property
    def most_keys(self) -> int | None:
        """The most keys that a query attends to in any context; None without a limit."""
        return None

    def cached_keys(self, keys: int) -> int:
        """Keys of a context of `keys` tokens that the last query or a later one may attend to."""
        return keys

    def rectangle_keys(self, keys: int) -> int:
        """The most keys that a query of a context of `keys` tokens attends to."""
        return keys if self.most_keys is None else min(keys, self.most_keys)

    def stored_indices(self, queries: int, keys: int) -> int:
        """Indices of chosen keys or blocks that the last `queries` positions need; none if the positions fix the mask."""
        return 0

    def check_context(self, keys: int) -> None:
        """Raise InputError if the pattern is longer than a context of `keys` tokens."""
        if self.shortest_context > keys:
            problem = f"'{self}' is longer than the context: it needs {self.shortest_context} tokens, and there are {keys}"
            raise InputError(problem, "write a shorter pattern, 'causal', or a longer sequence")


class CausalPattern(AttentionPattern):
    """A pattern in which no query attends to later keys."""

    is_causal: ClassVar[bool] = True

    @abstractmethod
    def scores_before(self, position: Whole) -> Whole:
        """Scores that all queries at positions below `position` compute, elementwise."""

    def count_scores(self, queries: Whole, keys: Whole) -> Whole:
        end = np.asarray(keys, np.int64)
        return self.scores_before(end) - self.scores_before(end - np.asarray(queries, np.int64))


class TiledPattern(AttentionPattern):
    """A pattern of which a kernel skips aligned tiles of the score matrix.

    Tiles begin at the first query and at key 0. Incomplete tiles at the edges count as what is inside.
    """

    @abstractmethod
    def tiled_keys(self, first: Whole, last: Whole, keys: int, columns: int) -> Whole:
        """Keys in the aligned tiles of `columns` keys that any of the queries at positions `first` to `last` attends to, elementwise."""

    def max_ranges(self, keys: int) -> int:
        """The largest number of separate ranges of keys of a query, as far as they are computed one by one."""
        return 2

    def touched_keys(self, queries: int, keys: int) -> int:
        return int(self.tiled_keys(np.int64(keys - queries), np.int64(keys - 1), keys, 1))

    def touched_scores(self, queries: int, keys: int, tile: tuple[int, int] = (1, 1)) -> int:
        return int(self.count_scores(queries, keys)) if tile == (1, 1) else _scores_of_tiles(self, queries, keys, tile)


@lru_cache(maxsize=1024)  # all layers of a network have the same sizes
def _scores_of_tiles(pattern: TiledPattern, queries: int, keys: int, tile: tuple[int, int]) -> int:
    tiles = query_tiles(queries, keys, tile[0], pattern.max_ranges(keys))
    return sum(int(((last - first + 1) * pattern.tiled_keys(first, last, keys, tile[1])).sum()) for first, last in tiles)


class FixedPattern(TiledPattern):
    """A pattern whose masks the positions fix: each query attends to some ranges of keys."""

    @abstractmethod
    def key_ranges(self, first: Whole, last: Whole) -> Ranges:
        """Ranges of keys [start, stop) that the queries at positions `first` to `last` attend to together; they may be empty or overlap."""

    def tiled_keys(self, first: Whole, last: Whole, keys: int, columns: int) -> Whole:
        start, stop = self.key_ranges(first, last)
        low, high = (np.where(stop > start, tiles, 0) for tiles in (start // columns, -(-stop // columns)))
        order = np.argsort(low, axis=-1)
        low, high = (np.take_along_axis(tiles, order, -1) for tiles in (low, high))
        covered = np.maximum.accumulate(high, axis=-1)
        begin = np.maximum(low, np.concatenate([np.zeros_like(covered[..., :1]), covered[..., :-1]], axis=-1))
        inside = np.minimum(high * columns, keys) - np.minimum(begin * columns, keys)
        return np.maximum(inside, 0).sum(axis=-1)


def query_tiles(queries: int, keys: int, rows: int, ranges: int = 1) -> Iterator[tuple[Whole, Whole]]:
    """Positions of the first and the last query of each tile of `rows` queries, in arrays with at most `MAX_RANGES` ranges."""
    start, step = keys - queries, rows * max(1, MAX_RANGES // ranges)
    for low in range(start, keys, step):
        first = np.arange(low, min(low + step, keys), rows)
        yield first, np.minimum(first + rows, keys) - 1
