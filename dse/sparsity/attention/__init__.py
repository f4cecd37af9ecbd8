"""Attention patterns: which scores of a query and a key an attention computes.

`pattern` is the contract of a pattern, `kinds` has those whose masks the positions fix, `chosen` those that choose keys by the data,
`grammar` their text, `family` what hardware lists, with containment.
"""

from dse.sparsity.attention.grammar import parse_attention

__all__ = ["parse_attention"]
