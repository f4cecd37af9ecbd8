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
from dse.schema.compute_unit import Run, Scores
from dse.sparsity.attention.family import AttentionFamily
from dse.sparsity.attention.grammar import parse_attention
from dse.sparsity.attention.kinds import FULL
from dse.sparsity.attention.pattern import AttentionPattern


class _ScoreCounts(NamedTuple):
    """Scores that a unit computes, keys that it reads and indices that it needs for the queries of one sequence and key head."""

    computed: int
    keys: int
    indices: int


@dataclass(frozen=True, eq=False)
class AttentionScores:
    """What one instance of each layer computes and reads under a run.

    `computed_share` [1] of the products in the rectangle of queries and keys are computed; `read_keys` are read, and `index_bytes` [B] of
    indices. `applies` masks the layers whose scores the run leaves out; the others compute and read what their row states.
    """

    applies: LayerMask
    computed_share: PerLayer
    read_keys: PerLayer
    index_bytes: PerLayer

    def layers_as_read(self, layers: LayerArrays) -> LayerArrays:
        """The layers with the keys that are read, as sizes and in `input_elements`."""
        width = np.where(layers.key_axis == "m", layers.k, layers.m)
        keys = np.where(self.applies & (self.read_keys > 0), self.read_keys, layers.keys)
        elements = layers.input_elements - width * (layers.read_keys - self.read_keys)
        return replace(self._with_keys(layers, keys), input_elements=elements)

    def layers_as_computed(self, layers: LayerArrays) -> LayerArrays:
        """The layers with the keys of the smallest rectangle that holds what is computed: all that are read, or the most of a query."""
        most = np.maximum(layers.keys, self.computed_share * layers.keys)
        return self._with_keys(layers, np.where(self.applies, np.minimum(np.maximum(self.read_keys, 1.0), most), layers.keys))

    def _with_keys(self, layers: LayerArrays, keys: PerLayer) -> LayerArrays:
        is_m = layers.key_axis == "m"
        return replace(layers, m=np.where(is_m, keys, layers.m), k=np.where(is_m, layers.k, keys))


def attention_scores(layers: LayerArrays, run: Run) -> AttentionScores:
    """What a run computes and reads of the scores of each layer."""
    nothing = np.zeros(len(layers))
    result = AttentionScores(nothing > 0, np.ones(len(layers)), layers.read_keys.copy(), nothing)
    for layer, pattern in enumerate(layers.scores):
        if pattern and run.scores is not None:
            counts = _count_layer(layers, layer, parse_attention(pattern), run.scores)
            result.applies[layer] = True
            result.computed_share[layer] = counts.computed / (layers.queries[layer] * layers.keys[layer])
            if run.scores.zeros == "skipped" and layers.read_keys[layer] > 0:  # else they are in the operands of the layer before
                result.read_keys[layer] = counts.keys
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
    return min(_count_member(member, pattern.is_chosen, tile, queries, keys) for member, keys in sizes)


def _count_member(member: AttentionPattern, is_chosen: bool, tile: tuple[int, int], queries: int, context: int) -> _ScoreCounts:
    indices = member.stored_indices(queries, context) if is_chosen else 0
    return _ScoreCounts(member.touched_scores(queries, context, tile), member.touched_keys(queries, context), indices)
