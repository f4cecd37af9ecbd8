"""What may be nonzero (`pattern`, `kinds`, `grammar`), how many bits it takes to say where (`format`), and masks themselves.

from dse.sparsity import apply
mask = apply(weights, "64:2:8")
"""

import importlib
from typing import TYPE_CHECKING, Any

from dse.sparsity.format import best_format
from dse.sparsity.grammar import parse
from dse.sparsity.mask import legal

if TYPE_CHECKING:
    from dse.sparsity.encoding import count, decode, encode
    from dse.sparsity.pruning import apply, nearest, random_mask

__all__ = ["apply", "best_format", "count", "decode", "encode", "legal", "nearest", "parse", "random_mask"]

_LAZY = {
    "apply": "pruning",
    "nearest": "pruning",
    "random_mask": "pruning",
    "count": "encoding",
    "decode": "encoding",
    "encode": "encoding",
}


def __getattr__(name: str) -> Any:
    """JAX takes a second to import: only when masks are chosen."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dse.sparsity' has no attribute '{name}'")
    return getattr(importlib.import_module(f"dse.sparsity.{_LAZY[name]}"), name)
