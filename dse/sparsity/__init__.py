"""What may be nonzero (`pattern`, `kinds`, `grammar`), how many bits it takes to say where (`format`), and masks themselves.

from dse.sparsity import apply
mask = apply(weights, "64:2:8")
"""

from typing import TYPE_CHECKING, Any

from dse.sparsity.grammar import parse
from dse.sparsity.mask import legal

if TYPE_CHECKING:
    from dse.sparsity.choose import apply, nearest, random_mask
    from dse.sparsity.encoding import decode, encode

__all__ = ["apply", "decode", "encode", "legal", "nearest", "parse", "random_mask"]


def __getattr__(name: str) -> Any:
    """JAX takes a second to import: only when masks are chosen."""
    if name not in __all__:
        raise AttributeError(f"module 'dse.sparsity' has no attribute '{name}'")
    from dse.sparsity import choose, encoding

    return getattr(encoding if name in ("encode", "decode") else choose, name)
