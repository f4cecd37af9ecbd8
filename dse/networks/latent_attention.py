"""Multi-head latent attention (MLA): keys and values are projections of one latent vector a token, which the cache keeps.

DeepSeek-V2, arXiv 2405.04434, section 2.1. A token's cache entry is its latent (`kv_lora_rank` elements) and one rotary key that all heads
share (`qk_rope_head_dim`). Two orders of products compute the same:

expanded    `kv_b_proj` computes the keys and values of all heads from the latents; each head attends on its own. Prefill.
absorbed    queries are multiplied by the key part of `kv_b_proj` and sums of latents by its value part, so that all heads attend to one
            shared key head, whose values are part of its keys. Decoding.
"""

from typing import NamedTuple

from dse.networks.decoder_attention import PatternColumns
from dse.networks.layer_list import LayerListBuilder


class LatentSizes(NamedTuple):
    """Widths of one head and of the latents of a token, in elements; `query_rank` 0: queries have no latent."""

    heads: int
    query_rank: int
    latent: int
    content: int  # of a query or key, without its rotary part
    rotary: int
    value: int

    @property
    def key(self) -> int:
        return self.content + self.rotary


class LatentTokens(NamedTuple):
    """Query tokens of a sample, tokens that its cache has room for, and the columns of its attention pattern."""

    queries: int
    cached: int
    columns: PatternColumns


def add_latents(layers: LayerListBuilder, at: str, norm: str, hidden: int, sizes: LatentSizes, tokens: LatentTokens, bias: bool) -> str:
    """Append the projections of queries and latents, which read the layer `norm`; returns the name of the layer that computes queries."""
    queries, query = tokens.queries, f"{at}.q_proj"
    if sizes.query_rank:
        query = f"{at}.q_b_proj"
        layers.linear(f"{at}.q_a_proj", sizes.query_rank, hidden, queries, bias, (norm,))
        layers.elementwise(f"{at}.q_a_layernorm", sizes.query_rank * queries, sizes.query_rank * queries, sizes.query_rank)
    read = (f"{at}.q_a_layernorm",) if sizes.query_rank else (norm,)
    layers.linear(query, sizes.heads * sizes.key, sizes.query_rank or hidden, queries, False, read)
    projected, width = f"{at}.kv_a_proj_with_mqa", sizes.latent + sizes.rotary
    layers.linear(projected, width, hidden, queries, bias, (norm,), cache_elements=sizes.rotary * tokens.cached)
    elements, cached = sizes.latent * queries, sizes.latent * tokens.cached
    layers.elementwise(f"{at}.kv_a_layernorm", elements, elements, sizes.latent, (projected,), cache_elements=cached)
    return query


def add_rotary(layers: LayerListBuilder, at: str, query: str, sizes: LatentSizes, queries: int) -> tuple[str, str]:
    """Append the rotation of a part of each query and of the shared key, if passes are separate; returns what computes queries and keys."""
    key = f"{at}.kv_a_proj_with_mqa"
    if not layers.separate_passes:
        return query, key
    elements = (sizes.heads + 1) * sizes.rotary * queries
    layers.elementwise(f"{at}.rotary", elements, elements, reads=(query, key))
    return f"{at}.rotary", f"{at}.rotary"


def add_expanded_attention(layers: LayerListBuilder, at: str, query: str, sizes: LatentSizes, tokens: LatentTokens, fused: bool) -> None:
    """Append attention with the keys and values of every head."""
    rotary_query, rotary_key = add_rotary(layers, at, query, sizes, tokens.queries)
    width, expanded = sizes.heads * (sizes.content + sizes.value), f"{at}.kv_b_proj"
    layers.linear(expanded, width, sizes.latent, tokens.queries, False, (f"{at}.kv_a_layernorm",))
    layers.attention(
        at, sizes.heads, sizes.heads, sizes.key, tokens.queries, fused=fused, value_width=sizes.value,
        reads=(query, rotary_query, expanded, rotary_key, expanded), **tokens.columns,
    )  # fmt: skip


def add_absorbed_attention(
    layers: LayerListBuilder, at: str, query: str, sizes: LatentSizes, tokens: LatentTokens, fused: bool, chosen_by: str = ""
) -> None:
    """Append attention of all heads to the latents; the two parts of `kv_b_proj` are products of each head (`groups`).

    `chosen_by`: the layer that chooses the keys of each query, if they are not all.
    """
    rotary_query, rotary_key = add_rotary(layers, at, query, sizes, tokens.queries)
    heads, queries, latents = sizes.heads, tokens.queries, f"{at}.kv_a_layernorm"
    reads = (f"{at}.kv_b_proj.key", rotary_query, latents, rotary_key, *((chosen_by,) if chosen_by else ()), latents)
    layers.linear(f"{at}.kv_b_proj.key", heads * sizes.latent, sizes.content, queries, False, (query,), groups=heads)
    layers.attention(
        at, heads, 1, sizes.latent + sizes.rotary, queries, fused=fused, value_width=sizes.latent, reads=reads, values_are_keys=True,
        **tokens.columns,
    )  # fmt: skip
    layers.linear(f"{at}.kv_b_proj.value", heads * sizes.value, sizes.latent, queries, False, groups=heads)
