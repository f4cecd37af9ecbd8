"""The attention of a decoder: the layers that choose keys, if the data choose them, and both products.

The layers that choose the keys of top-k patterns are those of published indexers.

Tokens (`topk:K`; DeepSeek sparse attention, arXiv 2512.02556): I[t, s] = sum over index heads of w[t, head] ReLU(q[t, head] . k[s]), where
all index heads share one key of each token; the K tokens with the largest I are chosen. The reference implementation has 64 heads of
width 128, and normalises the keys.

Blocks (`topk:KxB`; MoBA, arXiv 2502.13189): the scores of a query and the means of the keys of each block, in which the heads that share
keys choose together (NSA, arXiv 2502.11089).

Scores are sums over heads, one for each query and key; they are written, masked ones too, and read by the layer that chooses. An index
takes as much memory as an element. All layers are in the dtypes of the network. `block` patterns have no indexer: their masks are taken
as given.
"""

from typing import NamedTuple, TypedDict

from dse.networks.architecture import GenerationInputs
from dse.networks.layer_list import LayerListBuilder
from dse.sparsity.attention.chosen import TopBlocks, TopTokens
from dse.sparsity.attention.kinds import CAUSAL
from dse.sparsity.attention.pattern import AttentionPattern


class Heads(NamedTuple):
    """Numbers of query heads and of key heads, and their width."""

    queries: int
    keys: int
    width: int


class PatternColumns(TypedDict):
    """Arguments of `LayerListBuilder.attention`: the keys of a query, the keys of all queries, and what is masked."""

    keys: float
    keys_read: float
    causal: bool
    pattern: AttentionPattern
    context: int


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


def pattern_columns(pattern: AttentionPattern, queries: int, context: int) -> PatternColumns:
    """What follows from the pattern of the last `queries` of a `context` of tokens."""
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


class TokenIndexer(NamedTuple):
    """Sizes of an indexer of tokens: its keys are computed from `hidden` elements of a token, its queries from `query_inputs`."""

    hidden: int
    query_inputs: int
    heads: int = 64
    width: int = 128


def add_token_indexer(
    layers: LayerListBuilder, name: str, indexer: TokenIndexer, pattern: TopTokens, reads: tuple[str, str], inputs: GenerationInputs
) -> str:
    """Append the layers that choose tokens; returns the name of the last, which writes the indices.

    `reads`: the layer that keys and weights are computed from, and the one that queries are computed from.
    """
    queries, keys, (hidden, query_inputs, heads, width) = inputs.queries, inputs.sequence, indexer
    scored = keys * queries
    layers.linear(f"{name}.wq_b", heads * width, query_inputs, queries, False, reads[1:])
    layers.linear(f"{name}.wk", width, hidden, queries, False, reads[:1])
    cached = width * inputs.cached_tokens(keys)
    layers.elementwise(f"{name}.k_norm", width * queries, width * queries, 2 * width, (f"{name}.wk",), cache_elements=cached)
    layers.linear(f"{name}.weights_proj", heads, hidden, queries, False, reads[:1], prunable=False)
    layers.append_layer(
        f"{name}.scores", (f"{name}.wq_b", f"{name}.k_norm", f"{name}.weights_proj"), kind="matmul", m=keys, k=width, n=heads * queries,
        input_elements=width * (heads * queries + keys) + heads * queries, output_elements=scored, prunable=False,
        queries=queries, causal=True, scores=CAUSAL, context=keys,
    )  # fmt: skip
    layers.elementwise(f"{name}.topk", scored, pattern.rectangle_keys(keys) * queries)
    return f"{name}.topk"


def add_block_indexer(
    layers: LayerListBuilder, name: str, heads: int, key_heads: int, width: int, pattern: TopBlocks, reads: tuple[str, str],
    inputs: GenerationInputs,
) -> str:  # fmt: skip
    """Append the layers that choose blocks; returns the name of the last, which writes the indices. `reads`: the queries and the keys."""
    queries, n = inputs.queries, heads // key_heads * inputs.queries
    blocks, key_width = -(-inputs.sequence // pattern.size), key_heads * width
    written, cached = key_width * -(-queries // pattern.size), key_width * blocks
    layers.elementwise(f"{name}.block_means", key_width * queries, written, reads=reads[1:], cache_elements=cached)
    layers.append_layer(
        f"{name}.scores", (reads[0], f"{name}.block_means"), kind="matmul", m=blocks, k=width, n=n, count=key_heads, prunable=False,
        input_elements=width * (n + blocks), output_elements=queries * blocks,
    )  # fmt: skip
    chosen = float(pattern.stored_indices(queries, inputs.sequence))
    layers.elementwise(f"{name}.topk", key_heads * queries * blocks, key_heads * chosen)
    return f"{name}.topk"
