"""Sparsity patterns, storage formats and pruning.

A pattern says which elements of a weight matrix may be nonzero (`pattern`, `kinds`, `hierarchy`, `grammar`; `pruned_pattern` with
a sparsity). A format says how many bits it takes to store their positions (`format`, `layout`, `rank`); `encoding` writes and reads these
bits (with `tree` and `rank`). `windows` covers a pattern by windows of another. `pruning` finds the best mask of a pattern, `mask` checks a
mask, `statistics` counts a real one and `activation_statistics` recorded activations, and `expectation` and `columns` compute means over
random masks. `quantize` writes and reads matrices in number formats with scales (`number_codes` the single numbers), whose bits `layout`
counts, too. The patterns of attention scores are in `attention`.

>>> import numpy as np
>>> from dse.sparsity import apply
>>> apply(np.arange(8.0).reshape(1, 8), "2:4").astype(int)
array([[0, 0, 1, 1, 0, 0, 1, 1]])
"""

import importlib
from typing import TYPE_CHECKING

from dse.sparsity.attention import parse_attention
from dse.sparsity.format import best_format
from dse.sparsity.grammar import parse
from dse.sparsity.mask import legal
from dse.sparsity.windows import expand_weights

if TYPE_CHECKING:
    from dse.sparsity.encoding import count, decode, encode
    from dse.sparsity.pruning import apply, nearest, random_mask
    from dse.sparsity.quantize import decode_numbers, encode_numbers

__all__ = [
    "apply", "best_format", "count", "decode", "decode_numbers", "encode", "encode_numbers", "expand_weights", "legal", "nearest", "parse",
    "parse_attention", "random_mask",
]  # fmt: skip

_MODULES = {
    "apply": "pruning", "nearest": "pruning", "random_mask": "pruning", "count": "encoding", "decode": "encoding", "encode": "encoding",
    "decode_numbers": "quantize", "encode_numbers": "quantize",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import the functions that need JAX when they are first used: it takes a second to import."""
    if name not in _MODULES:
        raise AttributeError(f"module 'dse.sparsity' has no attribute '{name}'")
    return getattr(importlib.import_module(f"dse.sparsity.{_MODULES[name]}"), name)
