"""The attention of a decoder: the layers that choose keys, if the data choose them, and both products."""

from typing import Any, NamedTuple

from dse.networks.architecture import GenerationInputs, LayerListBuilder
from dse.networks.indexer import TokenIndexer, add_block_indexer, add_token_indexer
from dse.sparsity.attention.chosen import TopBlocks, TopTokens
from dse.sparsity.attention.pattern import AttentionPattern


class Heads(NamedTuple):
    """Numbers of query heads and of key heads, and their width."""

    queries: int
    keys: int
    width: int


class AttentionReads(NamedTuple):
    """Names of the layers that an attention reads: its input, and those that compute queries, keys and values."""

    hidden: str
    query: str
    key: str
    value: str


def add_decoder_attention(
    layers: LayerListBuilder,
    name: str,
    heads: Heads,
    hidden: int,
    reads: AttentionReads,
    pattern: AttentionPattern,
    inputs: GenerationInputs,
) -> None:  # fmt: skip
    """Append the attention of a block of width `hidden`."""
    chosen_by = _add_indexer(layers, f"{name}.indexer", heads, hidden, reads, pattern, inputs)
    layers.attention(
        name, *heads, inputs.queries, fused=inputs.attention == "fused",
        reads=(reads.query, reads.key, *((chosen_by,) if chosen_by else ()), reads.value),
        **pattern_columns(pattern, inputs.queries, inputs.sequence),
    )  # fmt: skip


def pattern_columns(pattern: AttentionPattern, queries: int, context: int) -> dict[str, Any]:
    """Arguments of `LayerListBuilder.attention` that follow from the pattern of the last `queries` of a `context` of tokens.

    These are the keys of a query, the keys of all queries, and what is masked.
    """
    keys = pattern.rectangle_keys(context)
    read = max(keys, pattern.touched_keys(queries, context))
    return {"keys": keys, "keys_read": read, "causal": pattern.is_causal, "pattern": pattern, "context": context}


def _add_indexer(
    layers: LayerListBuilder,
    name: str,
    heads: Heads,
    hidden: int,
    reads: AttentionReads,
    pattern: AttentionPattern,
    inputs: GenerationInputs,
) -> str:  # fmt: skip
    """Append the layers that choose keys; returns the name of the last, empty if there are none."""
    if isinstance(pattern, TopTokens):
        indexer = TokenIndexer(hidden, hidden, inputs.indexer_heads, inputs.indexer_width)
        return add_token_indexer(layers, name, indexer, pattern, (reads.hidden, reads.hidden), inputs)
    if isinstance(pattern, TopBlocks):
        return add_block_indexer(layers, name, *heads, pattern, (reads.query, reads.key), inputs)
    return ""
