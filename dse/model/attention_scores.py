"""Work and traffic of the products of an attention on a unit that leaves scores out.

A layer has a rectangle: its queries times the most keys that one of them attends to (`dse.networks.layers`). A unit that lists no `scores`
is taken to compute and to read just that. A unit that lists a pattern which contains the layer's own computes the tiles that it touches,
and reads the keys that any query attends to, each once (a unit that only gates scores reads as one without `scores`). A unit that lists
none which contains it computes all scores of the keys that it holds. Which keys different queries choose is unknown, so as many as possible
are read. The first product also reads the indices of chosen keys or blocks.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dse.networks.layers import LayerArrays, LayerMask, PerLayer
from dse.schema.unit_run import Run, Scores
from dse.sparsity.attention.family import AttentionFamily
from dse.sparsity.attention.grammar import parse_attention
from dse.sparsity.attention.kinds import FULL
from dse.sparsity.attention.pattern import AttentionPattern


class _ScoreCounts(NamedTuple):
    """What a unit needs for the queries of one sequence and key head under the pattern that it runs.

    `computed` scores, `keys` that it reads, `indices` of chosen keys or blocks, and the `most_keys` that one query attends to.
    """

    computed: int
    keys: int
    indices: int
    most_keys: int
    pattern: AttentionPattern

    @property
    def cost(self) -> tuple[int, int, int, str]:
        """What the best of several patterns has least of; the text decides between equal ones."""
        return self.computed, self.keys, self.indices, str(self.pattern)


@dataclass(frozen=True, eq=False)
class AttentionScores:
    """What one instance of each layer computes and reads under a run.

    `computed_share` [1] of the products in the rectangle of queries and keys are computed; `read_keys` are read, and `index_bytes` [B] of
    indices; `touched_keys` are attended to by some query, also where the layer before reads them. `applies` masks the layers whose scores
    the run leaves out; the others compute and read what their row states. `patterns` are those that the layers run as (None without an
    attention pattern), and `most_keys` the most keys that one of their queries attends to.
    """

    applies: LayerMask
    computed_share: PerLayer
    read_keys: PerLayer
    touched_keys: PerLayer
    index_bytes: PerLayer
    patterns: list[AttentionPattern | None]
    most_keys: PerLayer

    def layers_as_read(self, layers: LayerArrays) -> LayerArrays:
        """The layers with the keys that are read, as sizes and in `input_elements`."""
        width = np.where(layers.key_axis == "m", layers.k, layers.m)
        keys = np.where(self.applies & (self.read_keys > 0), self.read_keys, layers.keys)
        elements = layers.input_elements - width * (layers.read_keys - self.read_keys)
        return replace(self._with_keys(layers, keys), input_elements=elements)

    def layers_as_computed(self, layers: LayerArrays) -> LayerArrays:
        """The layers with the keys of the smallest rectangle that holds what is computed: all that are touched, or the most of a query."""
        most = np.maximum(layers.keys, self.computed_share * layers.keys)
        return self._with_keys(layers, np.where(self.applies, np.minimum(np.maximum(self.touched_keys, 1.0), most), layers.keys))

    def _with_keys(self, layers: LayerArrays, keys: PerLayer) -> LayerArrays:
        is_m = layers.key_axis == "m"
        return replace(layers, m=np.where(is_m, keys, layers.m), k=np.where(is_m, layers.k, keys))


def attention_scores(layers: LayerArrays, run: Run) -> AttentionScores:
    """What a run computes and reads of the scores of each layer."""
    nothing, own = np.zeros(len(layers)), [parse_attention(text) if text else None for text in layers.scores]
    read, keys = layers.read_keys.copy(), layers.keys.copy()
    result = AttentionScores(nothing > 0, np.ones(len(layers)), read, keys, nothing, own, keys.copy())
    for layer, pattern in enumerate(own):
        if pattern is not None and run.scores is not None:
            counts = _count_layer(layers, layer, pattern, run.scores)
            result.applies[layer], result.patterns[layer], result.most_keys[layer] = True, counts.pattern, counts.most_keys
            result.computed_share[layer] = counts.computed / (layers.queries[layer] * layers.keys[layer])
            if run.scores.zeros == "skipped" and layers.read_keys[layer] > 0:  # else they are in the operands of the layer before
                result.read_keys[layer] = counts.keys
            result.touched_keys[layer] = result.read_keys[layer] or counts.keys
            if layers.key_axis[layer] == "m":
                result.index_bytes[layer] = counts.indices * run.scores.index.value / 8
    return result


def _count_layer(layers: LayerArrays, layer: int, pattern: AttentionPattern, scores: Scores) -> _ScoreCounts:
    queries = layers.queries[layer]
    context = layers.context[layer] or max(layers.keys[layer], queries)
    return _count(pattern, scores.patterns, scores.tile_sizes, int(queries), int(context))


@lru_cache(maxsize=1024)  # all blocks of a network have the same attention
def _count(
    pattern: AttentionPattern, listed: tuple[AttentionFamily, ...], tile: tuple[int, int], queries: int, context: int
) -> _ScoreCounts:
    """The counts of the listed pattern with the fewest scores; all scores if none contains `pattern`.

    Other patterns than `pattern` itself see the queries and the keys that the key-value cache holds.
    """
    members = {member for family in listed if (member := family.member_for(pattern)) is not None}
    held = max(queries, pattern.cached_keys(context))
    sizes = [(member, context if member == pattern else held) for member in members or {FULL}]
    return min((_count_member(member, pattern.is_chosen, tile, queries, keys) for member, keys in sizes), key=lambda counts: counts.cost)


def _count_member(member: AttentionPattern, is_chosen: bool, tile: tuple[int, int], queries: int, context: int) -> _ScoreCounts:
    indices = member.stored_indices(queries, context) if is_chosen else 0
    computed, keys = member.touched_scores(queries, context, tile), member.touched_keys(queries, context)
    return _ScoreCounts(computed, keys, indices, member.rectangle_keys(context), member)
