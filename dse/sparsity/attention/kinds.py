"""Attention patterns whose masks the positions fix.

| text                          | the query at position p attends to                                                                  |
|-------------------------------|-----------------------------------------------------------------------------------------------------|
| `full`                        | all keys, later ones included                                                                       |
| `causal`                      | the keys 0 to p                                                                                     |
| `window:W`                    | the last W of them, p included (Longformer, arXiv 2004.05150; Mistral, arXiv 2310.06825)            |
| `global:G`                    | the first G of them (attention sinks: StreamingLLM, arXiv 2309.17453)                               |
| `strided:S`                   | p, p - S, p - 2 S, ... (Sparse Transformers, arXiv 1904.10509)                                      |
| `window:W+global:G+strided:S` | the union; any of the three may be left out                                                         |
| `around:D`                    | the keys at a distance of at most D, later ones too (in encoders: Longformer, ModernBERT)           |
| `chunk:C`                     | those in the same aligned chunk of C tokens (Llama 4)                                               |

`dse.sparsity.attention.chosen` has those that choose keys by the data.
"""

from dataclasses import dataclass

import numpy as np

from dse.sparsity.attention.pattern import CausalPattern, FixedPattern, Ranges, TiledPattern, Whole, capped_sum, triangle


@dataclass(frozen=True)
class Full(TiledPattern):
    """Every query attends to every key, later ones included."""

    def __str__(self) -> str:
        return "full"

    @property
    def shortest_context(self) -> int:
        return 1

    def count_scores(self, queries: Whole, keys: Whole) -> Whole:
        return np.asarray(queries, np.int64) * np.asarray(keys, np.int64)

    def tiled_keys(self, first: Whole, last: Whole, keys: int, columns: int) -> Whole:
        return np.full_like(last, keys)


@dataclass(frozen=True)
class Around(FixedPattern):
    """Every query attends to the keys at a distance of at most `distance` tokens, before and after it."""

    distance: int

    def __str__(self) -> str:
        return f"around:{self.distance}"

    @property
    def shortest_context(self) -> int:
        return self.distance + 1

    @property
    def most_keys(self) -> int:
        return 2 * self.distance + 1

    def count_scores(self, queries: Whole, keys: Whole) -> Whole:
        queries, keys = np.asarray(queries, np.int64), np.asarray(keys, np.int64)
        later = capped_sum(queries, self.distance + 1)  # the query's own key and those after it, from the last query backwards
        earlier = TokenUnion(window=self.distance + 1)
        return later + earlier.count_scores(queries, keys) - queries

    def key_ranges(self, first: Whole, last: Whole) -> Ranges:
        return np.maximum(first - self.distance, 0)[..., None], (last + self.distance + 1)[..., None]


@dataclass(frozen=True)
class Causal(CausalPattern, FixedPattern):
    """Every query attends to all keys up to its own."""

    def __str__(self) -> str:
        return "causal"

    @property
    def shortest_context(self) -> int:
        return 1

    def scores_before(self, position: Whole) -> Whole:
        return triangle(position)

    def key_ranges(self, first: Whole, last: Whole) -> Ranges:
        return np.zeros_like(last)[..., None], (last + 1)[..., None]


@dataclass(frozen=True)
class TokenUnion(CausalPattern, FixedPattern):
    """The last `window` keys, the first `sinks` keys and every key at a distance that is a multiple of `stride`, together.

    0 leaves a part out. A window of one more than a multiple of the stride ends in a key that the stride has anyway: the canonical
    pattern has the shorter window.
    """

    window: int = 0
    sinks: int = 0
    stride: int = 0

    def __str__(self) -> str:
        parts = {"window": self.window, "global": self.sinks, "strided": self.stride}
        return "+".join(f"{name}:{size}" for name, size in parts.items() if size)

    @property
    def shortest_context(self) -> int:
        return max(self.window, self.sinks, self.stride)

    @property
    def longest_window(self) -> int:
        """The last keys that are all attended to, those of the stride included."""
        return self.window + 1 if self.stride and self.window % self.stride == 0 else self.window

    def scores_before(self, position: Whole) -> Whole:
        kept = capped_sum(position, self.window + self.sinks)
        return kept + self._strided_before(position) if self.stride else kept

    def _strided_before(self, position: Whole) -> Whole:
        """Scores at multiples of the stride outside the window and the first keys."""
        distances = np.maximum(position - self.sinks, 0)  # of the first key that counts, over all queries
        near = np.minimum(self.window, distances)
        inside = (self.window - 1) // self.stride  # multiples that the window has, without the distance 0
        return _floor_sum(distances, self.stride) - _floor_sum(near, self.stride) - (distances - near) * inside

    def key_ranges(self, first: Whole, last: Whole) -> Ranges:
        window = (np.maximum(first - self.window + 1, 0), last + 1) if self.window else (last * 0, last * 0)
        sinks = last * 0, np.minimum(self.sinks, last + 1)
        ranges = [np.stack(pair, axis=-1) for pair in zip(window, sinks, strict=True)]
        if not self.stride:
            return ranges[0], ranges[1]
        distance = self.stride * np.arange(int(np.max(last)) // self.stride + 1)
        strided = np.maximum(first[..., None] - distance, 0), np.maximum(last[..., None] - distance + 1, 0)
        start, stop = (np.concatenate(pair, axis=-1) for pair in zip(ranges, strided, strict=True))
        return start, stop

    def max_ranges(self, keys: int) -> int:
        return 2 + (keys // self.stride + 1 if self.stride else 0)

    @property
    def most_keys(self) -> int | None:
        return None if self.stride else self.window + self.sinks

    def cached_keys(self, keys: int) -> int:
        return self.rectangle_keys(keys)


@dataclass(frozen=True)
class Chunk(CausalPattern, FixedPattern):
    """Every query attends to the keys up to its own in the same aligned chunk of `size` tokens."""

    size: int

    def __str__(self) -> str:
        return f"chunk:{self.size}"

    @property
    def shortest_context(self) -> int:
        return self.size

    def scores_before(self, position: Whole) -> Whole:
        return position // self.size * triangle(np.int64(self.size)) + triangle(position % self.size)

    def key_ranges(self, first: Whole, last: Whole) -> Ranges:
        return (first - first % self.size)[..., None], (last + 1)[..., None]

    @property
    def most_keys(self) -> int:
        return self.size

    def cached_keys(self, keys: int) -> int:
        return self.rectangle_keys(keys)


FULL, CAUSAL = Full(), Causal()


def _floor_sum(size: Whole, divisor: int) -> Whole:
    """The sum of floor(x / divisor) over 0 <= x < size."""
    whole, rest = size // divisor, size % divisor
    return divisor * (whole * (whole - 1) // 2) + rest * whole
