"""Attention patterns that choose keys by the data, among those up to the query.

| text            | the query at position p attends to                                                                              |
|-----------------|-----------------------------------------------------------------------------------------------------------------|
| `topk:K`        | K keys of its choice (DeepSeek sparse attention, arXiv 2512.02556)                                              |
| `topk:KxB`      | its own aligned block of B keys and K - 1 earlier ones of its choice (MoBA, arXiv 2502.13189; the selection     |
|                 | of NSA, arXiv 2502.11089)                                                                                       |
| `block:RxC@S`   | per aligned block of R queries: the share S, rounded up, of the blocks of C keys that all R queries see, and    |
|                 | all keys after these (block-sparse masks: MInference, arXiv 2407.02490)                                         |

Which keys several queries choose is not known: as many different ones as possible are counted.
"""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dse.sparsity.attention.kinds import Chunk
from dse.sparsity.attention.pattern import CausalPattern, TiledPattern, Whole, capped_sum, query_tiles, triangle
from dse.sparsity.pattern import max_tiles_met


@dataclass(frozen=True)
class KeyChoice:
    """What the queries of a group choose: `chosen` of the first `available` blocks of `size` keys.

    All later keys up to the query are added. `group` numbers the queries that choose together.
    """

    group: int
    size: int
    available: int
    chosen: int


class ChosenPattern(CausalPattern):
    """A pattern in which the data choose the keys."""

    is_chosen: ClassVar[bool] = True

    @abstractmethod
    def choice_at(self, position: int) -> KeyChoice:
        """What the query at a position chooses."""


class GatheredPattern(ChosenPattern):
    """A pattern in which each query chooses its own keys; kernels gather these, and tile what they gathered."""

    def touched_scores(self, queries: int, keys: int, tile: tuple[int, int] = (1, 1)) -> int:
        """Scores that a kernel computes which gathers the keys of a query in tiles of so many keys.

        The rows of such a tile are the heads that share the choice, so its number of queries does not matter.
        """
        if tile[1] == 1:
            return int(self.count_scores(queries, keys))
        return sum(int(self._gathered(first, keys, tile[1]).sum()) for first, _ in query_tiles(queries, keys, 1))

    def _gathered(self, position: Whole, keys: int, columns: int) -> Whole:
        kept = self.scores_before(position + 1) - self.scores_before(position)
        return np.minimum(-(-kept // columns) * columns, keys)


@dataclass(frozen=True)
class TopTokens(GatheredPattern):
    """Every query attends to `tokens` keys of its choice, to all if there are fewer."""

    tokens: int

    def __str__(self) -> str:
        return f"topk:{self.tokens}"

    @property
    def shortest_context(self) -> int:
        return self.tokens

    @property
    def most_keys(self) -> int:
        return self.tokens

    def choice_at(self, position: int) -> KeyChoice:
        return KeyChoice(position, 1, position + 1, min(self.tokens, position + 1))

    def scores_before(self, position: Whole) -> Whole:
        return capped_sum(position, self.tokens)

    def touched_keys(self, queries: int, keys: int) -> int:
        return min(int(self.count_scores(queries, keys)), keys)

    def stored_indices(self, queries: int, keys: int) -> int:
        return int(self.count_scores(queries, keys))


@dataclass(frozen=True)
class TopBlocks(GatheredPattern):
    """Every query attends to its own aligned block of `size` keys, up to itself, and to `blocks` - 1 earlier ones of its choice."""

    blocks: int
    size: int

    def __str__(self) -> str:
        return f"topk:{self.blocks}x{self.size}"

    @property
    def shortest_context(self) -> int:
        return self.blocks * self.size

    @property
    def most_keys(self) -> int:
        return self.blocks * self.size

    def choice_at(self, position: int) -> KeyChoice:
        earlier = position // self.size
        return KeyChoice(position, self.size, earlier, min(self.blocks - 1, earlier))

    def scores_before(self, position: Whole) -> Whole:
        return Chunk(self.size).scores_before(position) + self.size * self._chosen_before(position)

    def _chosen_before(self, position: Whole) -> Whole:
        """Earlier blocks that all queries at positions below `position` choose: the query at p has p // size to choose from."""
        whole, rest = position // self.size, position % self.size
        limited = capped_sum(np.maximum(whole - 1, 0), self.blocks - 1) if self.blocks > 1 else whole * 0
        return self.size * limited + rest * np.minimum(self.blocks - 1, whole)

    def touched_keys(self, queries: int, keys: int) -> int:
        own = keys - (keys - queries) // self.size * self.size
        return min(own + self.stored_indices(queries, keys) * self.size, keys)

    def stored_indices(self, queries: int, keys: int) -> int:
        """Indices of the earlier blocks; the query's own needs none."""
        return int(self._chosen_before(np.int64(keys)) - self._chosen_before(np.int64(keys - queries)))


@dataclass(frozen=True)
class BlockShare(ChosenPattern, TiledPattern):
    """Per aligned block of `rows` queries, a `share` of the earlier blocks of `columns` keys, and all keys after them up to the query."""

    rows: int
    columns: int
    share: Fraction

    def __str__(self) -> str:
        return f"block:{self.rows}x{self.columns}@{float(self.share):g}"

    @property
    def shortest_context(self) -> int:
        return max(self.rows, self.columns)

    def choice_at(self, position: int) -> KeyChoice:
        row = np.int64(position // self.rows)
        return KeyChoice(int(row), self.columns, int(self._earlier(row)), int(self._chosen(row)))

    def _earlier(self, block_row: Whole) -> Whole:
        """Blocks of keys that all queries of a block row see."""
        return block_row * self.rows // self.columns

    def _chosen(self, block_row: Whole) -> Whole:
        """Blocks that the queries of a block row choose."""
        return -(-self._earlier(block_row) * self.share.numerator // self.share.denominator)

    def scores_before(self, position: Whole) -> Whole:
        position = np.asarray(position, np.int64)
        whole, rest = position // self.rows, position % self.rows
        rows = np.arange(int(np.max(whole, initial=0)) + 1)
        omitted = self.columns * (self._earlier(rows) - self._chosen(rows))  # keys that a query of each block row leaves out
        before = np.concatenate([[0], np.cumsum(self.rows * omitted)])
        return triangle(position) - before[whole] - rest * omitted[whole]

    def tiled_keys(self, first: Whole, last: Whole, keys: int, columns: int) -> Whole:
        """Exact if tiles divide the blocks; otherwise every chosen block is counted with all tiles that it may meet."""
        low, high = first // self.rows, last // self.rows
        tiles = max_tiles_met(self.columns, columns) * self._chosen_between(low, high + 1)
        recent = self._earlier(low) * self.columns // columns * columns  # before it, blocks are chosen
        visible = np.minimum(-(-(last + 1) // columns) * columns, keys)
        return np.minimum(tiles * columns, recent) + visible - recent

    def _chosen_between(self, low: Whole, high: Whole) -> Whole:
        before = np.concatenate([[0], np.cumsum(self._chosen(np.arange(int(np.max(high, initial=0)))))])
        return before[high] - before[low]

    def stored_indices(self, queries: int, keys: int) -> int:
        """Indices of the chosen blocks of every block row that any of the queries is in."""
        return int(self._chosen_between(np.int64((keys - queries) // self.rows), np.int64((keys - 1) // self.rows + 1)))
